/* The parts of the library "cjson" (cjson.c). */
#ifndef OKV_SERVER_LUA_JSON_H
#define OKV_SERVER_LUA_JSON_H

#include <lua.h>

/* Tables within tables that are written and read. */
#define OKV_LUA_JSON_DEPTH 1000

/* Slots that an array may have for each of its elements, and in any case. */
#define OKV_LUA_JSON_RATIO 2
#define OKV_LUA_JSON_SAFE 10

/* Digits of a number that is written. */
#define OKV_LUA_JSON_PRECISION 14

/* Functions of Lua. */
int okv_lua_json_encode(lua_State *L);
int okv_lua_json_decode(lua_State *L);

#endif
