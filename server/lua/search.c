/* find, match, gmatch and gsub of Lua's library `string`. */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "server/lua/argument.h"
#include "server/lua/libraries.h"
#include "server/lua/output.h"
#include "server/lua/pattern.h"
#include "server/lua/slices.h"
#include "server/lua/strings.h"

/* ---- find and match ---- */

/* Like patterns, the special bytes end with the first zero byte. */
static bool is_plain(struct okv_lua_match *m, const char *pattern)
{
    for (; *pattern != '\0'; pattern++) {
        okv_lua_count(&m->meter, 1);
        if (strchr("^$*+?.([%-", *pattern))
            return false;
    }
    return true;
}

/* Pushes the places of the text from `from` to `to`. */
static int push_places(struct okv_lua_match *m, const char *from, const char *to)
{
    lua_pushnumber(m->meter.L, (lua_Number)(from - m->begin + 1));
    lua_pushnumber(m->meter.L, (lua_Number)(to - m->begin));
    return 2;
}

static int find_plain(struct okv_lua_match *m, const char *from, const char *needle, size_t length)
{
    const char *found = okv_lua_match_plain(m, from, needle, length);

    okv_lua_settle(&m->meter);
    if (found)
        return push_places(m, found, found + length);
    lua_pushnil(m->meter.L);
    return 1;
}

static int find_pattern(struct okv_lua_match *m, const char *from, const char *pattern,
                        bool has_places)
{
    bool is_anchored = *pattern == '^';
    const char *at = from, *end = okv_lua_match_at(m, at, pattern + is_anchored);
    int count = 1;

    while (!end && at < m->end && !is_anchored)
        end = okv_lua_match_at(m, ++at, pattern);
    if (!end)
        lua_pushnil(m->meter.L);
    else if (has_places)
        count = push_places(m, at, end) + okv_lua_match_push_all(m, NULL, NULL);
    else
        count = okv_lua_match_push_all(m, at, end);
    okv_lua_settle(&m->meter);
    return count;
}

static int search(lua_State *L, bool is_find)
{
    size_t length, pattern_length;
    const char *text = luaL_checklstring(L, 1, &length);
    const char *pattern = luaL_checklstring(L, 2, &pattern_length);
    int64_t from = okv_lua_place(okv_lua_opt_integer(L, 3, 1), length);
    struct okv_lua_match match;

    okv_lua_spend(L, OKV_LUA_CALL);
    from = from < 1 ? 1 : from > (int64_t)length ? (int64_t)length + 1 : from;
    okv_lua_match_init(&match, L, text, length);
    if (is_find && (lua_toboolean(L, 4) || is_plain(&match, pattern)))
        return find_plain(&match, text + from - 1, pattern, pattern_length);
    return find_pattern(&match, text + from - 1, pattern, is_find);
}

static int string_find(lua_State *L)
{
    return search(L, true);
}

static int string_match(lua_State *L)
{
    return search(L, false);
}

/* ---- gmatch ---- */

/* Its own values are the text, the pattern, and the bytes of the text that are behind it. */
static int next_match(lua_State *L)
{
    size_t length;
    const char *text = lua_tolstring(L, lua_upvalueindex(1), &length);
    const char *pattern = lua_tostring(L, lua_upvalueindex(2)), *end = NULL;
    size_t at = (size_t)lua_tonumber(L, lua_upvalueindex(3));
    struct okv_lua_match match;
    int count = 0;

    okv_lua_spend(L, OKV_LUA_CALL);
    okv_lua_match_init(&match, L, text, length);
    for (; at <= length && !end; at++)
        end = okv_lua_match_at(&match, text + at, pattern);
    if (end) {
        const char *begin = text + at - 1;
        lua_pushnumber(L, (lua_Number)(end - text + (end == begin)));
        lua_replace(L, lua_upvalueindex(3));
        count = okv_lua_match_push_all(&match, begin, end);
    }
    okv_lua_settle(&match.meter);
    return count;
}

static int string_gmatch(lua_State *L)
{
    luaL_checkstring(L, 1);
    luaL_checkstring(L, 2);
    lua_settop(L, 2);
    lua_pushnumber(L, 0);
    lua_pushcclosure(L, next_match, 3);
    return 1;
}

/* ---- gsub ---- */

struct gsub {
    struct okv_lua_match match;
    struct okv_lua_output result;
};

static void add_bytes(struct gsub *gsub, const char *bytes, size_t length)
{
    okv_lua_add_slices(gsub->match.meter.L, &gsub->result, bytes, length);
}

/* Adds the string or number on the top of the stack, and removes it. */
static void take_string(struct gsub *gsub)
{
    size_t length;
    const char *bytes = lua_tolstring(gsub->match.meter.L, -1, &length);

    add_bytes(gsub, bytes, length);
    lua_pop(gsub->match.meter.L, 1);
}

/* Adds what a byte behind a '%' in a replacement stands for. */
static void add_escape(struct gsub *gsub, const char *at, const char *begin, const char *end)
{
    okv_lua_count(&gsub->match.meter, 1);
    if (!isdigit((unsigned char)*at)) {
        add_bytes(gsub, at, 1);
    } else if (*at == '0') {
        add_bytes(gsub, begin, (size_t)(end - begin));
    } else {
        okv_lua_match_push(&gsub->match, (unsigned)(*at - '1'), begin, end);
        take_string(gsub);
    }
}

/* Adds a replacement that is a string, which ends with a zero byte. */
static void add_replacement(struct gsub *gsub, const char *begin, const char *end)
{
    size_t length;
    const char *at = lua_tolstring(gsub->match.meter.L, 3, &length), *last = at + length;

    while (at < last) {
        size_t most = okv_lua_slice((size_t)(last - at));
        const char *escape = memchr(at, '%', most);
        add_bytes(gsub, at, escape ? (size_t)(escape - at) : most);
        if (escape)
            add_escape(gsub, escape + 1, begin, end);
        at = escape ? escape + 2 : at + most;
    }
}

/* Adds what the value on the top of the stack says, and removes it. */
static void add_value(struct gsub *gsub, const char *begin, const char *end)
{
    lua_State *L = gsub->match.meter.L;

    if (lua_isstring(L, -1)) {
        take_string(gsub);
        return;
    }
    if (lua_toboolean(L, -1))
        luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
    add_bytes(gsub, begin, (size_t)(end - begin));
    lua_pop(L, 1);
}

static void replace(struct gsub *gsub, const char *begin, const char *end)
{
    lua_State *L = gsub->match.meter.L;

    okv_lua_count(&gsub->match.meter, OKV_LUA_CALL);
    switch (lua_type(L, 3)) {
    case LUA_TFUNCTION:
        lua_pushvalue(L, 3);
        lua_call(L, okv_lua_match_push_all(&gsub->match, begin, end), 1);
        add_value(gsub, begin, end);
        break;
    case LUA_TTABLE:
        okv_lua_match_push(&gsub->match, 0, begin, end);
        lua_gettable(L, 3);
        add_value(gsub, begin, end);
        break;
    default:
        add_replacement(gsub, begin, end);
    }
}

/* Replaces up to `most` matches, returns how many there were. */
static int64_t replace_all(struct gsub *gsub, const char *pattern, int64_t most)
{
    bool is_anchored = *pattern == '^';
    struct okv_lua_match *match = &gsub->match;
    const char *at = match->begin, *kept = at; /* `kept`: where what is not replaced begins */
    int64_t count = 0;

    while (count < most && at <= match->end) {
        const char *end = okv_lua_match_at(match, at, pattern + is_anchored);
        if (end) {
            add_bytes(gsub, kept, (size_t)(at - kept));
            replace(gsub, at, end);
            kept = end;
            count++;
        }
        at = end && end > at ? end : at + 1;
        if (is_anchored)
            break;
    }
    add_bytes(gsub, kept, (size_t)(match->end - kept));
    return count;
}

static int string_gsub(lua_State *L)
{
    size_t length;
    const char *text = luaL_checklstring(L, 1, &length), *pattern = luaL_checkstring(L, 2);
    int type = lua_type(L, 3);
    int64_t most = okv_lua_opt_integer(L, 4, (int64_t)length + 1);
    struct gsub gsub;

    okv_lua_spend(L, OKV_LUA_CALL);
    luaL_argcheck(L,
                  type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION ||
                      type == LUA_TTABLE,
                  3, "string/function/table expected");
    lua_settop(L, 3);
    okv_lua_match_init(&gsub.match, L, text, length);
    okv_lua_output_begin(L, &gsub.result);
    int64_t count = replace_all(&gsub, pattern, most);
    okv_lua_settle(&gsub.match.meter);
    okv_lua_output_push(L, &gsub.result);
    lua_pushnumber(L, (lua_Number)count);
    return 2;
}

void okv_lua_add_search(lua_State *L)
{
    static const luaL_Reg functions[] = {{"find", string_find},     {"gfind", string_gmatch},
                                         {"gmatch", string_gmatch}, {"gsub", string_gsub},
                                         {"match", string_match},   {NULL, NULL}};

    okv_lua_add(L, functions);
}
