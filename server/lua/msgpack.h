/* The parts of the library "cmsgpack" (cmsgpack.c). */
#ifndef OKV_SERVER_LUA_MSGPACK_H
#define OKV_SERVER_LUA_MSGPACK_H

#include <lua.h>

/* The first bytes of a value (https://github.com/msgpack/msgpack/blob/master/spec.md), without
 * those of "bin", "ext" and "timestamp", which the library does not know. */
enum {
    OKV_MSGPACK_FIX_MAP = 0x80,    /* to 0x8f */
    OKV_MSGPACK_FIX_ARRAY = 0x90,  /* to 0x9f */
    OKV_MSGPACK_FIX_STRING = 0xa0, /* to 0xbf */
    OKV_MSGPACK_NIL = 0xc0,
    OKV_MSGPACK_FALSE = 0xc2,
    OKV_MSGPACK_TRUE = 0xc3,
    OKV_MSGPACK_FLOAT = 0xca,
    OKV_MSGPACK_DOUBLE = 0xcb,
    OKV_MSGPACK_UINT8 = 0xcc,
    OKV_MSGPACK_UINT16 = 0xcd,
    OKV_MSGPACK_UINT32 = 0xce,
    OKV_MSGPACK_UINT64 = 0xcf,
    OKV_MSGPACK_INT8 = 0xd0,
    OKV_MSGPACK_INT16 = 0xd1,
    OKV_MSGPACK_INT32 = 0xd2,
    OKV_MSGPACK_INT64 = 0xd3,
    OKV_MSGPACK_STRING8 = 0xd9,
    OKV_MSGPACK_STRING16 = 0xda,
    OKV_MSGPACK_STRING32 = 0xdb,
    OKV_MSGPACK_ARRAY16 = 0xdc,
    OKV_MSGPACK_ARRAY32 = 0xdd,
    OKV_MSGPACK_MAP16 = 0xde,
    OKV_MSGPACK_MAP32 = 0xdf,
    OKV_MSGPACK_NEGATIVE = 0xe0, /* to 0xff */
};

/* Functions of Lua. */
int okv_lua_msgpack_pack(lua_State *L);
int okv_lua_msgpack_unpack(lua_State *L);
int okv_lua_msgpack_unpack_one(lua_State *L);
int okv_lua_msgpack_unpack_limit(lua_State *L);

#endif
