/* Numbers that a script passes: a function of Lua converts them without a limit, and a conversion
 * to an integer of one that does not fit is undefined in C. */
#ifndef OKV_SERVER_LUA_ARGUMENT_H
#define OKV_SERVER_LUA_ARGUMENT_H

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/lua/meter.h"

/* Bytes of a text that may be a number, and the work of converting one. Redis takes longer ones,
 * whose digits no number has. */
#define OKV_LUA_NUMBER_MAX 4096u
#define OKV_LUA_NUMBER 100u
#define OKV_LUA_NUMBER_BYTE 4u

/* okv_lua_count() of many bytes, in steps. */
void okv_lua_count_bytes(struct okv_lua_meter *meter, uint64_t length);

/* Whether the argument, a text, is not too long to look at as a number. Counts that. */
bool okv_lua_may_be_number(lua_State *L, int index);
/* Raises an error unless it may. */
void okv_lua_check_number_text(lua_State *L, int index);
/* Whether the argument is a number, or a text of one that is not too long to look at. */
bool okv_lua_to_number(lua_State *L, int index, double *number);
/* luaL_checknumber(). */
double okv_lua_check_number(lua_State *L, int index);

/* The nearest integer towards zero, or the end of the range; the lower one for what is no number
 * at all. */
int64_t okv_lua_truncate(double number);
/* luaL_checkinteger() and luaL_optinteger(), likewise. */
int64_t okv_lua_check_integer(lua_State *L, int index);
int64_t okv_lua_opt_integer(lua_State *L, int index, int64_t otherwise);

#endif
