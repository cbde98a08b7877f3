/* cjson.encode: the bytes of lua-cjson 2.1.0 with its own settings. It goes from value to value
 * without recursion, so that a deep table needs little of the thread's stack. */
#include <lauxlib.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "server/lua/budget.h"
#include "server/lua/json.h"
#include "server/lua/meter.h"
#include "server/lua/output.h"

/* Work of writing a number, and its bytes. */
#define NUMBER 300u
#define NUMBER_MAX 32u
/* What a byte of a string becomes at most. */
#define ESCAPED_MAX 6u

/* A table that was begun. Those of objects have their last key above them on the stack. */
struct level {
    int length; /* 0: an object */
    int count;  /* members that were begun; saturates */
};

struct writer {
    lua_State *L;
    struct okv_lua_meter meter;
    struct okv_lua_output output;
    int depth;
    struct level levels[OKV_LUA_JSON_DEPTH];
};

static void put(struct writer *writer, int byte)
{
    okv_lua_output_byte(writer->L, &writer->output, byte);
}

static void put_text(struct writer *writer, const char *text)
{
    okv_lua_output_add(writer->L, &writer->output, text, strlen(text));
}

static int refuse(struct writer *writer, int index, const char *why)
{
    return luaL_error(writer->L, "Cannot serialise %s: %s", luaL_typename(writer->L, index), why);
}

/* ---- numbers and strings ---- */

static void put_number(struct writer *writer, int index)
{
    double number = lua_tonumber(writer->L, index);

    if (!isfinite(number))
        refuse(writer, index, "must not be NaN or Inf");
    okv_lua_count(&writer->meter, NUMBER);
    char *room = okv_lua_output_room(writer->L, &writer->output, NUMBER_MAX);
    writer->output.length +=
        (size_t)snprintf(room, NUMBER_MAX, "%.*g", OKV_LUA_JSON_PRECISION, number);
}

/* What follows the backslash; 0: nothing is to be escaped. */
static char escape_of(unsigned char byte)
{
    switch (byte) {
    case '"':
    case '\\':
    case '/':
        return (char)byte;
    case '\b':
        return 'b';
    case '\t':
        return 't';
    case '\n':
        return 'n';
    case '\f':
        return 'f';
    case '\r':
        return 'r';
    default:
        return byte < 0x20 || byte == 0x7f ? 'u' : 0;
    }
}

/* Writes up to ESCAPED_MAX bytes. Returns behind them. */
static char *escape(char *to, unsigned char byte)
{
    static const char digits[] = "0123456789abcdef";
    char escape = escape_of(byte);

    if (!escape) {
        *to++ = (char)byte;
        return to;
    }
    *to++ = '\\';
    *to++ = escape;
    if (escape == 'u') {
        *to++ = '0';
        *to++ = '0';
        *to++ = digits[byte >> 4];
        *to++ = digits[byte & 15];
    }
    return to;
}

static void put_string(struct writer *writer, int index)
{
    size_t left;
    const unsigned char *from = (const unsigned char *)lua_tolstring(writer->L, index, &left);

    put(writer, '"');
    while (left > 0) {
        size_t piece = left < OKV_LUA_PIECE ? left : OKV_LUA_PIECE;

        okv_lua_count(&writer->meter, 2 * piece);
        char *to = okv_lua_output_room(writer->L, &writer->output, piece * ESCAPED_MAX);
        for (const unsigned char *end = from + piece; from < end; from++)
            to = escape(to, *from);
        writer->output.length = (size_t)(to - writer->output.bytes);
        left -= piece;
    }
    put(writer, '"');
}

/* ---- tables ---- */

/* A number of 1, 2, 3 and so on. */
static bool is_index(lua_State *L, int at)
{
    double key = lua_type(L, at) == LUA_TNUMBER ? lua_tonumber(L, at) : 0;

    return key >= 1 && floor(key) == key;
}

/* Elements of the array on the top of the stack, the empty ones among them; 0: it is an object, as
 * is one with an index beyond those of Redis, which takes such for negative ones. */
static int array_length(struct writer *writer)
{
    lua_State *L = writer->L;
    double last = 0, count = 0;

    lua_pushnil(L);
    while (lua_next(L, -2)) {
        okv_lua_count(&writer->meter, OKV_LUA_ENTRY);
        lua_pop(L, 1);
        if (!is_index(L, -1)) {
            lua_pop(L, 1);
            return 0;
        }
        last = fmax(last, lua_tonumber(L, -1));
        count++;
    }
    if (last > INT_MAX)
        return 0;
    if (last > count * OKV_LUA_JSON_RATIO && last > OKV_LUA_JSON_SAFE)
        return refuse(writer, -1, "excessively sparse array");
    return (int)last;
}

/* Begins the table on the top of the stack. Its empty slots take time of which Lua says nothing, so
 * the clock is looked at. */
static void begin(struct writer *writer)
{
    lua_State *L = writer->L;
    struct level *level = &writer->levels[writer->depth];

    if (writer->depth == OKV_LUA_JSON_DEPTH || !lua_checkstack(L, 4))
        luaL_error(L, "Cannot serialise, excessive nesting (%d)", writer->depth + 1);
    okv_lua_settle(&writer->meter);
    level->length = array_length(writer);
    level->count = 0;
    put(writer, level->length ? '[' : '{');
    if (!level->length)
        lua_pushnil(L);
    writer->depth++;
}

static void put_key(struct writer *writer, int index)
{
    int type = lua_type(writer->L, index);

    okv_lua_count(&writer->meter, OKV_LUA_ENTRY);
    if (type == LUA_TSTRING) {
        put_string(writer, index);
    } else if (type == LUA_TNUMBER) {
        put(writer, '"');
        put_number(writer, index);
        put(writer, '"');
    } else {
        refuse(writer, index, "table key must be a number or string");
    }
    put(writer, ':');
}

/* Pushes the next member of the innermost table; or ends the table and removes it. */
static bool advance(struct writer *writer)
{
    lua_State *L = writer->L;
    struct level *level = &writer->levels[writer->depth - 1];
    bool is_array = level->length > 0;

    if (is_array ? level->count == level->length : !lua_next(L, -2)) {
        put(writer, is_array ? ']' : '}');
        lua_pop(L, 1);
        writer->depth--;
        return false;
    }
    if (level->count > 0)
        put(writer, ',');
    level->count += is_array || level->count == 0;
    if (is_array)
        lua_rawgeti(L, -1, level->count);
    else
        put_key(writer, -2);
    return true;
}

/* ---- values ---- */

/* Removes the value on the top of the stack. */
static void put_scalar(struct writer *writer)
{
    lua_State *L = writer->L;
    int type = lua_type(L, -1);

    if (type == LUA_TSTRING)
        put_string(writer, -1);
    else if (type == LUA_TNUMBER)
        put_number(writer, -1);
    else if (type == LUA_TBOOLEAN && lua_toboolean(L, -1))
        put_text(writer, "true");
    else if (type == LUA_TBOOLEAN)
        put_text(writer, "false");
    else if (type == LUA_TNIL || (type == LUA_TLIGHTUSERDATA && !lua_touserdata(L, -1)))
        put_text(writer, "null");
    else
        refuse(writer, -1, "type not supported");
    lua_pop(L, 1);
}

int okv_lua_json_encode(lua_State *L)
{
    struct writer writer;

    luaL_argcheck(L, lua_gettop(L) == 1, 1, "expected 1 argument");
    writer.L = L;
    writer.meter = (struct okv_lua_meter){L, 0};
    writer.depth = 0;
    okv_lua_output_begin(L, &writer.output);
    lua_pushvalue(L, 1);
    do {
        okv_lua_count(&writer.meter, OKV_LUA_CALL);
        if (lua_istable(L, -1))
            begin(&writer);
        else
            put_scalar(&writer);
        while (writer.depth > 0 && !advance(&writer))
            okv_lua_count(&writer.meter, OKV_LUA_CALL);
    } while (writer.depth > 0);
    okv_lua_settle(&writer.meter);
    okv_lua_output_push(L, &writer.output);
    return 1;
}
