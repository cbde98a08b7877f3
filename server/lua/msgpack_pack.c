/* cmsgpack.pack: the bytes of lua-cmsgpack 0.4.0. */
#include <lauxlib.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "server/lua/argument.h"
#include "server/lua/meter.h"
#include "server/lua/msgpack.h"
#include "server/lua/output.h"

/* Tables within tables. One that is deeper is packed as nil, so that circles end. */
#define DEPTH_MAX 16

struct packer {
    lua_State *L;
    struct okv_lua_meter meter;
    struct okv_lua_output output;
};

/* The first byte, and the low `size` bytes of `number` with the highest one first. */
static void put(struct packer *packer, int first, uint64_t number, unsigned size)
{
    okv_lua_output_byte(packer->L, &packer->output, first);
    while (size-- > 0)
        okv_lua_output_byte(packer->L, &packer->output, (int)(number >> 8 * size & 0xff));
}

/* ---- scalars ---- */

static void put_integer(struct packer *packer, int64_t number)
{
    uint64_t bits = (uint64_t)number;

    if (number > UINT32_MAX)
        put(packer, OKV_MSGPACK_UINT64, bits, 8);
    else if (number > UINT16_MAX)
        put(packer, OKV_MSGPACK_UINT32, bits, 4);
    else if (number > UINT8_MAX)
        put(packer, OKV_MSGPACK_UINT16, bits, 2);
    else if (number > INT8_MAX)
        put(packer, OKV_MSGPACK_UINT8, bits, 1);
    else if (number >= -32)
        put(packer, (int)(bits & 0xff), 0, 0);
    else if (number >= INT8_MIN)
        put(packer, OKV_MSGPACK_INT8, bits, 1);
    else if (number >= INT16_MIN)
        put(packer, OKV_MSGPACK_INT16, bits, 2);
    else if (number >= INT32_MIN)
        put(packer, OKV_MSGPACK_INT32, bits, 4);
    else
        put(packer, OKV_MSGPACK_INT64, bits, 8);
}

/* The shortest format that has the very number; a NaN has none. */
static void put_number(struct packer *packer, double number)
{
    float single = (float)number;
    uint32_t single_bits;
    uint64_t bits;

    if (number >= -0x1p63 && number < 0x1p63 && (double)(int64_t)number == number) {
        put_integer(packer, (int64_t)number);
    } else if ((double)single == number) {
        memcpy(&single_bits, &single, sizeof single_bits);
        put(packer, OKV_MSGPACK_FLOAT, single_bits, sizeof single_bits);
    } else {
        memcpy(&bits, &number, sizeof bits);
        put(packer, OKV_MSGPACK_DOUBLE, bits, sizeof bits);
    }
}

static void put_string(struct packer *packer, const char *bytes, size_t length)
{
    if (length < 32)
        put(packer, OKV_MSGPACK_FIX_STRING | (int)length, 0, 0);
    else if (length <= UINT8_MAX)
        put(packer, OKV_MSGPACK_STRING8, length, 1);
    else if (length <= UINT16_MAX)
        put(packer, OKV_MSGPACK_STRING16, length, 2);
    else if (length <= UINT32_MAX)
        put(packer, OKV_MSGPACK_STRING32, length, 4);
    else
        luaL_error(packer->L, "string too long to be packed");
    okv_lua_count_bytes(&packer->meter, length);
    okv_lua_output_add(packer->L, &packer->output, bytes, length);
}

/* ---- tables ---- */

static void put_value(struct packer *packer, int depth);

/* Entries of the table on the top of the stack, and whether their keys are 1, 2, 3 and so on. */
static uint32_t count_entries(struct packer *packer, bool *is_array)
{
    lua_State *L = packer->L;
    uint32_t count = 0;
    double last = 0;

    *is_array = true;
    for (lua_pushnil(L); lua_next(L, -2); count++) {
        okv_lua_count(&packer->meter, OKV_LUA_ENTRY);
        lua_pop(L, 1);
        double key = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : 0;
        if (key < 1 || key > INT_MAX || key != (int)key)
            *is_array = false;
        else if (key > last)
            last = key;
    }
    *is_array = *is_array && last == count;
    return count;
}

static void put_size(struct packer *packer, bool is_array, uint32_t count)
{
    if (count < 16)
        put(packer, (is_array ? OKV_MSGPACK_FIX_ARRAY : OKV_MSGPACK_FIX_MAP) | (int)count, 0, 0);
    else if (count <= UINT16_MAX)
        put(packer, is_array ? OKV_MSGPACK_ARRAY16 : OKV_MSGPACK_MAP16, count, 2);
    else
        put(packer, is_array ? OKV_MSGPACK_ARRAY32 : OKV_MSGPACK_MAP32, count, 4);
}

/* Its empty slots take time of which Lua says nothing, so the clock is looked at. The recursion
 * ends at DEPTH_MAX. */
static void put_table(struct packer *packer, int depth)
{
    lua_State *L = packer->L;
    bool is_array;

    luaL_checkstack(L, 4, "table to be packed");
    okv_lua_settle(&packer->meter);
    uint32_t count = count_entries(packer, &is_array);
    put_size(packer, is_array, count);
    if (is_array) {
        for (uint32_t i = 1; i <= count; i++) {
            lua_rawgeti(L, -1, (int)i);
            put_value(packer, depth + 1);
        }
        return;
    }
    for (lua_pushnil(L); lua_next(L, -2);) {
        lua_pushvalue(L, -2);
        put_value(packer, depth + 1);
        put_value(packer, depth + 1);
    }
}

/* Removes the value on the top of the stack. */
static void put_value(struct packer *packer, int depth)
{
    lua_State *L = packer->L;
    int type = lua_type(L, -1);
    const char *bytes;
    size_t length;

    okv_lua_count(&packer->meter, OKV_LUA_CALL);
    if (type == LUA_TSTRING) {
        bytes = lua_tolstring(L, -1, &length);
        put_string(packer, bytes, length);
    } else if (type == LUA_TNUMBER) {
        put_number(packer, lua_tonumber(L, -1));
    } else if (type == LUA_TBOOLEAN) {
        put(packer, lua_toboolean(L, -1) ? OKV_MSGPACK_TRUE : OKV_MSGPACK_FALSE, 0, 0);
    } else if (type == LUA_TTABLE && depth < DEPTH_MAX) {
        put_table(packer, depth);
    } else {
        put(packer, OKV_MSGPACK_NIL, 0, 0);
    }
    lua_pop(L, 1);
}

int okv_lua_msgpack_pack(lua_State *L)
{
    struct packer packer;
    int count = lua_gettop(L);

    luaL_argcheck(L, count > 0, 0, "MessagePack pack needs input.");
    luaL_checkstack(L, 8, "values to be packed");
    packer.L = L;
    packer.meter = (struct okv_lua_meter){L, 0};
    okv_lua_output_begin(L, &packer.output);
    for (int i = 1; i <= count; i++) {
        lua_pushvalue(L, i);
        put_value(&packer, 0);
    }
    okv_lua_settle(&packer.meter);
    okv_lua_output_push(L, &packer.output);
    return 1;
}
