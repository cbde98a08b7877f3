/* MULTI, EXEC and WATCH. */
#include "server/resp/run/transaction.h"
#include "server/command/change.h"
#include "server/command/execute.h"
#include "server/database/database.h"
#include "server/resp/commands/commands.h"
#include "server/resp/run/call_stats.h"
#include "server/resp/run/lookup.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* Commands of EXEC that may wait; a later one may not, as all before it would run again. */
#define AGAIN_MAX 64u
/* Keys that a client may watch: EXEC reads each while no other RESP command runs. */
#define WATCHES_MAX 4096u

int okv_resp_cmd_multi(struct okv_resp_call *call)
{
    if (okv_resp_transaction_is_open(call->client))
        okv_resp_error(&call->reply, "ERR MULTI calls can not be nested");
    else if (okv_resp_transaction_open(call->client))
        okv_resp_simple(&call->reply, "OK");
    else
        okv_resp_error(&call->reply, "ERR there is no memory for a transaction");
    return 0;
}

int okv_resp_cmd_discard(struct okv_resp_call *call)
{
    if (!okv_resp_transaction_is_open(call->client)) {
        okv_resp_error(&call->reply, "ERR DISCARD without MULTI");
        return 0;
    }
    okv_resp_transaction_drop(call->client);
    okv_resp_simple(&call->reply, "OK");
    return 0;
}

/* ---- watched keys ---- */

static int visit_version(void *user, const struct okv_store_now *now)
{
    *(uint64_t *)user = now->version;
    return 0;
}

/* Versions never repeat, so one says whether anybody changed an item, RESP client or not. EXEC runs
 * alone, so nobody does between this and its last command; but an item may expire. */
static int version_of(struct okv_resp_call *call, const struct okv_resp_arg *key, uint64_t *version)
{
    *version = 0;
    int rc = okv_resp_peek(call, key, visit_version, version);
    return rc == OKV_ENOTFOUND ? 0 : rc;
}

static int watch(struct okv_resp_call *call, const struct okv_resp_arg *key)
{
    uint64_t version;

    if (key->length > OKV_KEY_MAX)
        return OKV_EKEYSIZE;
    if (okv_resp_transaction_is_watched(call->client, key))
        return 0;
    int rc = version_of(call, key, &version);
    return rc ? rc : okv_resp_transaction_watch(call->client, key, version);
}

/* Returns false when an error was replied. */
static bool may_watch(struct okv_resp_call *call)
{
    const struct okv_resp_transaction *transaction = call->client->transaction;
    size_t before = transaction ? transaction->watches.count : 0;

    if (okv_resp_transaction_is_open(call->client))
        okv_resp_error(&call->reply, "ERR WATCH inside MULTI is not allowed");
    else if (before + call->count - 1 > WATCHES_MAX)
        okv_resp_error(&call->reply, "ERR a client may watch %u keys", WATCHES_MAX);
    else
        return true;
    return false;
}

int okv_resp_cmd_watch(struct okv_resp_call *call)
{
    uint32_t *next = &call->client->progress.next;
    int rc = 0;

    if (*next == 0 && !may_watch(call))
        return 0;
    for (*next = *next ? *next : 1; *next < call->count && rc == 0; ++*next) {
        if (*next > 1 && okv_resp_has_to_pause(call))
            return OKV_RESP_GOES_ON;
        rc = watch(call, &call->args[*next]);
    }
    if (rc)
        return okv_resp_refuse(call, rc);
    okv_resp_simple(&call->reply, "OK");
    return 0;
}

int okv_resp_cmd_unwatch(struct okv_resp_call *call)
{
    const struct okv_resp_transaction *transaction = call->client->transaction;

    /* Within EXEC they stay until it ends, as it may run again. */
    if (transaction && !transaction->is_open)
        okv_resp_transaction_unwatch(call->client);
    okv_resp_simple(&call->reply, "OK");
    return 0;
}

/* Of the newest item, which may not be published yet. OKV_EAGAIN: its log takes no change at the
 * moment. */
static int newest_version(struct okv_resp_call *call, const struct okv_resp_watched *watched,
                          uint64_t *version)
{
    const struct okv_executor *own = call->executor;
    const struct okv_executor *executor = &call->client->resp->executors[watched->database];
    struct okv_change change = {.wal = NULL};
    bool is_in_change = call->is_in_change;

    if (executor != own && !okv_change_begin_batch(&change, executor->database))
        return OKV_EAGAIN;
    call->executor = executor;
    call->is_in_change = executor->database->wal != NULL;
    int rc = version_of(call, &(struct okv_resp_arg){watched->key, watched->key_length}, version);
    call->executor = own;
    call->is_in_change = is_in_change;
    okv_change_end(&change, false);
    return rc;
}

/* Whether a watched key has changed. 1, 0, or a negative code. */
static int is_outdated(struct okv_resp_call *call, const struct okv_resp_transaction *transaction)
{
    const struct okv_resp_watched *watched = NULL;
    int rc = 0;

    while (rc == 0 && (watched = okv_resp_watches_next(&transaction->watches, watched))) {
        uint64_t version;
        rc = newest_version(call, watched, &version);
        if (rc == 0)
            rc = version != watched->version;
    }
    return rc;
}

/* ---- EXEC ---- */

/* Counts the calls when none runs again. */
static void count_queue(const struct okv_resp_call *call, struct okv_resp_transaction *transaction)
{
    struct okv_resp_queued *queued = NULL;

    while ((queued = okv_resp_transaction_next(transaction, queued)))
        okv_resp_count_call(call->client->resp, queued->command, call->reply.out, queued->reply,
                            !queued->is_refused);
}

static int run_queued(struct okv_resp_call *call, struct okv_resp_queued *queued, bool may_wait)
{
    struct okv_resp_call one = *call;
    const uint64_t began = okv_clock_steps();

    one.command = queued->command;
    one.args = queued->args;
    one.count = queued->count;
    one.price = queued->work;
    one.has_changed = one.has_changed || !may_wait;
    one.may_have_download = false;
    one.reply_start = queued->reply = call->reply.out->used;
    one.reply.protocol = call->client->protocol;
    call->client->progress = (struct okv_resp_progress){.next = 0};
    int rc = okv_resp_execute(&one);
    queued->is_refused = one.is_refused;
    call->has_changed = call->has_changed || one.has_changed;
    call->spare = one.spare;
    okv_resp_count_steps(call->client->resp, one.command, began);
    return rc;
}

/* Each command replies, whatever became of those before it. None can wait when one has changed
 * something, or when all those before it would run again. */
static int run_queue(struct okv_resp_call *call, struct okv_resp_transaction *transaction)
{
    struct okv_resp_queued *queued = NULL;
    unsigned done = 0;
    int rc = 0;

    okv_resp_array(&call->reply, transaction->count);
    while (rc == 0 && (queued = okv_resp_transaction_next(transaction, queued)))
        rc = run_queued(call, queued, done++ < AGAIN_MAX);
    if (rc == 0)
        count_queue(call, transaction);
    return rc;
}

int okv_resp_cmd_exec(struct okv_resp_call *call)
{
    struct okv_resp_transaction *transaction = call->client->transaction;

    if (!okv_resp_transaction_is_open(call->client)) {
        okv_resp_error(&call->reply, "ERR EXEC without MULTI");
        return 0;
    }
    int rc = transaction->is_spoiled ? 0 : is_outdated(call, transaction);
    if (transaction->is_spoiled)
        okv_resp_error(&call->reply, "EXECABORT Transaction discarded because of previous errors.");
    else if (rc < 0)
        rc = okv_resp_refuse(call, rc);
    else if (rc)
        okv_resp_null_array(&call->reply);
    else
        rc = run_queue(call, transaction);
    if (rc == OKV_EAGAIN)
        return rc;
    okv_resp_transaction_drop(call->client);
    return 0;
}
