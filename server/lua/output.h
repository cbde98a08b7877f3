/* Bytes that a function of a script writes one after the other. Lua owns them, so that an error
 * frees them; unlike a luaL_Buffer they leave the rest of the stack alone. */
#ifndef OKV_SERVER_LUA_OUTPUT_H
#define OKV_SERVER_LUA_OUTPUT_H

#include <lua.h>
#include <stddef.h>

struct okv_lua_output {
    char *bytes; /* `first`, or what the stack has at `index` */
    size_t length, capacity;
    int index;
    char first[512];
};

/* Takes a slot of the stack for the bytes. */
void okv_lua_output_begin(lua_State *L, struct okv_lua_output *output);
/* Where the next `length` bytes go. Counts no work but that of growing. */
char *okv_lua_output_room(lua_State *L, struct okv_lua_output *output, size_t length);
/* Likewise; adds them. */
void okv_lua_output_add(lua_State *L, struct okv_lua_output *output, const void *bytes,
                        size_t length);
/* Pushes all of them as a string. */
void okv_lua_output_push(lua_State *L, const struct okv_lua_output *output);

static inline void okv_lua_output_byte(lua_State *L, struct okv_lua_output *output, int byte)
{
    if (output->length == output->capacity)
        okv_lua_output_room(L, output, 1);
    output->bytes[output->length++] = (char)byte;
}

#endif
