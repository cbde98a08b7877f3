/* The library "bit" (http://bitop.luajit.org/): operations on numbers of 32 bits. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "server/lua/argument.h"
#include "server/lua/libraries.h"
#include "server/lua/meter.h"

/* Work of an argument beyond the first. */
#define ARGUMENT 10u

/* The low 32 bits of a number, which the sum has at the end of its mantissa: 2^52 makes the last
 * bit of it 1, and half of that keeps negative ones there. Rounds to the nearest, as the original
 * does, and gives the same for what is beyond 2^51. */
static uint32_t bits(lua_State *L, int index)
{
    double number = okv_lua_check_number(L, index) + 0x1.8p52;
    uint64_t word;

    memcpy(&word, &number, sizeof word);
    return (uint32_t)word;
}

static int result(lua_State *L, uint32_t word)
{
    lua_pushnumber(L, (int32_t)word);
    return 1;
}

static int bit_tobit(lua_State *L)
{
    return result(L, bits(L, 1));
}

static int bit_bnot(lua_State *L)
{
    return result(L, ~bits(L, 1));
}

static int bit_bswap(lua_State *L)
{
    return result(L, __builtin_bswap32(bits(L, 1)));
}

/* ---- any number of arguments, the last one first as in the original ---- */

struct arguments {
    struct okv_lua_meter meter;
    int left;
    uint32_t next;
};

static uint32_t first(lua_State *L, struct arguments *arguments)
{
    arguments->meter = (struct okv_lua_meter){L, 0};
    arguments->left = lua_gettop(L);
    return bits(L, 1);
}

/* Returns whether there is one more argument, which is `next` then. */
static bool next(struct arguments *arguments)
{
    if (arguments->left <= 1) {
        okv_lua_settle(&arguments->meter);
        return false;
    }
    okv_lua_count(&arguments->meter, ARGUMENT);
    arguments->next = bits(arguments->meter.L, arguments->left--);
    return true;
}

static int bit_band(lua_State *L)
{
    struct arguments arguments;
    uint32_t word = first(L, &arguments);

    while (next(&arguments))
        word &= arguments.next;
    return result(L, word);
}

static int bit_bor(lua_State *L)
{
    struct arguments arguments;
    uint32_t word = first(L, &arguments);

    while (next(&arguments))
        word |= arguments.next;
    return result(L, word);
}

static int bit_bxor(lua_State *L)
{
    struct arguments arguments;
    uint32_t word = first(L, &arguments);

    while (next(&arguments))
        word ^= arguments.next;
    return result(L, word);
}

/* ---- shifts, by the low five bits of the second argument ---- */

static int bit_lshift(lua_State *L)
{
    uint32_t word = bits(L, 1);

    return result(L, word << (bits(L, 2) & 31));
}

static int bit_rshift(lua_State *L)
{
    uint32_t word = bits(L, 1);

    return result(L, word >> (bits(L, 2) & 31));
}

/* GCC and clang shift a negative number arithmetically. */
static int bit_arshift(lua_State *L)
{
    int32_t word = (int32_t)bits(L, 1);

    return result(L, (uint32_t)(word >> (bits(L, 2) & 31)));
}

static uint32_t rotate(uint32_t word, uint32_t count)
{
    return word << (count & 31) | word >> (-count & 31);
}

static int bit_rol(lua_State *L)
{
    uint32_t word = bits(L, 1);

    return result(L, rotate(word, bits(L, 2)));
}

static int bit_ror(lua_State *L)
{
    uint32_t word = bits(L, 1);

    return result(L, rotate(word, -bits(L, 2)));
}

/* ---- text ---- */

/* A negative count asks for capitals. There are eight digits at most (CVE-2024-31449: the least
 * count has no positive one). */
static int bit_tohex(lua_State *L)
{
    uint32_t word = bits(L, 1);
    int64_t count = lua_isnone(L, 2) ? 8 : (int32_t)bits(L, 2);
    const char *digits = count < 0 ? "0123456789ABCDEF" : "0123456789abcdef";
    char text[8];

    count = count < 0 ? -count : count;
    if (count > (int64_t)sizeof text)
        count = sizeof text;
    for (int64_t i = count; i-- > 0; word >>= 4)
        text[i] = digits[word & 15];
    okv_lua_push_bytes(L, text, (size_t)count);
    return 1;
}

void okv_lua_add_bit(lua_State *L)
{
    static const luaL_Reg functions[] = {{"arshift", bit_arshift},
                                         {"band", bit_band},
                                         {"bnot", bit_bnot},
                                         {"bor", bit_bor},
                                         {"bswap", bit_bswap},
                                         {"bxor", bit_bxor},
                                         {"lshift", bit_lshift},
                                         {"rol", bit_rol},
                                         {"ror", bit_ror},
                                         {"rshift", bit_rshift},
                                         {"tobit", bit_tobit},
                                         {"tohex", bit_tohex},
                                         {NULL, NULL}};

    okv_lua_add(L, functions);
}
