#include "server/lua/sandbox.h"

#include <lualib.h>
#include <stdbool.h>

#include "server/lua/libraries.h"
#include "server/lua/readonly.h"

/* Keys of the registry: addresses, which no script can have. */
static char globals_key;     /* the globals of all scripts */
static char environment_key; /* their proxy, which scripts have */
static char keys_key;        /* the names of the lists */
static char argv_key;

static const char *const allowed[] = {
    "_VERSION", "assert", "error",  "getmetatable", "ipairs",
    "rawequal", "rawget", "select", "tonumber",     "type",
};

static void push_registered(lua_State *L, char *key)
{
    lua_pushlightuserdata(L, key);
    lua_rawget(L, LUA_REGISTRYINDEX);
}

/* Removes it from the stack. */
static void set_registered(lua_State *L, char *key)
{
    lua_pushlightuserdata(L, key);
    lua_insert(L, -2);
    lua_rawset(L, LUA_REGISTRYINDEX);
}

static int refuse_read(lua_State *L)
{
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "?";

    return luaL_error(L, "Script attempted to access nonexistent global variable '%s'", name);
}

void okv_sandbox_add(lua_State *L, const char *name)
{
    okv_readonly_protect(L);
    push_registered(L, &globals_key);
    lua_insert(L, -2);
    lua_setfield(L, -2, name);
    lua_pop(L, 1);
}

/* ---- libraries ---- */

static void open_library(lua_State *L, lua_CFunction open, const char *name)
{
    lua_pushcfunction(L, open);
    lua_pushstring(L, name);
    lua_call(L, 1, 0);
}

/* A library of Lua, with what replaces parts of it. */
static void add_library(lua_State *L, const char *name, void (*replace)(lua_State *L))
{
    lua_getglobal(L, name);
    replace(L);
    okv_sandbox_add(L, name);
}

static void add_new(lua_State *L, const char *name, void (*add)(lua_State *L))
{
    lua_newtable(L);
    add(L);
    okv_sandbox_add(L, name);
}

/* Strings have methods by the metatable of strings, which has the library as it is. */
static void protect_strings(lua_State *L)
{
    lua_pushliteral(L, "");
    okv_readonly_push_metatable(L);
    push_registered(L, &globals_key);
    lua_getfield(L, -1, "string");
    lua_setfield(L, -3, "__index");
    lua_pop(L, 1);
    lua_pushnil(L); /* to index a string is another error */
    lua_setfield(L, -2, "__newindex");
    lua_setmetatable(L, -2);
    lua_pop(L, 1);
}

static void make_globals(lua_State *L)
{
    lua_newtable(L);
    for (unsigned i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        lua_getglobal(L, allowed[i]);
        lua_setfield(L, -2, allowed[i]);
    }
    okv_lua_guard_base(L);
    okv_lua_add_base(L);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, refuse_read);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    set_registered(L, &globals_key);
}

static void make_environment(lua_State *L)
{
    push_registered(L, &globals_key);
    okv_readonly_protect(L);
    lua_pushvalue(L, -1);
    okv_sandbox_set(L, "_G");
    set_registered(L, &environment_key);
}

int okv_sandbox_open(lua_State *L)
{
    open_library(L, luaopen_base, "");
    open_library(L, luaopen_table, LUA_TABLIBNAME);
    open_library(L, luaopen_string, LUA_STRLIBNAME);
    open_library(L, luaopen_math, LUA_MATHLIBNAME);
    okv_readonly_begin(L);
    make_globals(L);
    make_environment(L);
    add_library(L, LUA_TABLIBNAME, okv_lua_add_tables);
    add_library(L, LUA_STRLIBNAME, okv_lua_add_strings);
    add_library(L, LUA_MATHLIBNAME, okv_lua_add_math);
    add_new(L, "bit", okv_lua_add_bit);
    add_new(L, "cjson", okv_lua_add_cjson);
    add_new(L, "cmsgpack", okv_lua_add_cmsgpack);
    add_new(L, "struct", okv_lua_add_struct);
    protect_strings(L);
    lua_pushliteral(L, "KEYS");
    set_registered(L, &keys_key);
    lua_pushliteral(L, "ARGV");
    set_registered(L, &argv_key);
    okv_sandbox_leave(L);
    return 0;
}

/* ---- a script ---- */

void okv_sandbox_set(lua_State *L, const char *name)
{
    push_registered(L, &globals_key);
    lua_pushstring(L, name);
    lua_pushvalue(L, -3);
    lua_rawset(L, -3);
    lua_pop(L, 2);
}

void okv_sandbox_enter(lua_State *L)
{
    push_registered(L, &environment_key);
    lua_pushvalue(L, -1);
    lua_replace(L, LUA_GLOBALSINDEX);
    okv_lua_begin_random(L);
}

/* Needs no memory: the name is a string that exists, and the global is there. */
static void clear_list(lua_State *L, char *name_key)
{
    push_registered(L, &globals_key);
    push_registered(L, name_key);
    lua_pushboolean(L, false);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

void okv_sandbox_leave(lua_State *L)
{
    clear_list(L, &keys_key);
    clear_list(L, &argv_key);
    push_registered(L, &globals_key);
    lua_replace(L, LUA_GLOBALSINDEX);
}
