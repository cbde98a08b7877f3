/* A part of the library `table`: see libraries.h. */
#ifndef OKV_SERVER_LUA_TABLES_H
#define OKV_SERVER_LUA_TABLES_H

#include <lua.h>

int okv_lua_sort(lua_State *L);

#endif
