/*
 * The formats of the library "struct" (struct.c). A format is a text of options, each a character
 * that a number may follow:
 *
 *     > <      bytes with the highest first, or last
 *     !        the most that values are aligned to
 *     b h i l  integers of 1, 2, 4 and 8 bytes; i of as many as follow it
 *     B H I L  likewise, without a sign; T is L
 *     f d x    a float, a double, a byte of padding
 *     s        a string that ends with a zero byte
 *     c        one of as many bytes as follow; c0: of any length, which is read before it
 */
#ifndef OKV_SERVER_LUA_STRUCT_FORMAT_H
#define OKV_SERVER_LUA_STRUCT_FORMAT_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

#include "server/lua/meter.h"

struct okv_struct {
    lua_State *L;
    struct okv_lua_meter meter;
    const char *at;   /* the next option */
    char option;      /* the one that was read */
    size_t size;      /* of its value; 0: it has none, or one of any length */
    size_t padding;   /* before the value */
    size_t alignment; /* at most */
    bool is_big;      /* the highest byte is the first */
};

/* The format is the first argument. Its order of bytes is this machine's at first. */
void okv_struct_begin(lua_State *L, struct okv_struct *format);
/* Reads an option that begins at `position`: its padding, and then its value. Returns whether
 * there is one; the work is settled when there is none. */
bool okv_struct_next(struct okv_struct *format, size_t position);
/* Does what an option without a value says. */
void okv_struct_control(struct okv_struct *format);

#endif
