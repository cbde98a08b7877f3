/* Functions of Lua that take numbers. They convert a text without a limit, so what they are given
 * is looked at first. */
#include "server/lua/argument.h"
#include "server/lua/libraries.h"

/* Pays for the arguments that are texts. Raises an error at one that is too long for a number. */
static void look_at_arguments(lua_State *L)
{
    int count = lua_gettop(L);

    okv_lua_spend(L, (uint64_t)count);
    for (int i = 1; i <= count; i++)
        if (lua_type(L, i) == LUA_TSTRING)
            okv_lua_check_number_text(L, i);
}

/* In its place on the stack, so that errors name it as Lua does. */
static int call_original(lua_State *L)
{
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

static int call_math(lua_State *L)
{
    look_at_arguments(L);
    return call_original(L);
}

/* A text that is too long is no number. */
static int base_tonumber(lua_State *L)
{
    if (lua_type(L, 2) == LUA_TSTRING)
        okv_lua_check_number_text(L, 2);
    if (lua_type(L, 1) == LUA_TSTRING && !okv_lua_may_be_number(L, 1)) {
        lua_pushnil(L);
        return 1;
    }
    return call_original(L);
}

static int base_select(lua_State *L)
{
    if (lua_type(L, 1) == LUA_TSTRING)
        okv_lua_check_number_text(L, 1);
    okv_lua_spend(L, (uint64_t)lua_gettop(L));
    return call_original(L);
}

/* The second argument is a level. */
static int base_error(lua_State *L)
{
    if (lua_type(L, 2) == LUA_TSTRING)
        okv_lua_check_number_text(L, 2);
    return call_original(L);
}

static void replace(lua_State *L, const char *name, lua_CFunction by)
{
    lua_getfield(L, -1, name);
    lua_pushcclosure(L, by, 1);
    lua_setfield(L, -2, name);
}

void okv_lua_guard_base(lua_State *L)
{
    replace(L, "error", base_error);
    replace(L, "select", base_select);
    replace(L, "tonumber", base_tonumber);
}

void okv_lua_add_math(lua_State *L)
{
    for (lua_pushnil(L); lua_next(L, -2);) {
        if (!lua_iscfunction(L, -1)) {
            lua_pop(L, 1);
            continue;
        }
        lua_pushcclosure(L, call_math, 1);
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, -4);
    }
    okv_lua_add_random(L);
}
