/*
 * What a script can reach: the allowed globals of the machine, and its lists KEYS and ARGV. Tables
 * of the machine, and the globals, are reached through proxies: reading finds the real table,
 * writing raises an error, and functions that write without asking refuse them.
 */
#ifndef OKV_SERVER_LUA_SANDBOX_H
#define OKV_SERVER_LUA_SANDBOX_H

#include <lua.h>

/* For okv_lua_create(): opens the libraries and makes the sandbox. */
int okv_sandbox_open(lua_State *L);
/* Makes the table on the top of the stack a global of all scripts, read only, and removes it from
 * the stack. In a new machine. */
void okv_sandbox_add(lua_State *L, const char *name);

/* Pushes the globals for a script, and makes them those of what it loads. Within a run. */
void okv_sandbox_enter(lua_State *L);
/* Makes the value on the top of the stack the global KEYS or ARGV, and removes it from the stack.
 * Within a run. */
void okv_sandbox_set(lua_State *L, const char *name);
/* After a run: what is loaded next has none of them, and the lists are gone. Needs no memory. */
void okv_sandbox_leave(lua_State *L);

#endif
