/* The library "struct" (http://www.inf.puc-rio.br/~roberto/struct/): numbers and strings as bytes.
 */
#include <ctype.h>
#include <string.h>

#include "server/lua/argument.h"
#include "server/lua/libraries.h"
#include "server/lua/output.h"
#include "server/lua/struct_format.h"

/* ---- pack ---- */

/* Bytes beyond those of the number are zero, as in the original. */
static void put_bits(struct okv_struct *format, struct okv_lua_output *output, uint64_t bits)
{
    size_t size = format->size;

    for (size_t i = 0; i < size; i++) {
        size_t place = format->is_big ? size - 1 - i : i;

        okv_lua_output_byte(format->L, output,
                            place < sizeof bits ? (int)(bits >> 8 * place & 0xff) : 0);
    }
}

/* The bits of a number that is out of range are those that x86-64 gives the original. */
static uint64_t integer_bits(double number)
{
    if (number >= 0x1p64)
        return 0;
    return number >= 0x1p63 ? (uint64_t)number : (uint64_t)okv_lua_truncate(number);
}

static void put_float(struct okv_struct *format, struct okv_lua_output *output, double number)
{
    float single = (float)number;
    uint32_t bits;

    memcpy(&bits, &single, sizeof bits);
    put_bits(format, output, bits);
}

static void put_double(struct okv_struct *format, struct okv_lua_output *output, double number)
{
    uint64_t bits;

    memcpy(&bits, &number, sizeof bits);
    put_bits(format, output, bits);
}

static void put_string(struct okv_struct *format, struct okv_lua_output *output, int index)
{
    size_t length;
    const char *bytes = luaL_checklstring(format->L, index, &length);

    luaL_argcheck(format->L, length >= format->size, index, "string too short");
    if (format->size)
        length = format->size;
    okv_lua_count_bytes(&format->meter, length);
    okv_lua_output_add(format->L, output, bytes, length);
    if (format->option == 's')
        okv_lua_output_byte(format->L, output, '\0');
}

/* Returns the index of the next argument. */
static int put_value(struct okv_struct *format, struct okv_lua_output *output, int index)
{
    lua_State *L = format->L;

    switch (format->option) {
    case 'x':
        okv_lua_output_byte(L, output, '\0');
        return index;
    case 'f':
        put_float(format, output, okv_lua_check_number(L, index));
        break;
    case 'd':
        put_double(format, output, okv_lua_check_number(L, index));
        break;
    case 'c':
    case 's':
        put_string(format, output, index);
        break;
    default:
        if (!strchr("bBhHlLTiI", format->option)) {
            okv_struct_control(format);
            return index;
        }
        put_bits(format, output, integer_bits(okv_lua_check_number(L, index)));
    }
    return index + 1;
}

/* The slot behind the arguments is nil while they are read, so that a missing one is none. */
static int struct_pack(lua_State *L)
{
    struct okv_lua_output output;
    struct okv_struct format;
    int index = 2;

    okv_struct_begin(L, &format);
    lua_pushnil(L);
    okv_lua_output_begin(L, &output);
    while (okv_struct_next(&format, output.length)) {
        while (format.padding-- > 0)
            okv_lua_output_byte(L, &output, '\0');
        index = put_value(&format, &output, index);
    }
    okv_lua_output_push(L, &output);
    return 1;
}

/* ---- unpack ---- */

/* Of a number that has more bytes, the low ones count. */
static uint64_t read_bits(const struct okv_struct *format, const char *bytes)
{
    size_t size = format->size, count = size < 8 ? size : 8;
    uint64_t bits = 0;

    for (size_t i = count; i-- > 0;)
        bits = bits << 8 | (unsigned char)bytes[format->is_big ? size - 1 - i : i];
    return bits;
}

static void push_integer(const struct okv_struct *format, const char *bytes)
{
    uint64_t bits = read_bits(format, bytes);
    unsigned unused = format->size < 8 && format->size > 0 ? 64 - 8 * (unsigned)format->size : 0;

    if (islower((unsigned char)format->option))
        lua_pushnumber(format->L, (double)((int64_t)(bits << unused) >> unused));
    else
        lua_pushnumber(format->L, (double)bits);
}

static void push_float(const struct okv_struct *format, const char *bytes)
{
    uint32_t bits = (uint32_t)read_bits(format, bytes);
    float number;

    memcpy(&number, &bits, sizeof number);
    lua_pushnumber(format->L, number);
}

static void push_double(const struct okv_struct *format, const char *bytes)
{
    uint64_t bits = read_bits(format, bytes);
    double number;

    memcpy(&number, &bits, sizeof number);
    lua_pushnumber(format->L, number);
}

static void push_bytes(struct okv_struct *format, const char *bytes, size_t length)
{
    okv_lua_count_bytes(&format->meter, length);
    okv_lua_push_bytes(format->L, bytes, length);
}

/* Removes the size that was read before. */
static void take_size(struct okv_struct *format, int count, size_t left)
{
    double size = 0;

    if (count == 0 || !okv_lua_to_number(format->L, -1, &size))
        luaL_error(format->L, "format 'c0' needs a previous size");
    lua_pop(format->L, 1);
    luaL_argcheck(format->L, size > -1 && size < (double)left + 1, 2, "data string too short");
    format->size = (size_t)size;
}

/* Sets the size to that of the string with its end. */
static void push_string(struct okv_struct *format, const char *bytes, size_t left)
{
    size_t length = 0;
    const char *end = NULL;

    for (; !end && length < left; length += OKV_LUA_PIECE) {
        okv_lua_count(&format->meter, OKV_LUA_PIECE / 16);
        end = memchr(bytes + length, '\0',
                     left - length < OKV_LUA_PIECE ? left - length : OKV_LUA_PIECE);
    }
    if (!end)
        luaL_error(format->L, "unfinished string in data");
    format->size = (size_t)(end - bytes) + 1;
    push_bytes(format, bytes, format->size - 1);
}

/* Of `count` values that were pushed. Returns how many there are then. */
static int push_value(struct okv_struct *format, const char *bytes, size_t left, int count)
{
    switch (format->option) {
    case 'x':
        return count;
    case 'f':
        push_float(format, bytes);
        break;
    case 'd':
        push_double(format, bytes);
        break;
    case 'c':
        if (format->size == 0)
            take_size(format, count--, left);
        push_bytes(format, bytes, format->size);
        break;
    case 's':
        push_string(format, bytes, left);
        break;
    default:
        if (!strchr("bBhHlLTiI", format->option)) {
            okv_struct_control(format);
            return count;
        }
        push_integer(format, bytes);
    }
    return count + 1;
}

/* The position may be negative; it is too far then. */
static int struct_unpack(lua_State *L)
{
    struct okv_struct format;
    size_t length, position;
    const char *bytes;
    int count = 0;

    okv_struct_begin(L, &format);
    bytes = luaL_checklstring(L, 2, &length);
    position = (size_t)okv_lua_opt_integer(L, 3, 1);
    luaL_argcheck(L, position > 0, 3, "offset must be 1 or greater");
    position--;
    while (okv_struct_next(&format, position)) {
        position += format.padding;
        luaL_argcheck(L, format.size <= length && position <= length - format.size, 2,
                      "data string too short");
        luaL_checkstack(L, 4, "too many results");
        count = push_value(&format, bytes + position, length - position, count);
        position += format.size;
    }
    lua_pushinteger(L, (lua_Integer)(position + 1));
    return count + 1;
}

/* ---- size ---- */

/* Letters and digits that are no options have no size, as in the original. */
static int struct_size(lua_State *L)
{
    struct okv_struct format;
    size_t position = 0;

    okv_struct_begin(L, &format);
    while (okv_struct_next(&format, position)) {
        position += format.padding;
        luaL_argcheck(L, format.option != 's', 1, "option 's' has no fixed size");
        luaL_argcheck(L, format.option != 'c' || format.size > 0, 1,
                      "option 'c0' has no fixed size");
        if (!isalnum((unsigned char)format.option))
            okv_struct_control(&format);
        position += format.size;
    }
    lua_pushinteger(L, (lua_Integer)position);
    return 1;
}

void okv_lua_add_struct(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"pack", struct_pack}, {"size", struct_size}, {"unpack", struct_unpack}, {NULL, NULL}};

    okv_lua_add(L, functions);
}
