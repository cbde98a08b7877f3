/* Replies as values of Lua, and values of Lua as replies (redis.io, "Lua API reference", "Data type
 * conversion"). Both count their work. */
#ifndef OKV_SERVER_RESP_SCRIPT_CONVERT_H
#define OKV_SERVER_RESP_SCRIPT_CONVERT_H

#include <lua.h>

#include "server/resp/proto/reply.h"

/* Bytes of the reply of a script. */
#define OKV_RESP_SCRIPT_REPLY_MAX (64u << 20)

/* Pushes the reply that a command wrote. */
void okv_resp_script_push_reply(lua_State *L, const struct okv_resp_buffer *reply);
/* Pushes a field of a table, without metamethods. Returns its type. */
int okv_resp_script_push_field(lua_State *L, int table, const char *name);
/* Replies with the value on the top of the stack. */
void okv_resp_script_reply(lua_State *L, const struct okv_resp_reply *to);

#endif
