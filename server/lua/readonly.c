#include "server/lua/readonly.h"

#include <lauxlib.h>
#include <stdbool.h>

#include "server/lua/budget.h"

/* Addresses, which no script can have. */
static char guard_key; /* in the registry: what getmetatable() returns for tables of the machine */
static char machine_key; /* in a metatable: its table outlives the script */

#define READ_ONLY "Attempt to modify a readonly table"

static int refuse_write(lua_State *L)
{
    return luaL_error(L, READ_ONLY);
}

void okv_lua_need_own(lua_State *L, int index)
{
    bool is_own = true;

    luaL_checktype(L, index, LUA_TTABLE);
    if (!lua_getmetatable(L, index))
        return;
    lua_pushlightuserdata(L, &machine_key);
    lua_rawget(L, -2);
    is_own = lua_isnil(L, -1);
    lua_pop(L, 2);
    if (!is_own) { /* without a place, as Redis has it */
        lua_pushliteral(L, READ_ONLY);
        lua_error(L);
    }
}

void okv_readonly_push_metatable(lua_State *L)
{
    lua_createtable(L, 0, 4);
    lua_pushlightuserdata(L, &machine_key);
    lua_pushboolean(L, true);
    lua_rawset(L, -3);
    lua_pushcfunction(L, refuse_write);
    lua_setfield(L, -2, "__newindex");
    lua_pushlightuserdata(L, &guard_key);
    lua_rawget(L, LUA_REGISTRYINDEX);
    lua_setfield(L, -2, "__metatable");
}

void okv_readonly_protect(lua_State *L)
{
    lua_newtable(L);
    okv_readonly_push_metatable(L);
    lua_pushvalue(L, -3);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_remove(L, -2);
}

/* An empty table whose own metatable is itself hidden by it. */
void okv_readonly_begin(lua_State *L)
{
    lua_newtable(L);
    lua_pushlightuserdata(L, &guard_key);
    lua_pushvalue(L, -2);
    lua_rawset(L, LUA_REGISTRYINDEX);
    okv_readonly_push_metatable(L);
    lua_setmetatable(L, -2);
    lua_pop(L, 1);
}
