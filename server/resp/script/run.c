#include "server/resp/script/run.h"

#include <inttypes.h>
#include <lauxlib.h>
#include <string.h>

#include "server/command/execute.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/lua/budget.h"
#include "server/lua/sandbox.h"
#include "server/resp/run/call.h"
#include "server/resp/run/lookup.h"
#include "server/resp/run/price.h"
#include "server/resp/script/api.h"
#include "server/resp/script/convert.h"
#include "server/resp/script/engine.h"
#include "server/store/pending.h"
#include "server/wal/append.h"
#include "shared/base/error.h"

/* The name of all scripts in messages, as Redis has it. */
#define CHUNK "@user_script"
#define MEMORY_MAX (UINT64_C(64) << 20)

static void take_spare(struct okv_resp_call *call, uint64_t work)
{
    call->spare -= work < call->spare ? work : call->spare;
}

void okv_resp_script_spend(struct okv_resp_call *call, uint64_t work)
{
    okv_turn_spend(&call->client->resp->turn, work);
    take_spare(call, work);
}

/* ---- compiling ---- */

static int compile(lua_State *L)
{
    struct okv_resp_script_run *run = lua_touserdata(L, 1);
    const struct okv_resp_script *script = run->script;

    /* With the end of the first line, so that its lines have their numbers. */
    if (!okv_lua_compile(L, script->text + run->shebang.length,
                         script->length - run->shebang.length, CHUNK))
        return lua_error(L);
    if (run->is_new)
        run->script = okv_resp_script_insert(run->engine->cache, run->script);
    run->is_new = false;
    run->compiled = okv_resp_engine_keep(run->engine, run->script);
    run->compiled->shebang = run->shebang;
    return 0;
}

static const char *text_on_top(lua_State *L)
{
    return lua_gettop(L) > 0 && lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1)
                                                               : "unknown error";
}

/* What a limit of the machine means to the client. */
static void refuse_end(struct okv_resp_call *call, enum okv_lua_end end)
{
    if (end == OKV_LUA_OVER_WORK)
        okv_resp_refuse_length(call);
    else
        okv_resp_error(&call->reply, "OOM the script needs more than 64 MiB of memory, or there is "
                                     "none");
}

bool okv_resp_script_compile(struct okv_resp_script_run *run, uint64_t work, bool *is_over)
{
    const struct okv_lua_limits limits = {.work = work, .memory = MEMORY_MAX};
    struct okv_resp_call *call = run->call;
    lua_State *L = okv_lua_state(run->engine->lua);

    *is_over = false;
    if (!okv_resp_shebang_read(run->script->text, run->script->length, &run->shebang, &call->reply))
        return false;
    enum okv_lua_end end = okv_lua_begin(run->engine->lua, &limits, compile, run);
    *is_over = end == OKV_LUA_OVER_WORK;
    if (end == OKV_LUA_FAILED) {
        okv_resp_error(&call->reply, "ERR Error compiling script (new function): %s",
                       text_on_top(L));
    } else if (end == OKV_LUA_OVER_MEMORY) {
        refuse_end(call, end);
    }
    const uint64_t cost = okv_lua_cost(run->engine->lua);
    okv_resp_script_spend(call, cost);
    okv_resp_engine_note_cost(run->engine, okv_lua_end(run->engine->lua), cost);
    return end == OKV_LUA_DONE;
}

/* ---- running ---- */

/* Pushes the text of the error at 1. */
static void push_text(lua_State *L)
{
    const char *text = lua_toboolean(L, 1) ? "true" : "false";

    if (lua_istable(L, 1)) {
        okv_resp_script_push_field(L, 1, "err");
        return;
    }
    if (!lua_isboolean(L, 1))
        text = lua_isstring(L, 1) ? lua_tostring(L, 1) : luaL_typename(L, 1);
    lua_pushfstring(L, "ERR %s", text);
}

/* The handler of errors: a table with the text, and where it was raised. It is a new one: what was
 * raised may be a table of the machine, which outlives the script. */
static int explain(lua_State *L)
{
    lua_Debug where;
    bool is_found = lua_getstack(L, 1, &where) && lua_getinfo(L, "Sl", &where);

    if (is_found && strcmp(where.what, "C") == 0)
        is_found = lua_getstack(L, 2, &where) && lua_getinfo(L, "Sl", &where);
    lua_createtable(L, 0, 3);
    push_text(L);
    lua_setfield(L, -2, "err");
    if (is_found) {
        lua_pushstring(L, where.source);
        lua_setfield(L, -2, "source");
        lua_pushinteger(L, where.currentline);
        lua_setfield(L, -2, "line");
    }
    return 1;
}

/* Sets a global of the script to a list of arguments. */
static void set_list(lua_State *L, const char *name, const struct okv_resp_arg *args,
                     uint32_t count)
{
    lua_createtable(L, (int)count, 0);
    for (uint32_t i = 0; i < count; i++) {
        okv_lua_spend(L, OKV_LUA_CALL);
        okv_lua_push_bytes(L, args[i].text, args[i].length);
        lua_rawseti(L, -2, (int)i + 1);
    }
    okv_sandbox_set(L, name);
}

/* Pushes a field of a table. Its text is good while it is on the stack, as a number becomes one
 * there; NULL: it has none. */
static const char *push_field_text(lua_State *L, int table, const char *name)
{
    okv_resp_script_push_field(L, table, name);
    return lua_tostring(L, -1);
}

/* Of the error on the top. Leaves more there. */
static void reply_error(lua_State *L, const struct okv_resp_script_run *run)
{
    const struct okv_resp_reply *to = &run->call->reply;
    int error = lua_gettop(L);

    if (!lua_istable(L, error)) {
        okv_resp_error(to, "ERR Error running script %s, %.100s", run->script->name,
                       text_on_top(L));
        return;
    }
    const char *text = push_field_text(L, error, "err");
    const char *source = push_field_text(L, error, "source");
    const char *line = push_field_text(L, error, "line");
    if (!text)
        text = "ERR unknown error";
    if (source && line)
        okv_resp_error(to, "%s script: %s, on %s:%s.", text, run->script->name, source, line);
    else
        okv_resp_error(to, "%s", text);
}

static int body(lua_State *L)
{
    struct okv_resp_script_run *run = lua_touserdata(L, 1);
    const struct okv_resp_call *call = run->call;
    uint32_t rest = run->first_key + run->keys;

    lua_pushcfunction(L, explain);
    lua_rawgeti(L, LUA_REGISTRYINDEX, run->compiled->function);
    okv_sandbox_enter(L);
    set_list(L, "KEYS", call->args + run->first_key, run->keys);
    set_list(L, "ARGV", call->args + rest, call->count - rest);
    lua_setfenv(L, -2);
    okv_lua_spend(L, OKV_LUA_CALL); /* an argument may be long */
    run->has_failed = lua_pcall(L, 0, 1, -2) != 0;
    if (run->has_failed)
        reply_error(L, run);
    else
        okv_resp_script_reply(L, &call->reply);
    return 0;
}

/* An error of its own replaces what was replied so far. */
static void reply_again(struct okv_resp_call *call)
{
    call->reply.out->used = call->reply_start;
}

/* Whether what it has looked at may be another by now. While a log collects changes, a script
 * outside of its change looks at what is published, and run/run.c notices when that has changed. */
static bool compares(const struct okv_resp_call *call)
{
    bool reads_published =
        okv_store_waits_for_log(&call->executor->database->store.table) && !call->is_in_change;

    return !call->is_part && okv_resp_staging_has_neighbours(call) && !reads_published;
}

/* Makes the changes. Returns 0 with a reply, or OKV_EAGAIN. */
static int apply(struct okv_resp_script_run *run, bool *needs_alone)
{
    struct okv_resp_call *call = run->call;
    struct okv_resp_staging *staging = &run->engine->staging;
    bool is_alone = call->is_part;
    int rc;

    if (!is_alone && okv_resp_staging_has_neighbours(call) &&
        okv_resp_staging_changes(staging) > 1) {
        *needs_alone = true;
        return OKV_EAGAIN;
    }
    if (!is_alone)
        call->client->room_steps = 1; /* else the command has its own (run/alone.c) */
    call->staging = staging;
    rc = okv_resp_staging_apply(call, compares(call));
    call->staging = NULL;
    if (rc == OKV_ECONFLICT) {
        *needs_alone = true;
        return OKV_EAGAIN;
    }
    if (rc != OKV_EVALUESIZE)
        return rc ? okv_resp_refuse(call, rc) : 0;
    reply_again(call);
    okv_resp_error(&call->reply, "ERR the log takes at most %" PRIu64 " bytes of one command",
                   okv_wal_batch_reserve_max(call->executor->database->wal));
    return 0;
}

/* After the run. */
static int conclude(struct okv_resp_script_run *run, enum okv_lua_end end, bool *needs_alone)
{
    struct okv_resp_call *call = run->call;

    if (end == OKV_LUA_OVER_WORK && !call->is_part) {
        *needs_alone = true;
        return OKV_EAGAIN;
    }
    if (end == OKV_LUA_DONE && !run->has_failed && call->reply.out->has_failed)
        end = OKV_LUA_OVER_MEMORY;
    if (end == OKV_LUA_FAILED) {
        reply_again(call);
        okv_resp_error(&call->reply, "ERR Error running script %s, %.100s", run->script->name,
                       text_on_top(okv_lua_state(run->engine->lua)));
    } else if (end != OKV_LUA_DONE) {
        reply_again(call);
        refuse_end(call, end);
    } else if (!run->has_failed) {
        return apply(run, needs_alone);
    }
    return 0;
}

/* How it is to begin the next time. */
static void note_way(struct okv_resp_script_run *run, uint64_t work, bool needs_alone)
{
    bool changes_many = okv_resp_staging_changes(&run->engine->staging) > 1;

    if (run->call->is_part)
        needs_alone = work > OKV_TURN_STEP_MAX || ((changes_many || run->reads_table) &&
                                                   okv_resp_staging_has_neighbours(run->call));
    atomic_store_explicit(&run->script->runs_alone, needs_alone, memory_order_relaxed);
}

int okv_resp_script_run(struct okv_resp_script_run *run, uint64_t most, bool *needs_alone)
{
    const struct okv_lua_limits limits = {
        .work = most, .memory = MEMORY_MAX, .text = run->script->length};
    struct okv_resp_call *call = run->call;
    const uint64_t before = okv_lua_memory(run->engine->lua);
    int rc;

    *needs_alone = false;
    run->protocol = 2;
    run->commands_work = 0;
    run->reads_table = false;
    okv_resp_script_use(run->engine->cache, run->script);
    enum okv_lua_end end = okv_lua_begin(run->engine->lua, &limits, body, run);
    const uint64_t work = okv_lua_cost(run->engine->lua);
    rc = conclude(run, end, needs_alone);
    if (rc)
        reply_again(call);
    okv_resp_engine_note_cost(run->engine, okv_lua_end(run->engine->lua), work);
    okv_sandbox_leave(okv_lua_state(run->engine->lua));
    note_way(run, work, *needs_alone);
    okv_resp_staging_clear(&run->engine->staging);
    okv_resp_engine_shrink(run->engine, before);
    /* The turn has that of its commands, the last of which may have gone beyond the limit. */
    okv_resp_script_spend(call, work > run->commands_work ? work - run->commands_work : 0);
    take_spare(call, run->commands_work);
    return rc;
}
