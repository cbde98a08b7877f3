/* string.format of Lua. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/lua/argument.h"
#include "server/lua/budget.h"
#include "server/lua/libraries.h"
#include "server/lua/output.h"
#include "server/lua/slices.h"
#include "server/lua/strings.h"

/* Work of an item, of a "%%", and of a power of two that makes a number longer: all its digits
 * before the point are shown, or few of them. */
#define ITEM 200u
#define ESCAPE 10u
#define SHOWN 10u
#define HIDDEN 2u
/* Longer than "%.99f" of the largest number. */
#define RESULT_MAX 512u
/* Longer than "%-+ #099.99lld". */
#define ITEM_MAX 24u
#define FLAGS "-+ #0"
#define FLAGS_MAX 5
/* Strings from this length on are taken as they are, unless they are cut. */
#define LONG 100u

struct format {
    lua_State *L;
    struct okv_lua_output result;
    const char *at, *end; /* what is left of the format, which ends with a zero byte */
    char item[ITEM_MAX];  /* as of snprintf(), without its last byte */
    int argument;
};

/* ---- items ---- */

/* At most two digits. */
static const char *skip_number(const char *at)
{
    for (int i = 0; i < 2 && *at >= '0' && *at <= '9'; i++)
        at++;
    return at;
}

/* Takes flags, width and precision of an item, and returns the byte that says what it is. */
static char take_item(struct format *format)
{
    const char *at = format->at;

    while (*at != '\0' && strchr(FLAGS, *at))
        if (++at - format->at > FLAGS_MAX)
            luaL_error(format->L, "invalid format (repeated flags)");
    at = skip_number(at);
    if (*at == '.')
        at = skip_number(at + 1);
    if (*at >= '0' && *at <= '9')
        luaL_error(format->L, "invalid format (width or precision too long)");
    snprintf(format->item, sizeof format->item, "%%%.*s", (int)(at - format->at), format->at);
    format->at = at + 1;
    return *at;
}

/* Adds to the item what of snprintf() it needs. */
static const char *item_of(struct format *format, const char *length, char conversion)
{
    size_t used = strlen(format->item);

    snprintf(format->item + used, sizeof format->item - used, "%s%c", length, conversion);
    return format->item;
}

static void add_bytes(struct format *format, const char *bytes, size_t length)
{
    okv_lua_add_slices(format->L, &format->result, bytes, length);
}

static void add_result(struct format *format, const char *result)
{
    add_bytes(format, result, strlen(result));
}

/* ---- numbers ---- */

static int64_t signed_of(double number)
{
    return number >= -0x1p63 && number < 0x1p63 ? (int64_t)number : INT64_MIN;
}

static uint64_t unsigned_of(double number)
{
    if (number < 0x1p63 || isnan(number))
        return (uint64_t)signed_of(number);
    return number < 0x1p64 ? (uint64_t)number : 0;
}

static void add_integer(struct format *format, char conversion)
{
    double number = okv_lua_check_number(format->L, format->argument);
    const char *item = item_of(format, "ll", conversion);
    char result[RESULT_MAX];

    if (conversion == 'd' || conversion == 'i')
        snprintf(result, sizeof result, item, (long long)signed_of(number));
    else
        snprintf(result, sizeof result, item, (unsigned long long)unsigned_of(number));
    add_result(format, result);
}

/* Huge and tiny numbers have many digits, also those that are not shown. */
static void add_number(struct format *format, char conversion)
{
    double number = okv_lua_check_number(format->L, format->argument);
    char result[RESULT_MAX];
    int exponent = 0;

    if (isfinite(number))
        frexp(number, &exponent);
    okv_lua_spend(format->L, conversion == 'f' && exponent > 0 ? (uint64_t)exponent * SHOWN
                                                               : (uint64_t)abs(exponent) * HIDDEN);
    snprintf(result, sizeof result, item_of(format, "", conversion), number);
    add_result(format, result);
}

static void add_byte(struct format *format)
{
    double number = okv_lua_check_number(format->L, format->argument);
    char result[RESULT_MAX];

    snprintf(result, sizeof result, item_of(format, "", 'c'), (int)signed_of(number));
    add_result(format, result);
}

/* ---- strings ---- */

static const char *quoted(char byte)
{
    switch (byte) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\n':
        return "\\\n";
    case '\r':
        return "\\r";
    case '\0':
        return "\\000";
    default:
        return NULL;
    }
}

static void add_quoted(struct format *format)
{
    size_t length, begin = 0;
    const char *text = luaL_checklstring(format->L, format->argument, &length);

    add_result(format, "\"");
    for (size_t i = 0; i < length; i++) {
        const char *instead = quoted(text[i]);
        if (instead || i - begin == OKV_LUA_SLICE) {
            add_bytes(format, text + begin, i - begin);
            begin = i;
        }
        if (instead) {
            add_result(format, instead);
            begin = i + 1;
        }
    }
    add_bytes(format, text + begin, length - begin);
    add_result(format, "\"");
}

static void add_string(struct format *format)
{
    size_t length;
    const char *text = luaL_checklstring(format->L, format->argument, &length);
    char result[RESULT_MAX];

    if (length >= LONG && !strchr(format->item, '.')) {
        add_bytes(format, text, length);
        return;
    }
    snprintf(result, sizeof result, item_of(format, "", 's'), text);
    add_result(format, result);
}

/* ---- all of it ---- */

static void add_escape(struct format *format)
{
    okv_lua_spend(format->L, ESCAPE);
    add_bytes(format, format->at, 1);
    format->at++;
}

static void add_item(struct format *format)
{
    okv_lua_spend(format->L, ITEM);
    if (++format->argument >= format->result.index)
        luaL_argerror(format->L, format->argument, "no value");
    char conversion = take_item(format);
    switch (conversion) {
    case 'c':
        add_byte(format);
        break;
    case 'd':
    case 'i':
    case 'o':
    case 'u':
    case 'x':
    case 'X':
        add_integer(format, conversion);
        break;
    case 'e':
    case 'E':
    case 'f':
    case 'g':
    case 'G':
        add_number(format, conversion);
        break;
    case 'q':
        add_quoted(format);
        break;
    case 's':
        add_string(format);
        break;
    default:
        luaL_error(format->L, "invalid option '%%%c' to 'format'", conversion);
    }
}

static int string_format(lua_State *L)
{
    size_t length;
    struct format format = {.L = L, .at = luaL_checklstring(L, 1, &length), .argument = 1};

    okv_lua_spend(L, OKV_LUA_CALL);
    format.end = format.at + length;
    okv_lua_output_begin(L, &format.result);
    while (format.at < format.end) {
        size_t most = okv_lua_slice((size_t)(format.end - format.at));
        const char *item = memchr(format.at, '%', most);
        add_bytes(&format, format.at, item ? (size_t)(item - format.at) : most);
        format.at = item ? item + 1 : format.at + most;
        if (item && *format.at == '%')
            add_escape(&format);
        else if (item)
            add_item(&format);
    }
    okv_lua_output_push(L, &format.result);
    return 1;
}

void okv_lua_add_format(lua_State *L)
{
    static const luaL_Reg functions[] = {{"format", string_format}, {NULL, NULL}};

    okv_lua_add(L, functions);
}
