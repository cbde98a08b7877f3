/* The parts of the library `string`: see libraries.h. */
#ifndef OKV_SERVER_LUA_STRINGS_H
#define OKV_SERVER_LUA_STRINGS_H

#include <lauxlib.h>
#include <stddef.h>
#include <stdint.h>

/* find, match, gmatch and gsub. */
void okv_lua_add_search(lua_State *L);
void okv_lua_add_format(lua_State *L);

/* A place in a text of `length` bytes that an argument names, where -1 is that of the last byte:
 * from 0, which is before the first. */
static inline int64_t okv_lua_place(int64_t argument, size_t length)
{
    int64_t place = argument < 0 ? argument + (int64_t)length + 1 : argument;

    return place < 0 ? 0 : place;
}

#endif
