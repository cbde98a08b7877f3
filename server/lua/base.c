/* Functions of Lua's base library that write, load or take long, as scripts may have them. */
#include <lauxlib.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "server/lua/argument.h"
#include "server/lua/budget.h"
#include "server/lua/libraries.h"
#include "server/lua/machine.h"

/* Work of a step of the collector. */
#define COLLECT 2000u

/* ---- metatables and fields ---- */

static int base_setmetatable(lua_State *L)
{
    int type = lua_type(L, 2);

    okv_lua_need_own(L, 1);
    luaL_argcheck(L, type == LUA_TNIL || type == LUA_TTABLE, 2, "nil or table expected");
    if (luaL_getmetafield(L, 1, "__metatable"))
        return luaL_error(L, "cannot change a protected metatable");
    lua_settop(L, 2);
    lua_setmetatable(L, 1);
    return 1;
}

static int base_rawset(lua_State *L)
{
    okv_lua_need_own(L, 1);
    luaL_checkany(L, 2);
    luaL_checkany(L, 3);
    lua_settop(L, 3);
    lua_rawset(L, 1);
    return 1;
}

/* ---- calls ---- */

/* Redis raises errors as tables, and gives a script that catches one its text. */
static int base_pcall(lua_State *L)
{
    luaL_checkany(L, 1);
    int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);

    if (status && lua_istable(L, -1)) {
        lua_pushliteral(L, "err");
        lua_rawget(L, -2);
        lua_remove(L, lua_isstring(L, -1) ? -2 : -1);
    }
    lua_pushboolean(L, status == 0);
    lua_insert(L, 1);
    return lua_gettop(L);
}

/* Lua's own calls the handler where the error was raised. There an error of a limit, which comes
 * from the hook, has switched the hook off: the handler would have no limit. Here the error has
 * ended what was called, and the handler finds nothing of it on the stack. */
static int base_xpcall(lua_State *L)
{
    luaL_checkany(L, 2);
    lua_settop(L, 2);
    lua_pushvalue(L, 1);
    int status = lua_pcall(L, 0, LUA_MULTRET, 0);

    lua_pushboolean(L, status == 0);
    lua_replace(L, 1);
    if (status == 0 || status == LUA_ERRMEM) {
        lua_remove(L, 2);
        return lua_gettop(L);
    }
    if (lua_pcall(L, 1, 1, 0)) {
        lua_pop(L, 1);
        lua_pushliteral(L, "error in error handling");
    }
    return 2;
}

/* Passes over empty slots, of which Lua says nothing; and one instruction may call it for each
 * operand of a chain of `..`. */
static int base_next(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    okv_lua_spend(L, OKV_LUA_INSTRUCTION);
    lua_settop(L, 2);
    if (lua_next(L, 1))
        return 2;
    lua_pushnil(L);
    return 1;
}

static int base_pairs(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_pushvalue(L, lua_upvalueindex(1)); /* next */
    lua_pushvalue(L, 1);
    lua_pushnil(L);
    return 3;
}

/* An index that no table of a script can have is one that is not there. */
static int64_t index_of(lua_State *L, int argument, int64_t otherwise)
{
    int64_t number = okv_lua_opt_integer(L, argument, otherwise);

    return number > INT_MAX ? INT_MAX : number < INT_MIN ? INT_MIN : number;
}

static int base_unpack(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    okv_lua_spend(L, OKV_LUA_INSTRUCTION); /* the length may take long */
    int64_t from = index_of(L, 2, 1);
    int64_t to = index_of(L, 3, (int64_t)lua_objlen(L, 1));

    if (from > to)
        return 0;
    if (to - from >= INT_MAX || !lua_checkstack(L, (int)(to - from + 1)))
        return luaL_error(L, "too many results to unpack");
    okv_lua_spend(L, (uint64_t)(to - from + 1) * OKV_LUA_INSTRUCTION);
    for (int64_t i = from; i <= to; i++)
        lua_rawgeti(L, 1, (int)i);
    return (int)(to - from + 1);
}

/* ---- text that becomes a function ---- */

static int loaded(lua_State *L, bool is_function)
{
    if (is_function)
        return 1;
    lua_pushnil(L);
    lua_insert(L, -2);
    return 2;
}

static int base_loadstring(lua_State *L)
{
    size_t length;
    const char *text = luaL_checklstring(L, 1, &length);

    return loaded(L, okv_lua_compile(L, text, length, luaL_optstring(L, 2, text)));
}

/* Moves the piece on the top, a number or a text, to the end of the text. Returns its length. */
static size_t add_piece(lua_State *L, luaL_Buffer *text)
{
    size_t length = 0;

    if (lua_type(L, -1) == LUA_TNUMBER)
        okv_lua_spend(L, OKV_LUA_NUMBER);
    if (lua_isnil(L, -1))
        lua_pop(L, 1);
    else if (lua_tolstring(L, -1, &length))
        luaL_addvalue(text);
    else
        luaL_error(L, "reader function must return a string");
    okv_lua_spend(L, OKV_LUA_CALL + length);
    return length;
}

/* The pieces of the text come from a function, which may be one of C. */
static int base_load(lua_State *L)
{
    const char *name = luaL_optstring(L, 2, "=(load)");
    luaL_Buffer pieces;
    size_t length = 1;

    luaL_checktype(L, 1, LUA_TFUNCTION);
    luaL_buffinit(L, &pieces);
    while (length > 0) {
        lua_pushvalue(L, 1);
        lua_call(L, 0, 1);
        length = add_piece(L, &pieces);
    }
    luaL_pushresult(&pieces);
    const char *text = lua_tolstring(L, -1, &length);
    return loaded(L, okv_lua_compile(L, text, length, name));
}

/* ---- the rest ---- */

/* Without the addresses of the server's memory. */
static int base_tostring(lua_State *L)
{
    luaL_checkany(L, 1);
    if (luaL_callmeta(L, 1, "__tostring"))
        return 1;
    if (lua_isstring(L, 1)) {
        lua_pushvalue(L, 1);
        lua_tostring(L, -1);
    } else if (lua_isboolean(L, 1)) {
        lua_pushstring(L, lua_toboolean(L, 1) ? "true" : "false");
    } else if (lua_isnil(L, 1)) {
        lua_pushliteral(L, "nil");
    } else {
        lua_pushstring(L, luaL_typename(L, 1));
    }
    return 1;
}

/* A script cannot stop the collector. It pays for what it has added, and the collector goes on by
 * as much: the rest of the machine is no garbage of this script. */
static int base_collectgarbage(lua_State *L)
{
    static const char *const options[] = {"collect", "count",    "step",       "stop",
                                          "restart", "setpause", "setstepmul", NULL};
    int option = luaL_checkoption(L, 1, "collect", options);
    uint64_t added = okv_lua_added(L);

    if (option == 1) {
        lua_pushnumber(L, (lua_Number)okv_lua_memory(okv_lua_of(L)) / 1024);
        return 1;
    }
    if (option == 0 || option == 2) {
        okv_lua_spend(L, COLLECT + added);
        lua_gc(L, LUA_GCSTEP, (int)(added >> 10) + 1);
    }
    lua_pushinteger(L, 0);
    return 1;
}

static int base_gcinfo(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)(okv_lua_memory(okv_lua_of(L)) / 1024));
    return 1;
}

void okv_lua_add_base(lua_State *L)
{
    static const luaL_Reg functions[] = {{"collectgarbage", base_collectgarbage},
                                         {"gcinfo", base_gcinfo},
                                         {"load", base_load},
                                         {"loadstring", base_loadstring},
                                         {"next", base_next},
                                         {"pcall", base_pcall},
                                         {"rawset", base_rawset},
                                         {"setmetatable", base_setmetatable},
                                         {"tostring", base_tostring},
                                         {"unpack", base_unpack},
                                         {"xpcall", base_xpcall},
                                         {NULL, NULL}};

    okv_lua_add(L, functions);
    lua_getfield(L, -1, "next");
    lua_pushcclosure(L, base_pairs, 1);
    lua_setfield(L, -2, "pairs");
}
