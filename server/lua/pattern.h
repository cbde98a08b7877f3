/*
 * Patterns of Lua 5.1 (https://www.lua.org/manual/5.1/manual.html#5.4.1). A pattern ends with its
 * first zero byte, a text may have some. Errors of Lua end a search: a pattern is malformed, or the
 * work is spent.
 */
#ifndef OKV_SERVER_LUA_PATTERN_H
#define OKV_SERVER_LUA_PATTERN_H

#include <lua.h>
#include <stddef.h>

#include "server/lua/meter.h"

struct okv_lua_match {
    struct okv_lua_meter meter;
    const char *begin, *end; /* of the text, which the caller keeps on the stack */
    unsigned depth;
    unsigned captures;
    struct {
        const char *begin;
        ptrdiff_t length; /* negative: see pattern.c */
    } capture[LUA_MAXCAPTURES];
};

void okv_lua_match_init(struct okv_lua_match *match, lua_State *L, const char *text, size_t length);
/* The end of what the pattern matches at `at`, or NULL. */
const char *okv_lua_match_at(struct okv_lua_match *match, const char *at, const char *pattern);
/* Where `needle`, which is no pattern, is at `at` or behind, or NULL. */
const char *okv_lua_match_plain(struct okv_lua_match *match, const char *at, const char *needle,
                                size_t length);

/* Pushes a capture of the last match, which was from `begin` to `end`. A match without captures is
 * its own first one. */
void okv_lua_match_push(struct okv_lua_match *match, unsigned capture, const char *begin,
                        const char *end);
/* Pushes all, returns how many; without the match itself if `begin` is NULL. */
int okv_lua_match_push_all(struct okv_lua_match *match, const char *begin, const char *end);

#endif
