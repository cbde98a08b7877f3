/* A text of Lua in a machine of its own (server/lua/machine.h). */
#ifndef OKV_TESTS_LUA_RUN_H
#define OKV_TESTS_LUA_RUN_H

#include "server/lua/machine.h"

/* Work and memory that are enough for what is no attack. */
#define LUA_RUN_WORK 100000000u
#define LUA_RUN_MEMORY (64u << 20)

/* What a text that returns a string or a number returned; else its error, behind "error: ". Good
 * until the next call. */
const char *lua_run(const char *text);

struct lua_result {
    enum okv_lua_end end;
    uint64_t work;
    char text[4096]; /* of the result or the error */
};

struct lua_result lua_run_within(const char *text, const struct okv_lua_limits *limits);

#define assert_lua(text, expected) assert_string_equal(lua_run(text), expected)

#endif
