/* The libraries of scripts. Each function adds its own to the table on the top of the stack, or
 * replaces what Lua has there. Raises errors of Lua. */
#ifndef OKV_SERVER_LUA_LIBRARIES_H
#define OKV_SERVER_LUA_LIBRARIES_H

#include <lauxlib.h>

/* The functions that every script has without a table. */
void okv_lua_add_base(lua_State *L);
/* error, select and tonumber look at texts before they take them for numbers. */
void okv_lua_guard_base(lua_State *L);
/* All of its functions but dump, which goes. They count their work. */
void okv_lua_add_strings(lua_State *L);
/* All but getn and setn, likewise; those that write leave read-only tables alone. */
void okv_lua_add_tables(lua_State *L);
/* All look at texts as above; random and randomseed have a state of the script. */
void okv_lua_add_math(lua_State *L);
void okv_lua_add_random(lua_State *L);
void okv_lua_begin_random(lua_State *L);
/* Those that scripts of Redis have beside Lua's own. */
void okv_lua_add_bit(lua_State *L);
void okv_lua_add_cjson(lua_State *L);
void okv_lua_add_cmsgpack(lua_State *L);
void okv_lua_add_struct(lua_State *L);

/* luaL_register() into the table on the top of the stack. */
static inline void okv_lua_add(lua_State *L, const luaL_Reg *functions)
{
    luaL_register(L, NULL, functions);
}

#endif
