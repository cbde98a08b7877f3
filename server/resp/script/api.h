/* What scripts call: redis.call() and its like (redis.io, "Lua API reference"). */
#ifndef OKV_SERVER_RESP_SCRIPT_API_H
#define OKV_SERVER_RESP_SCRIPT_API_H

#include <lua.h>

/* Adds the functions to the table on the top of the stack. Raises errors of Lua. */
void okv_resp_script_add_api(lua_State *L);
/* Pushes an error as Redis has it: a table whose field `err` is the text. A text that begins with
 * '-' has its code; another one gets ERR. */
void okv_resp_script_push_error(lua_State *L, const char *text, size_t length);

#endif
