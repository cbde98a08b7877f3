/* A text of Lua in a machine of its own (server/lua/machine.h). */
#ifndef OKV_TESTS_LUA_RUN_H
#define OKV_TESTS_LUA_RUN_H

#include <stdbool.h>

#include "server/lua/machine.h"

/* Work and memory that are enough for what is no attack, and with the work processor time that is
 * enough for ThreadSanitizer. */
#define LUA_RUN_WORK 1000000000u
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

/* Fails unless a limit ends the text, and it has not done much more than it may. */
void lua_assert_limited(const char *text);
/* The work of a text that succeeds. */
uint64_t lua_work_of(const char *text);
/* Fails unless it is at least that much. */
void lua_assert_counted(const char *text, uint64_t least);

/* A call, and the work that it adds at least to what comes before it. */
struct lua_counted {
    const char *before, *call;
    uint64_t least;
};
void lua_assert_all_counted(const struct lua_counted *counted, size_t count);

#define assert_lua(text, expected) assert_string_equal(lua_run(text), expected)

/* Processor time passes sixteen times as slowly for limits, so that a script ends by its work, also
 * on a slow processor and under a sanitizer; that is how a program begins. With false as it does.
 */
void lua_run_set_patient(bool is_patient);

#endif
