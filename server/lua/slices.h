/* Bytes that are copied or compared in slices, each of which is paid for first (budget.h). */
#ifndef OKV_SERVER_LUA_SLICES_H
#define OKV_SERVER_LUA_SLICES_H

#include <lua.h>
#include <stddef.h>

#include "server/lua/output.h"

/* Bytes of the longest slice. */
#define OKV_LUA_SLICE ((size_t)32 << 10)

static inline size_t okv_lua_slice(size_t left)
{
    return left < OKV_LUA_SLICE ? left : OKV_LUA_SLICE;
}

/* memcpy() and memcmp(). */
void okv_lua_copy(lua_State *L, char *to, const char *from, size_t length);
int okv_lua_compare(lua_State *L, const char *a, const char *b, size_t length);

/* okv_lua_output_add(). */
void okv_lua_add_slices(lua_State *L, struct okv_lua_output *output, const char *bytes,
                        size_t length);

#endif
