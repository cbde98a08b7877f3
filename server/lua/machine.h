/*
 * A Lua machine for text of strangers (Lua 5.1, https://www.lua.org/manual/5.1/). Scripts run one
 * after the other, each within limits, and leave nothing behind: what they can reach of the
 * machine is read only (sandbox.h), and their globals end with them.
 *
 * Threads. A machine belongs to one thread at a time.
 */
#ifndef OKV_SERVER_LUA_MACHINE_H
#define OKV_SERVER_LUA_MACHINE_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct okv_lua;

/* Of one run. */
struct okv_lua_limits {
    uint64_t work;   /* units of server/core/turn.h. Twice as many ns of processor time are a second
                        limit, for work that is not counted, such as long chains of a hash table */
    uint64_t memory; /* bytes beyond those in use at the begin */
    size_t text;     /* bytes of the text of what runs, if it was compiled before: no constant of it
                        is longer, and its code hardly */
};

enum okv_lua_end {
    OKV_LUA_DONE,
    OKV_LUA_FAILED,      /* by an error that was not caught; it is on the top of the stack */
    OKV_LUA_OVER_WORK,   /* the limit ended it */
    OKV_LUA_OVER_MEMORY, /* likewise, or there is none */
};

/* `open` makes what scripts find (sandbox.h). NULL: there is no memory. */
struct okv_lua *okv_lua_create(lua_CFunction open);
void okv_lua_destroy(struct okv_lua *lua);

/*
 * Calls `body`, with lua_touserdata(L, 1) == user, within limits. Errors of Lua end there. The
 * caller looks at the stack, then calls okv_lua_end().
 */
enum okv_lua_end okv_lua_begin(struct okv_lua *lua, const struct okv_lua_limits *limits,
                               lua_CFunction body, void *user);
/* What the run has cost, for which others wait: the work that it has counted, or as much as its
 * processor time allows, when that is more. Once, before okv_lua_end(). */
uint64_t okv_lua_cost(struct okv_lua *lua);
/* Drops what the run left. Work that the run has counted. */
uint64_t okv_lua_end(struct okv_lua *lua);

lua_State *okv_lua_state(const struct okv_lua *lua);
/* Within a run. */
struct okv_lua *okv_lua_of(lua_State *L);
void *okv_lua_user(lua_State *L);
/* Work that is left. */
uint64_t okv_lua_left(lua_State *L);
/* Bytes that the run has added to those in use. */
uint64_t okv_lua_added(lua_State *L);

/* Outside of a run: a step of the collector, which may need memory. Returns whether it has ended a
 * cycle. */
bool okv_lua_collect(struct okv_lua *lua, int kib);

/* Bytes in use. */
uint64_t okv_lua_memory(const struct okv_lua *lua);

/*
 * Compiles text as a function named `name`, and leaves it on the stack; or leaves an error message.
 * Returns whether it is a function. Bytes of a compiled one are refused. Within a run.
 */
bool okv_lua_compile(lua_State *L, const char *text, size_t length, const char *name);
/* Whether that took far longer than its length explains, as where strings collide. */
bool okv_lua_compiled_slowly(const struct okv_lua *lua);

#endif
