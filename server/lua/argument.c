#include "server/lua/argument.h"

#include <lauxlib.h>

void okv_lua_count_bytes(struct okv_lua_meter *meter, uint64_t length)
{
    for (; length > OKV_LUA_PIECE; length -= OKV_LUA_PIECE)
        okv_lua_count(meter, OKV_LUA_PIECE);
    okv_lua_count(meter, length);
}

bool okv_lua_may_be_number(lua_State *L, int index)
{
    size_t length = lua_objlen(L, index);

    if (length > OKV_LUA_NUMBER_MAX)
        return false;
    okv_lua_spend(L, OKV_LUA_NUMBER + length * OKV_LUA_NUMBER_BYTE);
    return true;
}

void okv_lua_check_number_text(lua_State *L, int index)
{
    if (!okv_lua_may_be_number(L, index))
        luaL_typerror(L, index, lua_typename(L, LUA_TNUMBER));
}

bool okv_lua_to_number(lua_State *L, int index, double *number)
{
    if (lua_type(L, index) == LUA_TSTRING && !okv_lua_may_be_number(L, index))
        return false;
    *number = lua_tonumber(L, index);
    return *number != 0 || lua_isnumber(L, index);
}

double okv_lua_check_number(lua_State *L, int index)
{
    double number;

    if (!okv_lua_to_number(L, index, &number))
        luaL_typerror(L, index, lua_typename(L, LUA_TNUMBER));
    return number;
}

int64_t okv_lua_truncate(double number)
{
    if (number >= 0x1p63)
        return INT64_MAX;
    return number > -0x1p63 ? (int64_t)number : INT64_MIN;
}

int64_t okv_lua_check_integer(lua_State *L, int index)
{
    return okv_lua_truncate(okv_lua_check_number(L, index));
}

int64_t okv_lua_opt_integer(lua_State *L, int index, int64_t otherwise)
{
    return lua_isnoneornil(L, index) ? otherwise : okv_lua_check_integer(L, index);
}
