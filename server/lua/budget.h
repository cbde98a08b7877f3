/*
 * What a script may still do. Lua's own functions cannot be interrupted, so each function of
 * server/lua/ that does more than a few steps says how much it does.
 */
#ifndef OKV_SERVER_LUA_BUDGET_H
#define OKV_SERVER_LUA_BUDGET_H

#include <lua.h>
#include <stddef.h>
#include <stdint.h>

/* Work of an instruction of Lua, and of a function that is called (server/core/turn.h). */
#define OKV_LUA_INSTRUCTION 10u
#define OKV_LUA_CALL 50u
/* Work of finding an entry of a large table. */
#define OKV_LUA_ENTRY 100u
/* Bytes of a block that one instruction may pass over while nobody looks at the limits. */
#define OKV_LUA_SHORT 4096u

/* Counts work that is about to be done. Raises an error of Lua when the script has none left; from
 * then on every instruction raises it again, so that pcall() does not help. */
void okv_lua_spend(lua_State *L, uint64_t work);

/* Counts memory that the script has elsewhere, in place of what it had before. Raises an error as
 * above when it has too much. */
void okv_lua_hold(lua_State *L, uint64_t bytes);

/* lua_pushlstring() and lua_newuserdata(): a machine cannot tell other blocks of some sizes from
 * those of tables, which have another price. */
void *okv_lua_new_bytes(lua_State *L, size_t size);
void okv_lua_push_long(lua_State *L, const void *bytes, size_t length);
static inline void okv_lua_push_bytes(lua_State *L, const void *bytes, size_t length)
{
    if (length > OKV_LUA_SHORT)
        okv_lua_push_long(L, bytes, length);
    else
        lua_pushlstring(L, bytes, length);
}

/* Raises an error of Lua unless the table at `index` is the script's own: others outlive it. */
void okv_lua_need_own(lua_State *L, int index);

#endif
