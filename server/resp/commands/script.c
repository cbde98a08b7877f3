/* EVAL and its like, and SCRIPT (redis.io, "Scripting with Lua"). */
#include <string.h>

#include "server/core/server.h"
#include "server/resp/commands/commands.h"
#include "server/resp/run/lookup.h"
#include "server/resp/run/options.h"
#include "server/resp/run/price.h"
#include "server/resp/run/shared.h"
#include "server/resp/script/engine.h"
#include "server/resp/script/run.h"
#include "shared/base/error.h"

/* The worker's engine, which it makes. NULL: an error was replied. Scripts are for users with any
 * right in the database; their commands need those that they need. */
static struct okv_resp_engine *engine_of(struct okv_resp_call *call)
{
    struct okv_resp *resp = call->client->resp;

    if (!okv_resp_sees(call->client, call->client->common.database)) {
        okv_resp_refuse_right(call);
        return NULL;
    }
    if (!resp->engine)
        resp->engine = okv_resp_engine_create(resp->shared->scripts);
    if (resp->engine)
        okv_resp_engine_follow(resp->engine);
    else
        okv_resp_error(&call->reply, "OOM there is no memory for scripts");
    return resp->engine;
}

/* ---- which script ---- */

static int digit_of(uint8_t character)
{
    if (character >= '0' && character <= '9')
        return character - '0';
    character |= 0x20;
    return character >= 'a' && character <= 'f' ? character - 'a' + 10 : -1;
}

/* Hexadecimal digits in either case. */
static bool read_sha1(const struct okv_resp_arg *arg, uint8_t sha1[OKV_SHA1_SIZE])
{
    if (arg->length != OKV_SHA1_TEXT - 1)
        return false;
    for (unsigned i = 0; i < OKV_SHA1_SIZE; i++) {
        int high = digit_of(arg->text[2 * i]), low = digit_of(arg->text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        sha1[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* Work that a script may do now. */
static uint64_t work_now(const struct okv_resp_call *call)
{
    const struct okv_turn *turn = &call->client->resp->turn;
    uint64_t step = turn->spent - turn->step_begin;

    if (call->is_part)
        return call->spare;
    return step < OKV_TURN_STEP_MAX ? OKV_TURN_STEP_MAX - step : 0;
}

static int run_alone(struct okv_resp_call *call)
{
    call->client->wants_alone = true;
    return OKV_EAGAIN;
}

static int refuse_length(struct okv_resp_call *call)
{
    okv_resp_refuse_length(call);
    return 0;
}

/* What a run needs first is the compiled script, or its text. The functions below return 1: there
 * is one of both; 0: an error was replied; OKV_EAGAIN. */

/* Whether a text may be looked at now, for `work`. One that takes longer to hash than a script may
 * run is not looked at. */
static int may_look(struct okv_resp_call *call, const struct okv_resp_arg *text, uint64_t work)
{
    uint64_t hashing = (uint64_t)text->length * OKV_RESP_SHA1_BYTE;

    if (hashing > okv_resp_alone_work(call->client) || (call->is_part && work > work_now(call)))
        return refuse_length(call);
    return work > work_now(call) ? run_alone(call) : 1;
}

/* The name of a text. */
static int hash(struct okv_resp_call *call, const struct okv_resp_arg *text,
                uint8_t sha1[OKV_SHA1_SIZE])
{
    uint64_t work = (uint64_t)text->length * OKV_RESP_SHA1_BYTE;
    int rc = may_look(call, text, work);

    if (rc < 1)
        return rc;
    okv_resp_script_spend(call, work);
    okv_sha1(text->text, text->length, sha1);
    return 1;
}

static int find_by_text(struct okv_resp_script_run *run, const struct okv_resp_arg *text)
{
    struct okv_resp_call *call = run->call;
    uint8_t sha1[OKV_SHA1_SIZE];
    int rc = may_look(call, text, text->length);

    if (rc < 1)
        return rc;
    run->compiled = okv_resp_engine_find_text(run->engine, text->text, text->length);
    if (run->compiled)
        return 1;
    rc = hash(call, text, sha1);
    if (rc < 1)
        return rc;
    run->compiled = okv_resp_engine_find(run->engine, sha1);
    if (run->compiled)
        okv_resp_engine_note_text(run->engine, run->compiled);
    else
        run->script = okv_resp_script_find(run->engine->cache, sha1);
    run->is_new = !run->compiled && !run->script;
    if (run->is_new)
        run->script = okv_resp_script_create(sha1, (const char *)text->text, text->length);
    if (!run->compiled && !run->script)
        okv_resp_error(&call->reply, "OOM there is no memory for this script");
    return run->compiled || run->script;
}

static void refuse_name(struct okv_resp_call *call)
{
    okv_resp_error(&call->reply, "NOSCRIPT No matching script. Please use EVAL.");
}

static int find_by_sha1(struct okv_resp_script_run *run, const struct okv_resp_arg *name)
{
    uint8_t sha1[OKV_SHA1_SIZE];

    if (read_sha1(name, sha1)) {
        run->compiled = okv_resp_engine_find(run->engine, sha1);
        if (!run->compiled)
            run->script = okv_resp_script_find(run->engine->cache, sha1);
    }
    if (!run->compiled && !run->script)
        refuse_name(run->call);
    return run->compiled || run->script;
}

/* Compiles a script that is not compiled yet; the run has a reference to its text, which the
 * engine keeps. */
static int need_compiled(struct okv_resp_script_run *run)
{
    struct okv_resp_call *call = run->call;
    bool is_over;

    if (run->compiled) {
        run->script = run->compiled->script;
        return 1;
    }
    if (okv_resp_script_compile(run, work_now(call), &is_over)) {
        okv_resp_engine_note_text(run->engine, run->compiled);
        return 1;
    }
    if (is_over && call->is_part)
        okv_resp_refuse_length(call);
    okv_resp_script_drop(run->script);
    return is_over && !call->is_part ? run_alone(call) : 0;
}

/* ---- EVAL, EVALSHA, EVAL_RO, EVALSHA_RO ---- */

static bool read_keys(struct okv_resp_script_run *run)
{
    struct okv_resp_call *call = run->call;
    int64_t keys;

    if (!okv_resp_need_integer(call, 2, &keys))
        return false;
    if (keys > (int64_t)call->count - 3)
        okv_resp_error(&call->reply, "ERR Number of keys can't be greater than number of args");
    else if (keys < 0)
        okv_resp_error(&call->reply, "ERR Number of keys can't be negative");
    else
        run->keys = (uint32_t)keys;
    return keys >= 0 && keys <= (int64_t)call->count - 3;
}

/* Applies those of the first line. Returns false with an error as the reply. */
static bool check_flags(struct okv_resp_script_run *run)
{
    const struct okv_resp_shebang *shebang = &run->compiled->shebang;
    bool is_fit = !run->is_read_only || shebang->length == 0 || shebang->is_read_only;

    if (!is_fit)
        okv_resp_error(&run->call->reply,
                       "ERR Can not execute a script with write flag using *_ro command.");
    run->is_read_only = run->is_read_only || shebang->is_read_only;
    return is_fit;
}

static int eval(struct okv_resp_call *call,
                int (*find)(struct okv_resp_script_run *run, const struct okv_resp_arg *which),
                bool is_read_only)
{
    struct okv_resp_script_run run = {
        .call = call, .engine = engine_of(call), .first_key = 3, .is_read_only = is_read_only};
    bool needs_alone;

    if (!run.engine || !read_keys(&run))
        return 0;
    int rc = find(&run, &call->args[1]);
    if (rc == 1)
        rc = need_compiled(&run);
    if (rc < 1 || !check_flags(&run))
        return rc < 1 ? rc : 0;
    if (!call->is_part && atomic_load_explicit(&run.script->runs_alone, memory_order_relaxed))
        return run_alone(call);
    rc = okv_resp_script_run(&run, work_now(call), &needs_alone);
    if (needs_alone)
        return run_alone(call);
    return rc;
}

int okv_resp_cmd_eval(struct okv_resp_call *call)
{
    return eval(call, find_by_text, false);
}

int okv_resp_cmd_eval_ro(struct okv_resp_call *call)
{
    return eval(call, find_by_text, true);
}

static int evalsha(struct okv_resp_call *call, bool is_read_only)
{
    if (call->args[1].length == OKV_SHA1_TEXT - 1)
        return eval(call, find_by_sha1, is_read_only);
    refuse_name(call); /* before its keys are counted, as Redis does */
    return 0;
}

int okv_resp_cmd_evalsha(struct okv_resp_call *call)
{
    return evalsha(call, false);
}

int okv_resp_cmd_evalsha_ro(struct okv_resp_call *call)
{
    return evalsha(call, true);
}

/* ---- SCRIPT ---- */

int okv_resp_cmd_script_load(struct okv_resp_call *call)
{
    struct okv_resp_script_run run = {.call = call, .engine = engine_of(call)};

    if (!run.engine)
        return 0;
    int rc = find_by_text(&run, &call->args[2]);
    if (rc == 1)
        rc = need_compiled(&run);
    if (rc < 1)
        return rc;
    okv_resp_script_use(run.engine->cache, run.script);
    okv_resp_text(&call->reply, run.script->name);
    return 0;
}

int okv_resp_cmd_script_exists(struct okv_resp_call *call)
{
    struct okv_resp_script_cache *cache = call->client->resp->shared->scripts;

    okv_resp_array(&call->reply, call->count - 2);
    for (uint32_t i = 2; i < call->count; i++) {
        uint8_t sha1[OKV_SHA1_SIZE];
        struct okv_resp_script *script =
            read_sha1(&call->args[i], sha1) ? okv_resp_script_find(cache, sha1) : NULL;
        okv_resp_integer(&call->reply, script != NULL);
        if (script)
            okv_resp_script_drop(script);
    }
    return 0;
}

int okv_resp_cmd_script_flush(struct okv_resp_call *call)
{
    bool is_known =
        call->count == 2 || (call->count == 3 && (okv_resp_arg_is(&call->args[2], "SYNC") ||
                                                  okv_resp_arg_is(&call->args[2], "ASYNC")));

    if (!is_known) {
        okv_resp_error(&call->reply, "ERR SCRIPT FLUSH only support SYNC|ASYNC option");
        return 0;
    }
    okv_resp_script_flush(call->client->resp->shared->scripts);
    okv_resp_simple(&call->reply, "OK");
    return 0;
}

/* A script ends before another command is read. */
int okv_resp_cmd_script_kill(struct okv_resp_call *call)
{
    okv_resp_error(&call->reply, "NOTBUSY No scripts in execution right now.");
    return 0;
}
