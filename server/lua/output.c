#include "server/lua/output.h"

#include <string.h>

#include "server/lua/budget.h"

void okv_lua_output_begin(lua_State *L, struct okv_lua_output *output)
{
    lua_pushnil(L);
    output->index = lua_gettop(L);
    output->bytes = output->first;
    output->length = 0;
    output->capacity = sizeof output->first;
}

/* The allocation counts twice the bytes that are copied. */
char *okv_lua_output_room(lua_State *L, struct okv_lua_output *output, size_t length)
{
    if (length > output->capacity - output->length) {
        size_t capacity = 2 * output->capacity + length;
        char *bytes = okv_lua_new_bytes(L, capacity);

        memcpy(bytes, output->bytes, output->length);
        lua_replace(L, output->index);
        output->bytes = bytes;
        output->capacity = capacity;
    }
    return output->bytes + output->length;
}

void okv_lua_output_add(lua_State *L, struct okv_lua_output *output, const void *bytes,
                        size_t length)
{
    memcpy(okv_lua_output_room(L, output, length), bytes, length);
    output->length += length;
}

/* The allocation of the string counts, and of one that exists less is done. */
void okv_lua_output_push(lua_State *L, const struct okv_lua_output *output)
{
    okv_lua_push_bytes(L, output->bytes, output->length);
}
