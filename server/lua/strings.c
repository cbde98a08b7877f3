/* Functions of Lua's library `string`, which count what they do. */
#include "server/lua/strings.h"

#include <ctype.h>

#include "server/lua/argument.h"
#include "server/lua/budget.h"
#include "server/lua/libraries.h"
#include "server/lua/output.h"
#include "server/lua/slices.h"

/* Work of a byte that becomes a number, and of a number that becomes one. */
#define BYTE 2u
#define NUMBER 10u
/* Work of a byte that changes. */
#define CASE 2u
/* Results up to this size need no memory of Lua while they are made. */
#define SMALL 256u

/* ---- bytes and parts ---- */

static int string_byte(lua_State *L)
{
    size_t length;
    const char *text = luaL_checklstring(L, 1, &length);
    int64_t from = okv_lua_place(okv_lua_opt_integer(L, 2, 1), length);
    int64_t to = okv_lua_place(okv_lua_opt_integer(L, 3, from), length);

    from = from < 1 ? 1 : from;
    to = to > (int64_t)length ? (int64_t)length : to;
    if (from > to)
        return 0;
    if (to - from >= LUAI_MAXCSTACK)
        return luaL_error(L, "string slice too long");
    int count = (int)(to - from + 1);
    okv_lua_spend(L, OKV_LUA_CALL + (uint64_t)count * BYTE);
    luaL_checkstack(L, count, "string slice too long");
    for (int i = 0; i < count; i++)
        lua_pushinteger(L, (unsigned char)text[from - 1 + i]);
    return count;
}

static int string_char(lua_State *L)
{
    int count = lua_gettop(L);
    struct okv_lua_output output;

    okv_lua_spend(L, OKV_LUA_CALL + (uint64_t)count * NUMBER);
    okv_lua_output_begin(L, &output);
    for (int i = 1; i <= count; i++) {
        double number = okv_lua_check_number(L, i);
        luaL_argcheck(L, number > -1 && number < 256, i, "invalid value");
        okv_lua_output_byte(L, &output, (int)number);
    }
    okv_lua_output_push(L, &output);
    return 1;
}

static int string_sub(lua_State *L)
{
    size_t length;
    const char *text = luaL_checklstring(L, 1, &length);
    int64_t from = okv_lua_place(okv_lua_check_integer(L, 2), length);
    int64_t to = okv_lua_place(okv_lua_opt_integer(L, 3, -1), length);

    from = from < 1 ? 1 : from;
    to = to > (int64_t)length ? (int64_t)length : to;
    to = to < from ? from - 1 : to;
    okv_lua_spend(L, OKV_LUA_CALL + (uint64_t)(to - from + 1));
    if (from > to)
        lua_pushliteral(L, "");
    else
        okv_lua_push_bytes(L, text + from - 1, (size_t)(to - from + 1));
    return 1;
}

/* ---- as long as the text ---- */

/* Makes bytes `from` to `to` of the result. */
typedef void make_fn(char *result, const char *text, size_t length, size_t from, size_t to);

static void make_lower(char *result, const char *text, size_t length, size_t from, size_t to)
{
    (void)length;
    for (size_t i = from; i < to; i++)
        result[i] = (char)tolower((unsigned char)text[i]);
}

static void make_upper(char *result, const char *text, size_t length, size_t from, size_t to)
{
    (void)length;
    for (size_t i = from; i < to; i++)
        result[i] = (char)toupper((unsigned char)text[i]);
}

static void make_reverse(char *result, const char *text, size_t length, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        result[i] = text[length - 1 - i];
}

static int change(lua_State *L, make_fn *make)
{
    size_t length;
    const char *text = luaL_checklstring(L, 1, &length);
    char small[SMALL];

    okv_lua_spend(L, OKV_LUA_CALL);
    char *result = length <= SMALL ? small : okv_lua_new_bytes(L, length);
    for (size_t at = 0, step; at < length; at += step) {
        step = okv_lua_slice(length - at);
        okv_lua_spend(L, step * CASE);
        make(result, text, length, at, at + step);
    }
    okv_lua_push_bytes(L, result, length);
    return 1;
}

static int string_lower(lua_State *L)
{
    return change(L, make_lower);
}

static int string_upper(lua_State *L)
{
    return change(L, make_upper);
}

static int string_reverse(lua_State *L)
{
    return change(L, make_reverse);
}

/* ---- longer ---- */

/* `size` is a multiple of `length`. What is there already is copied, too. */
static void repeat(lua_State *L, char *result, size_t size, const char *text, size_t length)
{
    okv_lua_copy(L, result, text, length);
    for (size_t done = length, step; done < size; done += step) {
        step = done < size - done ? done : size - done;
        okv_lua_copy(L, result + done, result, step);
    }
}

static int string_rep(lua_State *L)
{
    size_t length;
    const char *text = luaL_checklstring(L, 1, &length);
    int64_t count = okv_lua_check_integer(L, 2);
    char small[SMALL];

    okv_lua_spend(L, OKV_LUA_CALL);
    if (count <= 0 || length == 0) {
        lua_pushliteral(L, "");
        return 1;
    }
    if ((uint64_t)count > (SIZE_MAX / 4) / length)
        return luaL_error(L, "resulting string too large");
    size_t size = length * (size_t)count;
    char *result = size <= SMALL ? small : okv_lua_new_bytes(L, size);
    repeat(L, result, size, text, length);
    okv_lua_push_bytes(L, result, size);
    return 1;
}

void okv_lua_add_strings(lua_State *L)
{
    static const luaL_Reg functions[] = {{"byte", string_byte},       {"char", string_char},
                                         {"lower", string_lower},     {"rep", string_rep},
                                         {"reverse", string_reverse}, {"sub", string_sub},
                                         {"upper", string_upper},     {NULL, NULL}};

    okv_lua_add(L, functions);
    okv_lua_add_search(L);
    okv_lua_add_format(L);
    lua_pushnil(L);
    lua_setfield(L, -2, "dump");
}
