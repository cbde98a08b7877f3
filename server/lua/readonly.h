/* Tables of the machine, which scripts read by proxies: an empty table whose metatable leads to the
 * real one and refuses writes. okv_lua_need_own() (budget.h) knows them. */
#ifndef OKV_SERVER_LUA_READONLY_H
#define OKV_SERVER_LUA_READONLY_H

#include <lua.h>

/* Once, in a new machine, before the others. All raise errors of Lua. */
void okv_readonly_begin(lua_State *L);
/* Pushes a metatable of a table of the machine. */
void okv_readonly_push_metatable(lua_State *L);
/* Replaces the table on the top of the stack by its proxy. */
void okv_readonly_protect(lua_State *L);

#endif
