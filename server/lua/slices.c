#include "server/lua/slices.h"

#include <string.h>

#include "server/lua/budget.h"

/* The first slice that is compared: most texts differ there. */
#define FIRST 32u

void okv_lua_copy(lua_State *L, char *to, const char *from, size_t length)
{
    for (size_t at = 0, step; at < length; at += step) {
        step = okv_lua_slice(length - at);
        okv_lua_spend(L, step);
        memcpy(to + at, from + at, step);
    }
}

int okv_lua_compare(lua_State *L, const char *a, const char *b, size_t length)
{
    size_t slice = FIRST;
    int order = 0;

    for (size_t at = 0, step; at < length && order == 0; at += step) {
        step = length - at < slice ? length - at : slice;
        okv_lua_spend(L, step);
        order = memcmp(a + at, b + at, step);
        slice = okv_lua_slice(2 * slice);
    }
    return order;
}

void okv_lua_add_slices(lua_State *L, struct okv_lua_output *output, const char *bytes,
                        size_t length)
{
    okv_lua_copy(L, okv_lua_output_room(L, output, length), bytes, length);
    output->length += length;
}
