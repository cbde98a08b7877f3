/* cmsgpack.unpack and its like: the values of lua-cmsgpack 0.4.0. They go from value to value
 * without recursion, so that deep ones need little of the thread's stack. */
#include <lauxlib.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "server/lua/argument.h"
#include "server/lua/meter.h"
#include "server/lua/msgpack.h"

/* Tables within tables. Each takes slots of Lua's stack, of which a function has 8000. */
#define DEPTH_MAX 4000
#define TOO_MANY "too many return values at once; use unpack_one or unpack_limit instead."

/* A table that was begun. It is on the stack, and above it the key whose value comes next. */
struct level {
    uint32_t left; /* entries, the one that is read among them */
    uint32_t next; /* the index of an array; 0: a map */
    bool has_key;  /* the map has it on the stack */
};

struct unpacker {
    lua_State *L;
    struct okv_lua_meter meter;
    const unsigned char *at, *end;
    int depth;
    struct level levels[DEPTH_MAX];
};

/* Passes over bytes of the input. */
static const unsigned char *take(struct unpacker *unpacker, size_t length)
{
    const unsigned char *at = unpacker->at;

    if (length > (size_t)(unpacker->end - at))
        luaL_error(unpacker->L, "Missing bytes in input.");
    unpacker->at += length;
    return at;
}

/* A number with the highest byte first. */
static uint64_t take_number(struct unpacker *unpacker, unsigned size)
{
    const unsigned char *at = take(unpacker, size);
    uint64_t number = 0;

    for (unsigned i = 0; i < size; i++)
        number = number << 8 | at[i];
    return number;
}

/* ---- scalars ---- */

static void push_string(struct unpacker *unpacker, size_t length)
{
    const unsigned char *bytes = take(unpacker, length);

    okv_lua_count_bytes(&unpacker->meter, length);
    okv_lua_push_bytes(unpacker->L, bytes, length);
}

static void push_float(struct unpacker *unpacker)
{
    uint32_t bits = (uint32_t)take_number(unpacker, sizeof bits);
    float number;

    memcpy(&number, &bits, sizeof number);
    lua_pushnumber(unpacker->L, number);
}

static void push_double(struct unpacker *unpacker)
{
    uint64_t bits = take_number(unpacker, sizeof bits);
    double number;

    memcpy(&number, &bits, sizeof number);
    lua_pushnumber(unpacker->L, number);
}

/* Redis has no numbers above INT64_MAX: those are negative. */
static void push_integer(struct unpacker *unpacker, int first)
{
    static const char shifts[] = {56, 48, 32, 0};
    int shift = shifts[first & 3];
    uint64_t bits = take_number(unpacker, 1u << (first & 3)) << shift;

    if (first >= OKV_MSGPACK_INT8 || shift == 0)
        lua_pushnumber(unpacker->L, (double)((int64_t)bits >> shift));
    else
        lua_pushnumber(unpacker->L, (double)(bits >> shift));
}

/* ---- tables ---- */

/* Returns whether the table is complete, as an empty one is. */
static bool begin(struct unpacker *unpacker, bool is_array, uint64_t count)
{
    lua_newtable(unpacker->L);
    if (count == 0)
        return true;
    if (unpacker->depth == DEPTH_MAX)
        luaL_error(unpacker->L, "stack overflow (%s)", TOO_MANY);
    unpacker->levels[unpacker->depth++] = (struct level){(uint32_t)count, is_array, false};
    return false;
}

/* Moves the value on the top of the stack into its table, or leaves it there as a key. Returns
 * whether the table is complete. */
static bool add(struct unpacker *unpacker)
{
    struct level *level = &unpacker->levels[unpacker->depth - 1];

    okv_lua_count(&unpacker->meter, OKV_LUA_CALL);
    if (level->next) {
        lua_rawseti(unpacker->L, -2, (int)level->next++);
    } else if (level->has_key) {
        lua_rawset(unpacker->L, -3);
        level->has_key = false;
    } else {
        level->has_key = true;
        return false;
    }
    if (--level->left > 0)
        return false;
    unpacker->depth--;
    return true;
}

/* ---- values ---- */

static void push_scalar(struct unpacker *unpacker, int first)
{
    lua_State *L = unpacker->L;

    if (first < OKV_MSGPACK_FIX_MAP || first >= OKV_MSGPACK_NEGATIVE)
        lua_pushinteger(L, (int8_t)first);
    else if (first < OKV_MSGPACK_NIL)
        push_string(unpacker, (size_t)first & 0x1f);
    else if (first == OKV_MSGPACK_NIL)
        lua_pushnil(L);
    else if (first == OKV_MSGPACK_FALSE || first == OKV_MSGPACK_TRUE)
        lua_pushboolean(L, first == OKV_MSGPACK_TRUE);
    else if (first == OKV_MSGPACK_FLOAT)
        push_float(unpacker);
    else if (first == OKV_MSGPACK_DOUBLE)
        push_double(unpacker);
    else if (first >= OKV_MSGPACK_UINT8 && first <= OKV_MSGPACK_INT64)
        push_integer(unpacker, first);
    else if (first >= OKV_MSGPACK_STRING8 && first <= OKV_MSGPACK_STRING32)
        push_string(unpacker, take_number(unpacker, 1u << (first - OKV_MSGPACK_STRING8)));
    else
        luaL_error(L, "Bad data format in input.");
}

/* Pushes what begins at the input. Returns whether it is complete. */
static bool push_next(struct unpacker *unpacker)
{
    int first = *take(unpacker, 1);

    luaL_checkstack(unpacker->L, 4, TOO_MANY);
    okv_lua_count(&unpacker->meter, OKV_LUA_CALL);
    if (first >= OKV_MSGPACK_FIX_MAP && first < OKV_MSGPACK_FIX_STRING)
        return begin(unpacker, first >= OKV_MSGPACK_FIX_ARRAY, first & 0xf);
    if (first >= OKV_MSGPACK_ARRAY16 && first <= OKV_MSGPACK_MAP32)
        return begin(unpacker, first < OKV_MSGPACK_MAP16, take_number(unpacker, first & 1 ? 4 : 2));
    push_scalar(unpacker, first);
    return true;
}

static void push_value(struct unpacker *unpacker)
{
    bool is_complete;

    do {
        is_complete = push_next(unpacker);
        while (is_complete && unpacker->depth > 0)
            is_complete = add(unpacker);
    } while (unpacker->depth > 0);
}

/* ---- functions ---- */

/* Pushes values, and returns how many. Moves the offset behind them, or to -1 at the end. */
static int push_values(lua_State *L, int64_t limit, int64_t *offset)
{
    struct unpacker unpacker;
    size_t length;
    const char *bytes = luaL_checklstring(L, 1, &length);
    int count = 0;

    if (*offset < 0 || limit < 0)
        return luaL_error(L, "Invalid request to unpack with offset of %f and limit of %f.",
                          (double)*offset, (double)limit);
    if ((uint64_t)*offset > length)
        return luaL_error(L, "Start offset %f greater than input length %f.", (double)*offset,
                          (double)length);
    unpacker.L = L;
    unpacker.meter = (struct okv_lua_meter){L, 0};
    unpacker.at = (const unsigned char *)bytes + *offset;
    unpacker.end = (const unsigned char *)bytes + length;
    unpacker.depth = 0;
    for (; unpacker.at < unpacker.end && count < limit; count++)
        push_value(&unpacker);
    okv_lua_settle(&unpacker.meter);
    *offset = unpacker.at < unpacker.end ? unpacker.at - (const unsigned char *)bytes : -1;
    return count;
}

/* The offset, and up to `limit` values behind it; no limit and no offset: all values alone. */
static int unpack_limit(lua_State *L, int64_t limit, int64_t offset)
{
    bool is_all = limit == 0 && offset == 0;
    int count = push_values(L, is_all ? INT_MAX : limit, &offset);

    if (is_all)
        return count;
    luaL_checkstack(L, 2, TOO_MANY);
    lua_pushinteger(L, offset);
    lua_insert(L, -count - 1);
    return count + 1;
}

int okv_lua_msgpack_unpack(lua_State *L)
{
    return unpack_limit(L, 0, 0);
}

int okv_lua_msgpack_unpack_one(lua_State *L)
{
    return unpack_limit(L, 1, okv_lua_opt_integer(L, 2, 0));
}

int okv_lua_msgpack_unpack_limit(lua_State *L)
{
    int64_t limit = okv_lua_check_integer(L, 2);

    return unpack_limit(L, limit, okv_lua_opt_integer(L, 3, 0));
}
