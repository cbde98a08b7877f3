/* Functions of Lua's library `table`, which count what they do. */
#include "server/lua/tables.h"

#include <limits.h>
#include <stdbool.h>

#include "server/lua/argument.h"
#include "server/lua/libraries.h"
#include "server/lua/meter.h"
#include "server/lua/output.h"
#include "server/lua/slices.h"

/* Work of an element that is moved, and of one that is looked at. */
#define MOVE 20u
#define LOOK 30u
/* Work of a number that becomes a string. */
#define NUMBER 300u

/* The argument as an index. Those that no index can be are the least or the greatest one. */
static int index_of(lua_State *L, int argument)
{
    int64_t number = okv_lua_check_integer(L, argument);

    return number > INT_MAX ? INT_MAX : number < INT_MIN ? INT_MIN : (int)number;
}

static int size_of(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    okv_lua_spend(L, OKV_LUA_CALL);
    return (int)lua_objlen(L, 1);
}

/* ---- insert and remove ---- */

static void move(struct okv_lua_meter *meter, int from, int to)
{
    okv_lua_count(meter, MOVE);
    lua_rawgeti(meter->L, 1, from);
    lua_rawseti(meter->L, 1, to);
}

static int table_insert(lua_State *L)
{
    struct okv_lua_meter meter = {L, 0};

    okv_lua_need_own(L, 1);
    int end = size_of(L) + 1, at = end;
    switch (lua_gettop(L)) {
    case 2:
        break;
    case 3:
        at = index_of(L, 2);
        luaL_argcheck(L, at > INT_MIN && at < INT_MAX, 2, "position out of range");
        for (int i = end; i > at; i--)
            move(&meter, i - 1, i);
        break;
    default:
        return luaL_error(L, "wrong number of arguments to 'insert'");
    }
    okv_lua_settle(&meter);
    lua_rawseti(L, 1, at);
    return 0;
}

static int table_remove(lua_State *L)
{
    struct okv_lua_meter meter = {L, 0};

    okv_lua_need_own(L, 1);
    int size = size_of(L), at = lua_isnoneornil(L, 2) ? size : index_of(L, 2);
    if (at < 1 || at > size)
        return 0;
    lua_rawgeti(L, 1, at);
    for (; at < size; at++)
        move(&meter, at + 1, at);
    okv_lua_settle(&meter);
    lua_pushnil(L);
    lua_rawseti(L, 1, size);
    return 1;
}

/* ---- concat ---- */

static void add_element(lua_State *L, struct okv_lua_output *output, int index)
{
    size_t length;

    okv_lua_spend(L, LOOK);
    lua_rawgeti(L, 1, index);
    if (!lua_isstring(L, -1))
        luaL_error(L, "invalid value (%s) at index %d in table for 'concat'", luaL_typename(L, -1),
                   index);
    if (lua_type(L, -1) == LUA_TNUMBER)
        okv_lua_spend(L, NUMBER);
    const char *bytes = lua_tolstring(L, -1, &length);
    okv_lua_add_slices(L, output, bytes, length);
    lua_pop(L, 1);
}

static int table_concat(lua_State *L)
{
    size_t length;
    const char *separator = luaL_optlstring(L, 2, "", &length);
    int size = size_of(L), from = lua_isnoneornil(L, 3) ? 1 : index_of(L, 3);
    int to = lua_isnoneornil(L, 4) ? size : index_of(L, 4);
    struct okv_lua_output output;

    okv_lua_output_begin(L, &output);
    for (int64_t i = from; i <= to; i++) {
        add_element(L, &output, (int)i);
        if (i < to)
            okv_lua_add_slices(L, &output, separator, length);
    }
    okv_lua_output_push(L, &output);
    return 1;
}

/* ---- all elements ---- */

static int table_maxn(lua_State *L)
{
    struct okv_lua_meter meter = {L, 0};
    lua_Number most = 0;

    size_of(L);
    lua_settop(L, 1);
    lua_pushnil(L);
    while (lua_next(L, 1)) {
        okv_lua_count(&meter, LOOK);
        lua_pop(L, 1);
        if (lua_type(L, -1) == LUA_TNUMBER && lua_tonumber(L, -1) > most)
            most = lua_tonumber(L, -1);
    }
    okv_lua_settle(&meter);
    lua_pushnumber(L, most);
    return 1;
}

/* Calls the function for the key and the value on the top of the stack, removes the value, and
 * leaves a result instead, unless it is nil. */
static bool has_result(lua_State *L)
{
    okv_lua_spend(L, OKV_LUA_CALL);
    lua_pushvalue(L, 2);
    lua_insert(L, -2);
    lua_pushvalue(L, -3);
    lua_insert(L, -2);
    lua_call(L, 2, 1);
    if (!lua_isnil(L, -1))
        return true;
    lua_pop(L, 1);
    return false;
}

static int table_foreach(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_settop(L, 2);
    lua_pushnil(L);
    while (lua_next(L, 1))
        if (has_result(L))
            return 1;
    return 0;
}

static int table_foreachi(lua_State *L)
{
    int size = size_of(L);

    luaL_checktype(L, 2, LUA_TFUNCTION);
    for (int i = 1; i <= size; i++) {
        lua_settop(L, 2);
        lua_pushinteger(L, i);
        lua_rawgeti(L, 1, i);
        if (has_result(L))
            return 1;
    }
    return 0;
}

void okv_lua_add_tables(lua_State *L)
{
    static const luaL_Reg functions[] = {{"concat", table_concat},     {"foreach", table_foreach},
                                         {"foreachi", table_foreachi}, {"insert", table_insert},
                                         {"maxn", table_maxn},         {"remove", table_remove},
                                         {"sort", okv_lua_sort},       {NULL, NULL}};

    okv_lua_add(L, functions);
}
