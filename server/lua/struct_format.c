#include "server/lua/struct_format.h"

#include <ctype.h>
#include <lauxlib.h>
#include <limits.h>

#define INTEGER_MAX 32
#define ALIGNMENT 8

static size_t read_count(struct okv_struct *format, size_t otherwise)
{
    size_t count = 0;

    if (!isdigit((unsigned char)*format->at))
        return otherwise;
    for (; isdigit((unsigned char)*format->at); format->at++) {
        okv_lua_count(&format->meter, OKV_LUA_INSTRUCTION);
        count = count * 10 + (size_t)(*format->at - '0');
        if (count > INT_MAX)
            luaL_error(format->L, "integral size overflow");
    }
    return count;
}

static size_t size_of_integer(struct okv_struct *format)
{
    size_t size = read_count(format, sizeof(int));

    if (size > INTEGER_MAX)
        luaL_error(format->L, "integral size %d is larger than limit of %d", (int)size,
                   INTEGER_MAX);
    return size;
}

static size_t read_size(struct okv_struct *format)
{
    switch (format->option) {
    case 'b':
    case 'B':
    case 'x':
        return 1;
    case 'h':
    case 'H':
        return sizeof(short);
    case 'f':
        return sizeof(float);
    case 'l':
    case 'L':
    case 'T':
    case 'd':
        return sizeof(int64_t);
    case 'i':
    case 'I':
        return size_of_integer(format);
    case 'c':
        return read_count(format, 1);
    default:
        return 0;
    }
}

/* Of a value at `position`. A size that is no power of two has the padding that the original gives
 * it. */
static size_t padding_at(const struct okv_struct *format, size_t position)
{
    size_t size = format->size < format->alignment ? format->size : format->alignment;

    if (size == 0 || format->option == 'c')
        return 0;
    return (size - (position & (size - 1))) & (size - 1);
}

bool okv_struct_next(struct okv_struct *format, size_t position)
{
    if (*format->at == '\0') {
        okv_lua_settle(&format->meter);
        return false;
    }
    okv_lua_count(&format->meter, OKV_LUA_CALL);
    format->option = *format->at++;
    format->size = read_size(format);
    format->padding = padding_at(format, position);
    return true;
}

static void set_alignment(struct okv_struct *format)
{
    size_t alignment = read_count(format, ALIGNMENT);

    if (alignment == 0 || (alignment & (alignment - 1)))
        luaL_error(format->L, "alignment %d is not a power of 2", (int)alignment);
    format->alignment = alignment;
}

void okv_struct_control(struct okv_struct *format)
{
    switch (format->option) {
    case ' ':
        break;
    case '>':
    case '<':
        format->is_big = format->option == '>';
        break;
    case '!':
        set_alignment(format);
        break;
    default:
        lua_pushfstring(format->L, "invalid format option '%c'", format->option);
        luaL_argerror(format->L, 1, lua_tostring(format->L, -1));
    }
}

void okv_struct_begin(lua_State *L, struct okv_struct *format)
{
    format->L = L;
    format->meter = (struct okv_lua_meter){L, 0};
    format->at = luaL_checkstring(L, 1);
    format->alignment = 1;
    format->is_big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
}
