#include "server/resp/script/api.h"

#include <inttypes.h>
#include <lauxlib.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/core/log.h"
#include "server/core/server.h"
#include "server/lua/argument.h"
#include "server/lua/budget.h"
#include "server/resp/proto/args.h"
#include "server/resp/run/alone.h"
#include "server/resp/run/call.h"
#include "server/resp/run/command.h"
#include "server/resp/script/convert.h"
#include "server/resp/script/engine.h"
#include "server/resp/script/run.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/sha1.h"

#define NUMBER_TEXT 32

static struct okv_resp_script_run *run_of(lua_State *L)
{
    return okv_lua_user(L);
}

/* ---- errors ---- */

static bool is_line_end(char character)
{
    return character == '\r' || character == '\n';
}

void okv_resp_script_push_error(lua_State *L, const char *text, size_t length)
{
    const char *end = text + length, *code = "ERR ", *space = NULL;

    if (length > 0 && *text == '-') {
        text++;
        space = memchr(text, ' ', length - 1);
    }
    if (space) {
        code = text;
        text = space + 1;
    }
    lua_createtable(L, 0, 1);
    lua_pushlstring(L, code, space ? (size_t)(text - code) : strlen(code));
    while (text < end && is_line_end(*text))
        text++;
    while (text < end && is_line_end(end[-1]))
        end--;
    okv_lua_push_bytes(L, text, (size_t)(end - text));
    lua_concat(L, 2);
    lua_setfield(L, -2, "err");
}

static int push_error(lua_State *L, const char *text)
{
    okv_resp_script_push_error(L, text, strlen(text));
    return 1;
}

static int raise_error(lua_State *L, const char *text)
{
    push_error(L, text);
    return lua_error(L);
}

/* ---- redis.call() and redis.pcall() ---- */

/* Of one that becomes a text: huge and tiny ones have many digits, also those that are not shown.
 */
static void count_number(lua_State *L, int index)
{
    double number = lua_tonumber(L, index);
    int exponent = 0;

    if (isfinite(number))
        frexp(number, &exponent);
    okv_lua_spend(L, OKV_LUA_NUMBER + (uint64_t)abs(exponent));
}

/* Numbers have all their digits, unlike those of Lua. */
static bool read_argument(lua_State *L, int index, char number[NUMBER_TEXT],
                          struct okv_resp_arg *arg)
{
    size_t length;
    const char *text = number;

    if (lua_type(L, index) == LUA_TNUMBER) {
        count_number(L, index);
        length = (size_t)snprintf(number, NUMBER_TEXT, "%.17g", lua_tonumber(L, index));
    } else if (lua_type(L, index) == LUA_TSTRING) {
        text = lua_tolstring(L, index, &length);
        if (length > OKV_RESP_BULK_MAX)
            return false;
    } else {
        return false;
    }
    *arg = (struct okv_resp_arg){(const uint8_t *)text, (uint32_t)length};
    return true;
}

/* The arguments of a call, which stay on the stack; their places are memory of Lua. */
static struct okv_resp_arg *read_arguments(lua_State *L, int count)
{
    struct okv_resp_arg *args = okv_lua_new_bytes(L, (size_t)count * (sizeof *args + NUMBER_TEXT));
    char *numbers = (char *)(args + count);

    for (int i = 0; i < count; i++)
        if (!read_argument(L, i + 1, numbers + (size_t)i * NUMBER_TEXT, &args[i]))
            return NULL;
    return args;
}

/* Commands of the connection or the server, of other databases, and those that take turns. */
static bool is_for_scripts(const struct okv_resp_command *command)
{
    const unsigned refused = OKV_RESP_NO_MULTI | OKV_RESP_UNQUEUED | OKV_RESP_ADMIN |
                             OKV_RESP_CLIENTS | OKV_RESP_DESCRIBES | OKV_RESP_SCRIPT;

    return !(command->flags & refused) && !(command->traits && strstr(command->traits, "noscript"));
}

/* What is wrong with a command, as Redis words it; or NULL. */
static const char *find_fault(const struct okv_resp_script_run *run,
                              const struct okv_resp_command *command,
                              const struct okv_resp_arg *args, uint32_t count)
{
    const struct okv_resp_command_table *table = run->call->client->resp->commands;

    if (!command || okv_resp_command_lacks_part(table, command, count))
        return "Unknown Redis command called from script";
    if (!okv_resp_command_takes(command, count))
        return "Wrong number of args calling Redis command from script";
    if (!is_for_scripts(command) || okv_resp_arg_is(&args[0], "SELECT"))
        return "This Redis command is not allowed from script";
    if (run->is_read_only && command->flags & OKV_RESP_WRITE)
        return "Write commands are not allowed from read-only scripts.";
    return NULL;
}

/* Work of a command; more than is left when the script has to run alone for it: nobody notices
 * when the table changes that it has read, of which the staging has nothing. */
static uint64_t price_of(struct okv_resp_script_run *run, struct okv_resp_call *one, uint64_t left)
{
    if (!okv_resp_call_may(one))
        return OKV_TURN_ITEM; /* that of what is refused would tell the lengths of values */
    if (one->command->flags & OKV_RESP_TABLE) {
        run->reads_table = true;
        if (!run->call->is_part && okv_resp_staging_has_neighbours(run->call))
            return left + 1;
    }
    return okv_resp_alone_price(one, left);
}

/* Runs a command on the staging; its reply is in the engine's buffer. Raises an error when the
 * script has no work left for it. */
static void run_command(lua_State *L, struct okv_resp_call *one)
{
    struct okv_resp_script_run *run = run_of(L);
    struct okv_resp_client *client = one->client;
    struct okv_turn *turn = &client->resp->turn;
    const enum okv_resp_replies replies = client->replies;
    uint64_t before = turn->spent, left = okv_lua_left(L);

    one->price = price_of(run, one, left);
    if (one->price > left)
        okv_lua_spend(L, one->price);
    one->spare = left - one->price;
    client->replies = OKV_RESP_REPLIES_ALL; /* to the script */
    client->progress = (struct okv_resp_progress){.next = 0};
    int rc = okv_resp_execute(one);
    client->replies = replies;
    if (rc < 0 || rc == OKV_RESP_GOES_ON || run->engine->reply.has_failed) {
        run->engine->reply.used = 0;
        run->engine->reply.has_failed = false;
        okv_resp_error(&one->reply, "ERR %s", okv_error_text(rc < 0 ? rc : OKV_ENOMEM));
    }
    if (run->engine->reply.has_failed)
        luaL_error(L, "there is no memory for the reply of a command");
    run->commands_work += turn->spent - before; /* the turn has counted it */
    okv_lua_spend(L, turn->spent - before);
    okv_lua_hold(L, run->engine->staging.bytes);
}

static void call_command(lua_State *L, struct okv_resp_script_run *run,
                         const struct okv_resp_command *command, const struct okv_resp_arg *args,
                         uint32_t count)
{
    struct okv_resp_call one = *run->call;

    run->engine->reply.used = 0;
    one.command = command;
    one.args = args;
    one.count = count;
    one.reply = (struct okv_resp_reply){&run->engine->reply, run->protocol};
    one.reply_start = one.counted = 0;
    one.may_have_download = false;
    one.is_part = true;
    one.staging = &run->engine->staging;
    run_command(L, &one);
}

static int call(lua_State *L, bool raises)
{
    struct okv_resp_script_run *run = run_of(L);
    int count = lua_gettop(L);
    const char *fault = NULL;
    bool is_error;

    if (count == 0)
        fault = "Please specify at least one argument for this redis lib call";
    struct okv_resp_arg *args = fault ? NULL : read_arguments(L, count);
    if (!fault && !args)
        fault = "Lua redis lib command arguments must be strings or integers";
    if (!fault) {
        const struct okv_resp_command *command =
            okv_resp_command_of(run->call->client->resp->commands, args, (uint32_t)count);
        fault = find_fault(run, command, args, (uint32_t)count);
        if (!fault)
            call_command(L, run, command, args, (uint32_t)count);
    }
    is_error = fault || run->engine->reply.bytes[0] == '-';
    if (fault)
        push_error(L, fault);
    else
        okv_resp_script_push_reply(L, &run->engine->reply);
    return raises && is_error ? lua_error(L) : 1;
}

static int redis_call(lua_State *L)
{
    return call(L, true);
}

static int redis_pcall(lua_State *L)
{
    return call(L, false);
}

/* ---- the rest ---- */

static int redis_sha1hex(lua_State *L)
{
    uint8_t digest[OKV_SHA1_SIZE];
    char text[OKV_SHA1_TEXT];
    size_t length;

    if (lua_gettop(L) != 1)
        return raise_error(L, "wrong number of arguments");
    const char *bytes = lua_tolstring(L, 1, &length);
    if (!bytes)
        length = 0;
    okv_lua_spend(L, OKV_RESP_SHA1_BYTE * length);
    okv_sha1(bytes ? bytes : "", length, digest);
    okv_sha1_text(digest, text);
    lua_pushstring(L, text);
    return 1;
}

static bool is_one_string(lua_State *L)
{
    return lua_gettop(L) == 1 && lua_type(L, 1) == LUA_TSTRING;
}

static int redis_error_reply(lua_State *L)
{
    size_t length;

    if (!is_one_string(L))
        return push_error(L, "wrong number or type of arguments");
    const char *text = lua_tolstring(L, 1, &length);
    okv_lua_spend(L, OKV_LUA_CALL + length); /* all of it may be ends of lines */
    if (length > 0 && text[0] == '-') {
        okv_resp_script_push_error(L, text, length);
        return 1;
    }
    lua_pushliteral(L, "-");
    lua_insert(L, 1);
    lua_concat(L, 2);
    text = lua_tolstring(L, -1, &length);
    okv_resp_script_push_error(L, text, length);
    return 1;
}

static int redis_status_reply(lua_State *L)
{
    if (!is_one_string(L))
        return push_error(L, "wrong number or type of arguments");
    lua_createtable(L, 0, 1);
    lua_insert(L, 1);
    lua_setfield(L, 1, "ok");
    return 1;
}

/* The argument as a number; 0: it is none. */
static double number_of(lua_State *L, int index)
{
    double number;

    return okv_lua_to_number(L, index, &number) ? number : 0;
}

static int redis_setresp(lua_State *L)
{
    if (lua_gettop(L) != 1)
        return raise_error(L, "redis.setresp() requires one argument.");
    int64_t version = okv_lua_truncate(number_of(L, 1));
    if (version != 2 && version != 3)
        return raise_error(L, "RESP version must be 2 or 3.");
    run_of(L)->protocol = (unsigned)version;
    return 0;
}

/* Debug and verbose are not written. The others are lines of the server's log, one a request and
 * one a second of a worker: a script must not fill a disk, nor keep other lines out of the log. */
enum level { LEVEL_DEBUG, LEVEL_VERBOSE, LEVEL_NOTICE, LEVEL_WARNING };
#define LOG_EVERY_NS UINT64_C(1000000000)

static void write_line(const struct okv_resp_script_run *run, enum okv_log_level level,
                       const char *text)
{
    struct okv_resp_engine *engine = run->engine;
    char more[64] = "";

    if (engine->lines_left_out)
        snprintf(more, sizeof more, " (%" PRIu64 " more lines of scripts were left out)",
                 engine->lines_left_out);
    okv_log_say(&run->call->client->resp->server->log, level, "resp", "%s, script %s%s: %s",
                run->call->client->common.peer, run->script->name, more, text);
}

static void log_line(const struct okv_resp_script_run *run, enum okv_log_level level,
                     const char *text)
{
    struct okv_resp_client *client = run->call->client;
    struct okv_resp_engine *engine = run->engine;
    uint64_t now_ns = okv_clock_ns();

    if (client->has_logged)
        return;
    client->has_logged = true;
    if (now_ns < engine->log_next_ns) {
        engine->lines_left_out++;
        return;
    }
    write_line(run, level, text);
    engine->log_next_ns = now_ns + LOG_EVERY_NS;
    engine->lines_left_out = 0;
}

static int redis_log(lua_State *L)
{
    int count = lua_gettop(L);
    double level;

    if (count < 2)
        return raise_error(L, "redis.log() requires two arguments or more.");
    if (!okv_lua_to_number(L, 1, &level))
        return raise_error(L, "First argument must be a number (log level).");
    if (!(level >= LEVEL_DEBUG && level <= LEVEL_WARNING))
        return raise_error(L, "Invalid debug level.");
    if (level < LEVEL_NOTICE)
        return 0;
    for (int i = 2; i <= count; i++) {
        okv_lua_spend(L, OKV_LUA_CALL);
        if (lua_type(L, i) == LUA_TNUMBER)
            count_number(L, i);
        if (!lua_isstring(L, i)) {
            lua_pushliteral(L, "");
            lua_replace(L, i);
        }
        if (i > 2) {
            lua_pushliteral(L, " ");
            lua_pushvalue(L, i);
            lua_concat(L, 2);
            lua_replace(L, i);
        }
    }
    lua_concat(L, count - 1);
    log_line(run_of(L), level == LEVEL_WARNING ? OKV_LOG_WARNING : OKV_LOG_NOTICE,
             lua_tostring(L, -1));
    return 0;
}

/* Effects are always logged, never scripts. */
static int redis_replicate_commands(lua_State *L)
{
    lua_pushboolean(L, true);
    return 1;
}

static int redis_set_repl(lua_State *L)
{
    if (lua_gettop(L) != 1)
        return raise_error(L, "redis.set_repl() requires two arguments.");
    double flags = number_of(L, 1);
    if (!(flags >= 0 && flags <= 3))
        return raise_error(L, "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or "
                              "REPL_NONE.");
    return 0;
}

/* Whether the user may run a command. */
static int redis_acl_check_cmd(lua_State *L)
{
    struct okv_resp_script_run *run = run_of(L);
    struct okv_resp_call one = *run->call;
    int count = lua_gettop(L);
    struct okv_resp_arg *args = count > 0 ? read_arguments(L, count) : NULL;

    if (!args)
        return raise_error(L, count ? "Lua redis lib command arguments must be strings or integers"
                                    : "Please specify at least one argument for this redis lib "
                                      "call");
    one.command = okv_resp_command_of(one.client->resp->commands, args, (uint32_t)count);
    if (!one.command ||
        okv_resp_command_lacks_part(one.client->resp->commands, one.command, (uint32_t)count))
        return raise_error(L, "Invalid command passed to redis.acl_check_cmd()");
    lua_pushboolean(L, okv_resp_call_may(&one));
    return 1;
}

void okv_resp_script_add_api(lua_State *L)
{
    static const luaL_Reg functions[] = {{"acl_check_cmd", redis_acl_check_cmd},
                                         {"call", redis_call},
                                         {"error_reply", redis_error_reply},
                                         {"log", redis_log},
                                         {"pcall", redis_pcall},
                                         {"replicate_commands", redis_replicate_commands},
                                         {"set_repl", redis_set_repl},
                                         {"setresp", redis_setresp},
                                         {"sha1hex", redis_sha1hex},
                                         {"status_reply", redis_status_reply},
                                         {NULL, NULL}};
    static const struct {
        const char *name;
        int value;
    } numbers[] = {{"LOG_DEBUG", LEVEL_DEBUG},
                   {"LOG_VERBOSE", LEVEL_VERBOSE},
                   {"LOG_NOTICE", LEVEL_NOTICE},
                   {"LOG_WARNING", LEVEL_WARNING},
                   {"REPL_NONE", 0},
                   {"REPL_AOF", 1},
                   {"REPL_SLAVE", 2},
                   {"REPL_REPLICA", 2},
                   {"REPL_ALL", 3},
                   {"REDIS_VERSION_NUM", 0x0007000f}};

    luaL_register(L, NULL, functions);
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        lua_pushinteger(L, numbers[i].value);
        lua_setfield(L, -2, numbers[i].name);
    }
    lua_pushliteral(L, OKV_RESP_REDIS_VERSION);
    lua_setfield(L, -2, "REDIS_VERSION");
}
