/*
 * The library "cjson" (https://www.kyne.com.au/~mark/software/lua-cjson-manual.html).
 *
 * The functions that change settings check what they are given and return it, as if it held from
 * then on; but nothing that a script sets outlives it, and the settings stay what they are when it
 * begins. Raising an error instead would end scripts that ask for what they would get anyway, or
 * that prepare for values they never meet: a value that needs another setting is refused when it
 * comes. Only a precision is ignored without a word.
 */
#include <limits.h>
#include <stdio.h>

#include "server/lua/argument.h"
#include "server/lua/json.h"
#include "server/lua/libraries.h"

/* ---- settings ---- */

static void begin_setting(lua_State *L, int arguments)
{
    luaL_argcheck(L, lua_gettop(L) <= arguments, arguments + 1, "found too many arguments");
    lua_settop(L, arguments);
}

/* Pushes the setting, which stays as it is for nil. Redis blames the first argument always. */
static void push_integer(lua_State *L, int index, int setting, int least, int most)
{
    char why[64];

    if (!lua_isnil(L, index)) {
        int64_t asked = okv_lua_check_integer(L, index);

        snprintf(why, sizeof why, "expected integer between %d and %d", least, most);
        luaL_argcheck(L, asked >= least && asked <= most, 1, why);
        setting = (int)asked;
    }
    lua_pushinteger(L, setting);
}

/* Likewise: one of `names`, of which the first two are false and true as well. */
static void push_choice(lua_State *L, int index, int setting, const char *const *names)
{
    if (lua_isboolean(L, index))
        setting = lua_toboolean(L, index);
    else if (!lua_isnil(L, index))
        setting = luaL_checkoption(L, index, NULL, names);
    if (setting <= 1)
        lua_pushboolean(L, setting);
    else
        lua_pushstring(L, names[setting]);
}

static const char *const switches[] = {"off", "on", NULL};

static int json_encode_sparse_array(lua_State *L)
{
    begin_setting(L, 3);
    push_choice(L, 1, 0, switches);
    push_integer(L, 2, OKV_LUA_JSON_RATIO, 0, INT_MAX);
    push_integer(L, 3, OKV_LUA_JSON_SAFE, 0, INT_MAX);
    return 3;
}

/* encode_max_depth and decode_max_depth. */
static int json_max_depth(lua_State *L)
{
    begin_setting(L, 1);
    push_integer(L, 1, OKV_LUA_JSON_DEPTH, 1, INT_MAX);
    return 1;
}

static int json_encode_number_precision(lua_State *L)
{
    begin_setting(L, 1);
    push_integer(L, 1, OKV_LUA_JSON_PRECISION, 1, OKV_LUA_JSON_PRECISION);
    return 1;
}

/* encode_keep_buffer and decode_invalid_numbers. */
static int json_switch(lua_State *L)
{
    begin_setting(L, 1);
    push_choice(L, 1, 1, switches);
    return 1;
}

static int json_encode_invalid_numbers(lua_State *L)
{
    static const char *const names[] = {"off", "on", "null", NULL};

    begin_setting(L, 1);
    push_choice(L, 1, 0, names);
    return 1;
}

/* ---- the library ---- */

/* Another library with settings of its own. */
static int json_new(lua_State *L)
{
    lua_newtable(L);
    okv_lua_add_cjson(L);
    return 1;
}

void okv_lua_add_cjson(lua_State *L)
{
    static const luaL_Reg functions[] = {{"decode", okv_lua_json_decode},
                                         {"decode_invalid_numbers", json_switch},
                                         {"decode_max_depth", json_max_depth},
                                         {"encode", okv_lua_json_encode},
                                         {"encode_invalid_numbers", json_encode_invalid_numbers},
                                         {"encode_keep_buffer", json_switch},
                                         {"encode_max_depth", json_max_depth},
                                         {"encode_number_precision", json_encode_number_precision},
                                         {"encode_sparse_array", json_encode_sparse_array},
                                         {"new", json_new},
                                         {NULL, NULL}};

    okv_lua_add(L, functions);
    lua_pushliteral(L, "cjson");
    lua_setfield(L, -2, "_NAME");
    lua_pushliteral(L, "2.1.0");
    lua_setfield(L, -2, "_VERSION");
    lua_pushlightuserdata(L, NULL);
    lua_setfield(L, -2, "null");
}
