#include "server/resp/script/convert.h"

#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/lua/budget.h"
#include "server/lua/machine.h"
#include "server/resp/script/run.h"

/* Tables in tables; a stack of Lua has room for more. */
#define DEPTH_MAX 1000u
#define STACK_NEEDED 8
#define NUMBER_TEXT 40

/* ---- a reply becomes a value ---- */

/* What is left of a reply, which is the server's own, so it is complete. */
struct reader {
    const uint8_t *at;
};

/* The rest of the line, as text with a NUL. */
static void read_line(struct reader *reader, const char **text, size_t *length)
{
    const uint8_t *end = reader->at;

    while (*end != '\r')
        end++;
    *text = (const char *)reader->at;
    *length = (size_t)(end - reader->at);
    reader->at = end + 2;
}

static long long read_number(struct reader *reader)
{
    const char *text;
    size_t length;

    read_line(reader, &text, &length);
    return strtoll(text, NULL, 10); /* ends at the CR */
}

static void push_field(lua_State *L, const char *name, const char *text, size_t length)
{
    lua_createtable(L, 0, 1);
    okv_lua_push_bytes(L, text, length);
    lua_setfield(L, -2, name);
}

static void push_value(lua_State *L, struct reader *reader);

static void push_array(lua_State *L, struct reader *reader)
{
    long long count = read_number(reader);

    if (count < 0) {
        lua_pushboolean(L, false);
        return;
    }
    lua_createtable(L, (int)count, 0);
    for (int i = 1; i <= count; i++) {
        push_value(L, reader);
        lua_rawseti(L, -2, i);
    }
}

/* Maps and sets are tables in a field. */
static void push_table(lua_State *L, struct reader *reader, bool is_map)
{
    long long count = read_number(reader);

    lua_createtable(L, 0, 1);
    lua_createtable(L, 0, (int)count);
    for (long long i = 0; i < count; i++) {
        push_value(L, reader);
        if (is_map)
            push_value(L, reader);
        else
            lua_pushboolean(L, true);
        lua_rawset(L, -3);
    }
    lua_setfield(L, -2, is_map ? "map" : "set");
}

static void push_bulk(lua_State *L, struct reader *reader)
{
    long long length = read_number(reader);

    if (length < 0) {
        lua_pushboolean(L, false);
        return;
    }
    okv_lua_push_bytes(L, reader->at, (size_t)length);
    reader->at += length + 2;
}

/* The format has three characters, and a colon. */
static void push_verbatim(lua_State *L, struct reader *reader)
{
    long long length = read_number(reader);

    lua_createtable(L, 0, 1);
    lua_createtable(L, 0, 2);
    lua_pushlstring(L, (const char *)reader->at, 3);
    lua_setfield(L, -2, "format");
    okv_lua_push_bytes(L, reader->at + 4, (size_t)length - 4);
    lua_setfield(L, -2, "string");
    lua_setfield(L, -2, "verbatim_string");
    reader->at += length + 2;
}

static void push_double(lua_State *L, struct reader *reader)
{
    const char *text;
    size_t length;

    read_line(reader, &text, &length);
    lua_createtable(L, 0, 1);
    lua_pushnumber(L, strtod(text, NULL));
    lua_setfield(L, -2, "double");
}

static void push_value(lua_State *L, struct reader *reader)
{
    const char *text;
    size_t length;

    okv_lua_spend(L, OKV_LUA_CALL);
    luaL_checkstack(L, STACK_NEEDED, "a reply has too many levels");
    switch (*reader->at++) {
    case '+':
        read_line(reader, &text, &length);
        push_field(L, "ok", text, length);
        break;
    case '-':
        read_line(reader, &text, &length);
        push_field(L, "err", text, length);
        break;
    case ':':
        lua_pushnumber(L, (lua_Number)read_number(reader));
        break;
    case '$':
        push_bulk(L, reader);
        break;
    case '*':
        push_array(L, reader);
        break;
    case '%':
        push_table(L, reader, true);
        break;
    case '~':
        push_table(L, reader, false);
        break;
    case ',':
        push_double(L, reader);
        break;
    case '=':
        push_verbatim(L, reader);
        break;
    case '#':
        lua_pushboolean(L, *reader->at == 't');
        reader->at += 3;
        break;
    default: /* the null of RESP3 */
        reader->at += 2;
        lua_pushnil(L);
        break;
    }
}

void okv_resp_script_push_reply(lua_State *L, const struct okv_resp_buffer *reply)
{
    struct reader reader = {reply->bytes};

    push_value(L, &reader);
}

/* ---- a value becomes a reply ---- */

static void reply_value(lua_State *L, const struct okv_resp_reply *to, unsigned depth);

/* Of a text that is about to be replied. */
static void count_text(lua_State *L, const struct okv_resp_reply *to, size_t length)
{
    okv_lua_spend(L, length);
    if (to->out->used + length > OKV_RESP_SCRIPT_REPLY_MAX)
        luaL_error(L, "the reply is longer than 64 MiB");
}

int okv_resp_script_push_field(lua_State *L, int table, const char *name)
{
    lua_pushstring(L, name);
    lua_rawget(L, table < 0 ? table - 1 : table);
    return lua_type(L, -1);
}

/* Of the table at the top. */
static int push_raw(lua_State *L, const char *name)
{
    return okv_resp_script_push_field(L, -1, name);
}

/* A double as Redis writes it: with 17 digits, in RESP2 as a bulk string. */
static void reply_double(const struct okv_resp_reply *to, double number)
{
    char text[NUMBER_TEXT];
    int length = snprintf(text, sizeof text, "%.17g", number);

    if (to->protocol < 3) {
        okv_resp_bulk(to, text, (size_t)length);
        return;
    }
    okv_resp_buffer_add(to->out, ",", 1);
    okv_resp_buffer_add(to->out, text, (size_t)length);
    okv_resp_buffer_add(to->out, "\r\n", 2);
}

/* A line cannot contain its end. */
static void add_line(struct okv_resp_buffer *out, const char *text, size_t length)
{
    uint8_t *room = okv_resp_buffer_room(out, length + 2);
    if (!room)
        return;
    for (size_t i = 0; i < length; i++)
        room[i] = text[i] == '\r' || text[i] == '\n' ? ' ' : (uint8_t)text[i];
    memcpy(room + length, "\r\n", 2);
    out->used += length + 2;
}

/* The text on the top, up to a zero byte. */
static void reply_status(lua_State *L, const struct okv_resp_reply *to)
{
    const char *text = lua_tostring(L, -1);

    count_text(L, to, lua_objlen(L, -1));
    okv_resp_buffer_add(to->out, "+", 1);
    add_line(to->out, text, strlen(text));
}

static void reply_error(lua_State *L, const struct okv_resp_reply *to)
{
    const char *text = lua_tostring(L, -1);

    count_text(L, to, lua_objlen(L, -1));
    size_t length = strlen(text);
    while (length > 0 && (text[length - 1] == '\r' || text[length - 1] == '\n'))
        length--;
    okv_resp_buffer_add(to->out, "-", 1);
    add_line(to->out, text, length);
}

static void reply_big_number(lua_State *L, const struct okv_resp_reply *to)
{
    size_t length;
    const char *text = lua_tolstring(L, -1, &length);
    char head[NUMBER_TEXT] = "(";

    count_text(L, to, length);
    if (to->protocol < 3)
        snprintf(head, sizeof head, "$%zu\r\n", length);
    okv_resp_buffer_add(to->out, head, strlen(head));
    add_line(to->out, text, length);
}

/* The format has three characters: as many of the text before a zero byte, and spaces. */
static void add_verbatim(const struct okv_resp_reply *to, const char *format, const char *text,
                         size_t length)
{
    char head[NUMBER_TEXT];
    int used = snprintf(head, sizeof head, "=%zu\r\n%-3.3s:", length + 4, format);

    okv_resp_buffer_add(to->out, head, (size_t)used);
    okv_resp_buffer_add(to->out, text, length);
    okv_resp_buffer_add(to->out, "\r\n", 2);
}

/* {format = ..., string = ...} on the top. Returns whether it is one. */
static bool reply_verbatim(lua_State *L, const struct okv_resp_reply *to)
{
    bool is_one = push_raw(L, "format") == LUA_TSTRING;
    const char *format = is_one ? lua_tostring(L, -1) : NULL, *text;
    size_t length;

    lua_pop(L, 1); /* the table keeps it */
    if (!is_one)
        return false;
    is_one = push_raw(L, "string") == LUA_TSTRING;
    text = lua_tolstring(L, -1, &length);
    if (is_one)
        count_text(L, to, length);
    if (is_one && to->protocol < 3)
        okv_resp_bulk(to, text, length);
    else if (is_one)
        add_verbatim(to, format, text, length);
    lua_pop(L, 1);
    return is_one;
}

/* A map, or the keys of a set, on the top. */
static void reply_pairs(lua_State *L, const struct okv_resp_reply *to, bool is_map, unsigned depth)
{
    size_t count = 0;

    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        okv_lua_spend(L, OKV_LUA_CALL);
        count++;
    }
    if (is_map)
        okv_resp_map(to, count);
    else
        okv_resp_set(to, count);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        lua_pushvalue(L, -2);
        reply_value(L, to, depth);
        lua_pop(L, 1);
        if (is_map)
            reply_value(L, to, depth);
    }
}

/* Up to the first nil. */
static size_t count_elements(lua_State *L)
{
    int count = 0;
    bool is_end = false;

    while (!is_end) {
        okv_lua_spend(L, OKV_LUA_INSTRUCTION);
        lua_rawgeti(L, -1, count + 1);
        is_end = lua_isnil(L, -1);
        lua_pop(L, 1);
        count += !is_end;
    }
    return (size_t)count;
}

static void reply_array(lua_State *L, const struct okv_resp_reply *to, unsigned depth)
{
    size_t count = count_elements(L);

    okv_resp_array(to, count);
    for (size_t i = 1; i <= count; i++) {
        lua_rawgeti(L, -1, (int)i);
        reply_value(L, to, depth);
        lua_pop(L, 1);
    }
}

/* The fields that make a table another type than an array. Returns whether there was one. */
static bool reply_special(lua_State *L, const struct okv_resp_reply *to, unsigned depth)
{
    bool is_special = true;

    if (push_raw(L, "err") == LUA_TSTRING) {
        reply_error(L, to);
    } else if (lua_pop(L, 1), push_raw(L, "ok") == LUA_TSTRING) {
        reply_status(L, to);
    } else if (lua_pop(L, 1), push_raw(L, "double") == LUA_TNUMBER) {
        reply_double(to, lua_tonumber(L, -1));
    } else if (lua_pop(L, 1), push_raw(L, "big_number") == LUA_TSTRING) {
        reply_big_number(L, to);
    } else if (lua_pop(L, 1),
               push_raw(L, "verbatim_string") == LUA_TTABLE && reply_verbatim(L, to)) {
        /* done */
    } else if (lua_pop(L, 1), push_raw(L, "map") == LUA_TTABLE) {
        reply_pairs(L, to, true, depth);
    } else if (lua_pop(L, 1), push_raw(L, "set") == LUA_TTABLE) {
        reply_pairs(L, to, false, depth);
    } else {
        is_special = false;
    }
    lua_pop(L, 1);
    return is_special;
}

static void reply_integer(const struct okv_resp_reply *to, double number)
{
    /* As a conversion of x86-64 has it, where C says nothing. */
    okv_resp_integer(to, number >= -0x1p63 && number < 0x1p63 ? (int64_t)number : INT64_MIN);
}

/* False is null, unless the script asked for RESP3. */
static void reply_boolean(lua_State *L, const struct okv_resp_reply *to, bool value)
{
    const struct okv_resp_script_run *run = okv_lua_user(L);

    if (run->protocol >= 3 && to->protocol >= 3)
        okv_resp_buffer_add(to->out, value ? "#t\r\n" : "#f\r\n", 4);
    else if (run->protocol >= 3 || value)
        okv_resp_integer(to, value);
    else
        okv_resp_null(to);
}

/* Of the value on the top, which stays there. */
static void reply_value(lua_State *L, const struct okv_resp_reply *to, unsigned depth)
{
    size_t length = 0;
    const char *text;

    okv_lua_spend(L, OKV_LUA_CALL);
    if (to->out->used > OKV_RESP_SCRIPT_REPLY_MAX)
        luaL_error(L, "the reply is longer than 64 MiB");
    if (depth > DEPTH_MAX || !lua_checkstack(L, STACK_NEEDED)) {
        okv_resp_error(to, "ERR reached lua stack limit");
        return;
    }
    switch (lua_type(L, -1)) {
    case LUA_TSTRING:
        text = lua_tolstring(L, -1, &length);
        count_text(L, to, length);
        okv_resp_bulk(to, text, length);
        break;
    case LUA_TNUMBER:
        reply_integer(to, lua_tonumber(L, -1));
        break;
    case LUA_TBOOLEAN:
        reply_boolean(L, to, lua_toboolean(L, -1));
        break;
    case LUA_TTABLE:
        if (!reply_special(L, to, depth + 1))
            reply_array(L, to, depth + 1);
        break;
    default:
        okv_resp_null(to);
        break;
    }
}

void okv_resp_script_reply(lua_State *L, const struct okv_resp_reply *to)
{
    reply_value(L, to, 0);
}
