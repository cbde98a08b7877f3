#include "server/lua/json_token.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/lua/argument.h"

/* Work of a token, beyond its bytes, and of an escape. */
#define TOKEN 20u
#define ESCAPE 10u

static void set_error(struct okv_json_reader *reader, const char *error)
{
    reader->type = OKV_JSON_ERROR;
    reader->error = error;
    reader->begin = reader->at;
}

/* ---- strings ---- */

static int hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit |= 0x20;
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* The unit of UTF-16 of an escape with a 'u'; -1: it is none. Reads no byte behind a wrong one. */
static int unit_at(const char *escape)
{
    int unit = 0;

    if (escape[0] != '\\' || escape[1] != 'u')
        return -1;
    for (int i = 2; i < 6; i++) {
        int digit = hex_digit(escape[i]);

        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

static void add_utf8(struct okv_json_reader *reader, int point)
{
    static const int marks[] = {0, 0xc0, 0xe0, 0xf0};
    int more = (point > 0x7f) + (point > 0x7ff) + (point > 0xffff);

    okv_lua_output_byte(reader->L, &reader->scratch, marks[more] | point >> 6 * more);
    while (more-- > 0)
        okv_lua_output_byte(reader->L, &reader->scratch, 0x80 | (point >> 6 * more & 0x3f));
}

static bool read_unicode(struct okv_json_reader *reader)
{
    int point = unit_at(reader->at), low;

    if (point < 0 || (point & 0xfc00) == 0xdc00)
        return false;
    reader->at += 6;
    if ((point & 0xfc00) == 0xd800) {
        low = unit_at(reader->at);
        if (low < 0 || (low & 0xfc00) != 0xdc00) {
            reader->at -= 6;
            return false;
        }
        point = ((point & 0x3ff) << 10 | (low & 0x3ff)) + 0x10000;
        reader->at += 6;
    }
    add_utf8(reader, point);
    return true;
}

static bool read_escape(struct okv_json_reader *reader)
{
    static const char names[] = "\"\\/btnfr", bytes[] = "\"\\/\b\t\n\f\r";
    char name = reader->at[1];
    const char *found = name ? strchr(names, name) : NULL;

    okv_lua_count(&reader->meter, ESCAPE);
    if (name == 'u') {
        if (!read_unicode(reader))
            set_error(reader, "invalid unicode escape code");
    } else if (!found) {
        set_error(reader, "invalid escape code");
    } else {
        okv_lua_output_byte(reader->L, &reader->scratch, bytes[found - names]);
        reader->at += 2;
    }
    return reader->type != OKV_JSON_ERROR;
}

/* Passes over the bytes of a string that stand for themselves, OKV_LUA_PIECE of them at most. */
static void pass_plain(struct okv_json_reader *reader)
{
    const char *at = reader->at, *end = at + OKV_LUA_PIECE;

    while (at < end && *at != '"' && *at != '\\' && *at != '\0')
        at++;
    okv_lua_count(&reader->meter, (uint64_t)(at - reader->at) + 1);
    reader->at = at;
}

/* What follows an escape, and the escape. */
static void read_escaped(struct okv_json_reader *reader)
{
    const char *from;

    while (*reader->at != '"' && *reader->at != '\0') {
        if (*reader->at == '\\' && !read_escape(reader))
            return;
        from = reader->at;
        pass_plain(reader);
        okv_lua_output_add(reader->L, &reader->scratch, from, (size_t)(reader->at - from));
    }
    reader->string = reader->scratch.bytes;
    reader->length = reader->scratch.length;
}

/* A string without escapes is used where it is. */
static void read_string(struct okv_json_reader *reader)
{
    reader->type = OKV_JSON_STRING;
    reader->string = ++reader->at;
    do {
        pass_plain(reader);
    } while (*reader->at != '"' && *reader->at != '\\' && *reader->at != '\0');
    reader->length = (size_t)(reader->at - reader->string);
    if (*reader->at == '\\') {
        reader->scratch.length = 0;
        okv_lua_output_add(reader->L, &reader->scratch, reader->string, reader->length);
        read_escaped(reader);
    }
    if (reader->type == OKV_JSON_ERROR)
        return;
    if (*reader->at == '"')
        reader->at++;
    else
        set_error(reader, "unexpected end of string");
}

/* ---- numbers ---- */

/* At least as many bytes as strtod() looks at. */
static size_t number_length(const char *at)
{
    size_t length = 0;

    while (length <= OKV_LUA_NUMBER_MAX && at[length] &&
           (isalnum((unsigned char)at[length]) || strchr("+-._()", at[length])))
        length++;
    return length;
}

static void read_number(struct okv_json_reader *reader)
{
    size_t length = number_length(reader->at);
    char *end = (char *)reader->at;

    okv_lua_count(&reader->meter, OKV_LUA_NUMBER + length * OKV_LUA_NUMBER_BYTE);
    if (length <= OKV_LUA_NUMBER_MAX)
        reader->number = strtod(reader->at, &end);
    if (end == reader->at) {
        set_error(reader, "invalid number");
        return;
    }
    reader->type = OKV_JSON_NUMBER;
    reader->at = end;
}

/* ---- words ---- */

static bool read_word(struct okv_json_reader *reader, const char *word, enum okv_json_type type)
{
    size_t length = strlen(word);

    if (strncmp(reader->at, word, length))
        return false;
    reader->type = type;
    reader->at += length;
    return true;
}

/* Redis takes what strtod() takes: "+1", "inf", "nan", and hexadecimal digits. */
static void read_rest(struct okv_json_reader *reader)
{
    const char *at = reader->at;

    reader->boolean = *at == 't';
    if (isdigit((unsigned char)*at) || *at == '-' || *at == '+' || !strncasecmp(at, "inf", 3) ||
        !strncasecmp(at, "nan", 3))
        read_number(reader);
    else if (!read_word(reader, "true", OKV_JSON_BOOLEAN) &&
             !read_word(reader, "false", OKV_JSON_BOOLEAN) &&
             !read_word(reader, "null", OKV_JSON_NULL))
        set_error(reader, "invalid token");
}

/* ---- tokens ---- */

static const char punctuation[] = {
    [OKV_JSON_OBJECT_BEGIN] = '{', [OKV_JSON_OBJECT_END] = '}', [OKV_JSON_ARRAY_BEGIN] = '[',
    [OKV_JSON_ARRAY_END] = ']',    [OKV_JSON_STRING] = '"',     [OKV_JSON_COLON] = ':',
    [OKV_JSON_COMMA] = ',',
};

static void pass_space(struct okv_json_reader *reader)
{
    const char *at = reader->at, *end;

    do {
        end = reader->at + OKV_LUA_PIECE;
        while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
            at++;
        okv_lua_count(&reader->meter, (uint64_t)(at - reader->at) + TOKEN);
        reader->at = at;
    } while (at == end);
}

void okv_json_next(struct okv_json_reader *reader)
{
    const char *found;

    pass_space(reader);
    reader->begin = reader->at;
    if (*reader->at == '\0') {
        reader->type = OKV_JSON_END;
        return;
    }
    found = memchr(punctuation, *reader->at, sizeof punctuation);
    if (!found) {
        read_rest(reader);
    } else if (*found == '"') {
        read_string(reader);
    } else {
        reader->type = (enum okv_json_type)(found - punctuation);
        reader->at++;
    }
}

const char *okv_json_found(const struct okv_json_reader *reader)
{
    static const char *const names[] = {
        [OKV_JSON_OBJECT_BEGIN] = "T_OBJ_BEGIN",
        [OKV_JSON_OBJECT_END] = "T_OBJ_END",
        [OKV_JSON_ARRAY_BEGIN] = "T_ARR_BEGIN",
        [OKV_JSON_ARRAY_END] = "T_ARR_END",
        [OKV_JSON_STRING] = "T_STRING",
        [OKV_JSON_NUMBER] = "T_NUMBER",
        [OKV_JSON_BOOLEAN] = "T_BOOLEAN",
        [OKV_JSON_NULL] = "T_NULL",
        [OKV_JSON_COLON] = "T_COLON",
        [OKV_JSON_COMMA] = "T_COMMA",
        [OKV_JSON_END] = "T_END",
    };

    return reader->type == OKV_JSON_ERROR ? reader->error : names[reader->type];
}

void okv_json_reader_begin(lua_State *L, struct okv_json_reader *reader, const char *text)
{
    reader->L = L;
    reader->meter = (struct okv_lua_meter){L, 0};
    reader->text = reader->at = text;
    okv_lua_output_begin(L, &reader->scratch);
}
