/* cjson.decode: the values of lua-cjson 2.1.0 with its own settings. It goes from token to token
 * without recursion, so that a deep text needs little of the thread's stack. */
#include <lauxlib.h>

#include "server/lua/budget.h"
#include "server/lua/json.h"
#include "server/lua/json_token.h"

/* Work of a member of a table. */
#define MEMBER 50u

struct parser {
    lua_State *L;
    struct okv_json_reader reader;
    int depth;
    int next[OKV_LUA_JSON_DEPTH]; /* the next index of each array that is read; 0: an object */
};

static int refuse(struct parser *parser, const char *expected)
{
    const struct okv_json_reader *reader = &parser->reader;

    return luaL_error(parser->L, "Expected %s but found %s at character %d", expected,
                      okv_json_found(reader), (int)(reader->begin - reader->text + 1));
}

/* Pushes the key, and reads up to the begin of its value. */
static void read_key(struct parser *parser)
{
    struct okv_json_reader *reader = &parser->reader;

    if (reader->type != OKV_JSON_STRING)
        refuse(parser, "object key string");
    okv_lua_push_bytes(parser->L, reader->string, reader->length);
    okv_json_next(reader);
    if (reader->type != OKV_JSON_COLON)
        refuse(parser, "colon");
    okv_json_next(reader);
}

/* Pushes a new table. Returns whether it is empty; else the token is the first of a value. */
static bool begin(struct parser *parser, bool is_array)
{
    struct okv_json_reader *reader = &parser->reader;

    if (parser->depth == OKV_LUA_JSON_DEPTH || !lua_checkstack(parser->L, 4))
        luaL_error(parser->L, "Found too many nested data structures (%d) at character %d",
                   parser->depth + 1, (int)(reader->at - reader->text));
    okv_lua_count(&parser->reader.meter, MEMBER);
    lua_newtable(parser->L);
    okv_json_next(reader);
    if (reader->type == (is_array ? OKV_JSON_ARRAY_END : OKV_JSON_OBJECT_END))
        return true;
    parser->next[parser->depth++] = is_array;
    if (!is_array)
        read_key(parser);
    return false;
}

/* Pushes the value that begins with the token. Returns whether it is complete. */
static bool read_value(struct parser *parser)
{
    const struct okv_json_reader *reader = &parser->reader;

    switch (reader->type) {
    case OKV_JSON_STRING:
        okv_lua_push_bytes(parser->L, reader->string, reader->length);
        return true;
    case OKV_JSON_NUMBER:
        lua_pushnumber(parser->L, reader->number);
        return true;
    case OKV_JSON_BOOLEAN:
        lua_pushboolean(parser->L, reader->boolean);
        return true;
    case OKV_JSON_NULL:
        lua_pushlightuserdata(parser->L, NULL);
        return true;
    case OKV_JSON_OBJECT_BEGIN:
    case OKV_JSON_ARRAY_BEGIN:
        return begin(parser, reader->type == OKV_JSON_ARRAY_BEGIN);
    default:
        refuse(parser, "value");
        return true;
    }
}

/* Moves the value on the top of the stack into its table. Returns whether that is complete; else
 * the token is the first of the next value. */
static bool add(struct parser *parser)
{
    struct okv_json_reader *reader = &parser->reader;
    int *next = &parser->next[parser->depth - 1];
    bool is_array = *next > 0;

    okv_lua_count(&parser->reader.meter, MEMBER);
    if (is_array)
        lua_rawseti(parser->L, -2, (*next)++);
    else
        lua_rawset(parser->L, -3);
    okv_json_next(reader);
    if (reader->type == (is_array ? OKV_JSON_ARRAY_END : OKV_JSON_OBJECT_END)) {
        parser->depth--;
        return true;
    }
    if (reader->type != OKV_JSON_COMMA)
        refuse(parser, is_array ? "comma or array end" : "comma or object end");
    okv_json_next(reader);
    if (!is_array)
        read_key(parser);
    return false;
}

int okv_lua_json_decode(lua_State *L)
{
    struct parser parser;
    const char *text;
    size_t length;
    bool is_complete;

    luaL_argcheck(L, lua_gettop(L) == 1, 1, "expected 1 argument");
    text = luaL_checklstring(L, 1, &length);
    if (length >= 2 && (!text[0] || !text[1]))
        return luaL_error(L, "JSON parser does not support UTF-16 or UTF-32");
    parser.L = L;
    parser.depth = 0;
    okv_json_reader_begin(L, &parser.reader, text);
    okv_json_next(&parser.reader);
    do {
        is_complete = read_value(&parser);
        while (is_complete && parser.depth > 0)
            is_complete = add(&parser);
    } while (parser.depth > 0);
    okv_json_next(&parser.reader);
    if (parser.reader.type != OKV_JSON_END)
        refuse(&parser, "the end");
    okv_lua_settle(&parser.reader.meter);
    return 1;
}
