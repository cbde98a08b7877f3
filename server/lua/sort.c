/* table.sort of Lua: Quicksort (https://doi.org/10.1145/359619.359631), which compares what Lua's
 * own compares, in the same order. */
#include <stdbool.h>

#include "server/lua/budget.h"
#include "server/lua/libraries.h"
#include "server/lua/slices.h"
#include "server/lua/tables.h"

/* Work of a comparison without a function, and of two values that change places. */
#define COMPARISON 30u
#define SWAP 40u

/* On the stack, 1 is the table, 2 the function or nil. */

static void refuse(lua_State *L)
{
    luaL_error(L, "invalid order function for sorting");
}

/* ---- comparisons ---- */

static bool is_text_less(lua_State *L, int a, int b)
{
    size_t a_length, b_length;
    const char *a_text = lua_tolstring(L, a, &a_length), *b_text = lua_tolstring(L, b, &b_length);
    size_t length = a_length < b_length ? a_length : b_length;
    int order = okv_lua_compare(L, a_text, b_text, length);

    return order != 0 ? order < 0 : a_length < b_length;
}

/* Of two values of the stack, whose indices are negative. */
static bool is_less(lua_State *L, int a, int b)
{
    if (lua_isnil(L, 2)) {
        okv_lua_spend(L, COMPARISON);
        if (lua_type(L, a) == LUA_TSTRING && lua_type(L, b) == LUA_TSTRING)
            return is_text_less(L, a, b);
        return lua_lessthan(L, a, b);
    }
    okv_lua_spend(L, OKV_LUA_CALL);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, a - 1);
    lua_pushvalue(L, b - 2);
    lua_call(L, 2, 1);
    bool result = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return result;
}

/* ---- steps ---- */

static void swap(lua_State *L, int i, int j)
{
    okv_lua_spend(L, SWAP);
    lua_rawgeti(L, 1, i);
    lua_rawgeti(L, 1, j);
    lua_rawseti(L, 1, i);
    lua_rawseti(L, 1, j);
}

/* Swaps two elements if the second one is less, and returns whether it was. */
static bool put_in_order(lua_State *L, int low, int high)
{
    lua_rawgeti(L, 1, low);
    lua_rawgeti(L, 1, high);
    bool is_wrong = is_less(L, -1, -2);
    lua_pop(L, 2);
    if (is_wrong)
        swap(L, low, high);
    return is_wrong;
}

/* The first element behind `i` that is not less than the one on the top of the stack, which is that
 * of high - 1: only functions that contradict themselves get past it, and past `high`. */
static int go_up(lua_State *L, int i, int high)
{
    bool is_before = true;

    while (is_before) {
        if (++i > high)
            refuse(L);
        lua_rawgeti(L, 1, i);
        is_before = is_less(L, -1, -2);
        lua_pop(L, 1);
    }
    return i;
}

/* The last element before `j` that is not greater. One before `low` may be equal. */
static int go_down(lua_State *L, int j, int low)
{
    bool is_behind = true;

    while (is_behind) {
        if (--j < low - 1 || j < 1)
            refuse(L);
        lua_rawgeti(L, 1, j);
        is_behind = is_less(L, -2, -1);
        lua_pop(L, 1);
    }
    return j;
}

/* Puts the element `middle` where it belongs, and returns where that is. */
static int split(lua_State *L, int low, int middle, int high)
{
    int i = low, j = high - 1;

    lua_rawgeti(L, 1, middle);
    swap(L, middle, j);
    for (;;) {
        i = go_up(L, i, high);
        j = go_down(L, j, low);
        if (j < i)
            break;
        swap(L, i, j);
    }
    lua_pop(L, 1);
    swap(L, high - 1, i);
    return i;
}

/* Calls itself for the smaller part, so that it is never deeper than a number has bits. */
static void sort_part(lua_State *L, int low, int high)
{
    while (low < high) {
        int middle = low + (high - low) / 2;

        put_in_order(L, low, high);
        if (high - low == 1)
            break;
        if (!put_in_order(L, low, middle))
            put_in_order(L, middle, high);
        if (high - low == 2)
            break;
        int at = split(L, low, middle, high);
        if (at - low < high - at) {
            sort_part(L, low, at - 1);
            low = at + 1;
        } else {
            sort_part(L, at + 1, high);
            high = at - 1;
        }
    }
}

int okv_lua_sort(lua_State *L)
{
    okv_lua_need_own(L, 1);
    okv_lua_spend(L, OKV_LUA_CALL);
    int size = (int)lua_objlen(L, 1);
    if (!lua_isnoneornil(L, 2))
        luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_settop(L, 2);
    sort_part(L, 1, size);
    return 0;
}
