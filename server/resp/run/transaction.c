#include "server/resp/run/transaction.h"

#include <stdlib.h>
#include <string.h>

#include "server/command/change.h"
#include "server/resp/commands/commands.h"
#include "server/resp/net/buffer_pool.h"
#include "server/resp/run/lookup.h"
#include "server/wal/wal.h"
#include "shared/base/error.h"

/* Bytes of the commands of one transaction. */
#define QUEUE_MAX (128u << 20)
/* Commands that EXEC runs again when one behind them has to wait. */
#define AGAIN_MAX 64u
/* Keys that a client may watch: EXEC looks at each while no other RESP command runs. */
#define WATCHES_MAX 4096u

struct queued {
    const struct okv_resp_command *command;
    uint32_t count;
    struct okv_resp_arg args[]; /* their texts are behind them */
};

struct watched {
    unsigned database;
    uint64_t version; /* 0: there was no item */
    uint32_t key_length;
    uint8_t key[OKV_KEY_MAX];
};

struct okv_resp_transaction {
    bool is_open, is_spoiled;
    struct queued **queue; /* [capacity] */
    size_t count, capacity, bytes;
    uint64_t log_bytes;
    struct watched **watches; /* [watch_capacity] */
    size_t watch_count, watch_capacity;
};

static struct okv_resp_transaction *transaction_of(struct okv_resp_client *client)
{
    if (!client->transaction)
        client->transaction = calloc(1, sizeof *client->transaction);
    return client->transaction;
}

bool okv_resp_transaction_is_open(const struct okv_resp_client *client)
{
    return client->transaction && client->transaction->is_open;
}

void okv_resp_transaction_spoil(struct okv_resp_client *client)
{
    if (okv_resp_transaction_is_open(client))
        client->transaction->is_spoiled = true;
}

static void tell_size(struct okv_resp_client *client)
{
    const struct okv_resp_transaction *transaction = client->transaction;
    bool is_open = okv_resp_transaction_is_open(client);

    atomic_store_explicit(&client->queued, is_open ? (int)transaction->count : -1,
                          memory_order_relaxed);
    atomic_store_explicit(&client->queued_bytes, is_open ? transaction->bytes : 0,
                          memory_order_relaxed);
}

size_t okv_resp_transaction_bytes(const struct okv_resp_client *client)
{
    const struct okv_resp_transaction *transaction = client->transaction;

    return transaction ? transaction->bytes + transaction->watch_count * sizeof(struct watched) : 0;
}

/* Whether it may have so many bytes more. */
static bool has_room(const struct okv_resp_client *client, size_t bytes)
{
    size_t most = okv_resp_is_short_of_memory(client) ? OKV_RESP_SHORT_MAX : QUEUE_MAX;

    return okv_resp_transaction_bytes(client) + bytes <= most;
}

uint64_t okv_resp_transaction_log_bytes(const struct okv_resp_client *client)
{
    return client->transaction ? client->transaction->log_bytes : 0;
}

static void forget_watches(struct okv_resp_transaction *transaction)
{
    while (transaction->watch_count > 0)
        free(transaction->watches[--transaction->watch_count]);
}

void okv_resp_transaction_drop(struct okv_resp_client *client)
{
    struct okv_resp_transaction *transaction = client->transaction;

    if (!transaction)
        return;
    while (transaction->count > 0)
        free(transaction->queue[--transaction->count]);
    forget_watches(transaction);
    free(transaction->queue);
    free(transaction->watches);
    free(transaction);
    client->transaction = NULL;
    tell_size(client);
}

/* Makes room for one more pointer. */
static bool make_room(void *list, size_t count, size_t *capacity)
{
    void **pointers = list;
    size_t wanted = *capacity ? 2 * *capacity : 8;

    if (count < *capacity)
        return true;
    void *grown = realloc(*pointers, wanted * sizeof(void *));
    if (!grown)
        return false;
    *pointers = grown;
    *capacity = wanted;
    return true;
}

/* ---- the queue ---- */

static struct queued *copy_call(const struct okv_resp_call *call, size_t *bytes)
{
    size_t head = sizeof(struct queued) + call->count * sizeof *call->args;

    *bytes = head;
    for (uint32_t i = 0; i < call->count; i++)
        *bytes += call->args[i].length;
    struct queued *queued = malloc(*bytes);
    if (!queued)
        return NULL;
    queued->command = call->command;
    queued->count = call->count;
    uint8_t *text = (uint8_t *)queued + head;
    for (uint32_t i = 0; i < call->count; i++) {
        queued->args[i] = (struct okv_resp_arg){text, call->args[i].length};
        memcpy(text, call->args[i].text, call->args[i].length);
        text += call->args[i].length;
    }
    return queued;
}

void okv_resp_transaction_queue(struct okv_resp_call *call)
{
    struct okv_resp_transaction *transaction = call->client->transaction;
    struct queued *queued = NULL;
    size_t bytes = 0;

    if (make_room(&transaction->queue, transaction->count, &transaction->capacity))
        queued = copy_call(call, &bytes);
    if (!queued || !has_room(call->client, bytes)) {
        free(queued);
        transaction->is_spoiled = true;
        okv_resp_error(&call->reply,
                       "OOM a transaction may have 128 MiB, as far as there is memory");
        return;
    }
    transaction->queue[transaction->count++] = queued;
    transaction->bytes += bytes;
    if (call->command->flags & OKV_RESP_WRITE)
        transaction->log_bytes += okv_resp_log_bytes(call->args, call->count);
    tell_size(call->client);
    okv_resp_simple(&call->reply, "QUEUED");
}

int okv_resp_run_multi(struct okv_resp_call *call)
{
    struct okv_resp_transaction *transaction = transaction_of(call->client);

    if (!transaction) {
        okv_resp_error(&call->reply, "ERR there is no memory for a transaction");
    } else if (transaction->is_open) {
        okv_resp_error(&call->reply, "ERR MULTI calls can not be nested");
    } else {
        transaction->is_open = true;
        tell_size(call->client);
        okv_resp_simple(&call->reply, "OK");
    }
    return 0;
}

int okv_resp_run_discard(struct okv_resp_call *call)
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
static int version_of(struct okv_resp_call *call, const uint8_t *key, uint32_t key_length,
                      uint64_t *version)
{
    const struct okv_resp_arg arg = {key, key_length};

    *version = 0;
    int rc = okv_resp_look(call, &arg, visit_version, version);
    return rc == OKV_ENOTFOUND ? 0 : rc;
}

static int watch(struct okv_resp_call *call, struct okv_resp_transaction *transaction,
                 const struct okv_resp_arg *key)
{
    if (key->length > OKV_KEY_MAX)
        return OKV_EKEYSIZE;
    for (size_t i = 0; i < transaction->watch_count; i++) {
        const struct watched *watched = transaction->watches[i];
        if (watched->database == call->client->database && watched->key_length == key->length &&
            memcmp(watched->key, key->text, key->length) == 0)
            return 0;
    }
    if (!has_room(call->client, sizeof(struct watched)) ||
        !make_room(&transaction->watches, transaction->watch_count, &transaction->watch_capacity))
        return OKV_ENOMEM;
    struct watched *watched = malloc(sizeof *watched);
    if (!watched)
        return OKV_ENOMEM;
    *watched = (struct watched){.database = call->client->database, .key_length = key->length};
    memcpy(watched->key, key->text, key->length);
    int rc = version_of(call, watched->key, watched->key_length, &watched->version);
    if (rc)
        free(watched);
    else
        transaction->watches[transaction->watch_count++] = watched;
    return rc;
}

int okv_resp_run_watch(struct okv_resp_call *call)
{
    struct okv_resp_transaction *transaction = transaction_of(call->client);
    int rc = transaction ? 0 : OKV_ENOMEM;

    if (okv_resp_transaction_is_open(call->client)) {
        okv_resp_error(&call->reply, "ERR WATCH inside MULTI is not allowed");
        return 0;
    }
    if (transaction && transaction->watch_count + call->count - 1 > WATCHES_MAX) {
        okv_resp_error(&call->reply, "ERR a client may watch %u keys", WATCHES_MAX);
        return 0;
    }
    for (uint32_t i = 1; i < call->count && rc == 0; i++)
        rc = watch(call, transaction, &call->args[i]);
    if (rc)
        return okv_resp_refuse(call, rc);
    okv_resp_simple(&call->reply, "OK");
    return 0;
}

int okv_resp_run_unwatch(struct okv_resp_call *call)
{
    struct okv_resp_transaction *transaction = call->client->transaction;

    /* EXEC, in which it may be, forgets them in the end, and may begin again before. */
    if (transaction && !transaction->is_open)
        forget_watches(transaction);
    okv_resp_simple(&call->reply, "OK");
    return 0;
}

bool okv_resp_transaction_waits(const struct okv_resp_client *client)
{
    const struct okv_resp_transaction *transaction = client->transaction;
    size_t count = okv_resp_transaction_is_open(client) ? transaction->watch_count : 0;
    unsigned looked_at = client->database;

    for (size_t i = 0; i < count; i++) {
        unsigned database = transaction->watches[i]->database;
        struct okv_wal *wal = client->resp->executors[database].database->wal;
        if (database != looked_at && wal && !okv_wal_is_open(wal))
            return true;
        looked_at = database;
    }
    return false;
}

/* Of the newest value, which its log may not have yet. OKV_EAGAIN: the gate of that log is closed.
 */
static int newest_version(struct okv_resp_call *call, const struct watched *watched,
                          uint64_t *version)
{
    const struct okv_executor *own = call->executor;
    const struct okv_executor *executor = &call->client->resp->executors[watched->database];
    struct okv_change change = {.wal = NULL};
    bool is_in_gate = call->is_in_gate;

    if (executor != own && !okv_change_begin_batch(&change, executor->database))
        return OKV_EAGAIN;
    call->executor = executor;
    call->is_in_gate = executor->database->wal != NULL;
    int rc = version_of(call, watched->key, watched->key_length, version);
    call->executor = own;
    call->is_in_gate = is_in_gate;
    okv_change_end(&change, false);
    return rc;
}

/* Whether a watched key has changed. 1, 0, or a negative code. */
static int is_outdated(struct okv_resp_call *call, const struct okv_resp_transaction *transaction)
{
    int rc = 0;

    for (size_t i = 0; i < transaction->watch_count && rc == 0; i++) {
        const struct watched *watched = transaction->watches[i];
        uint64_t version;
        rc = newest_version(call, watched, &version);
        if (rc == 0)
            rc = version != watched->version;
    }
    return rc;
}

/* ---- EXEC ---- */

/* Each command replies, whatever became of those before it. None can wait when one has changed
 * something, or when all those before it would run again. */
static int run_queue(struct okv_resp_call *call, const struct okv_resp_transaction *transaction)
{
    int rc = 0;

    okv_resp_array(&call->reply, transaction->count);
    for (size_t i = 0; i < transaction->count && rc == 0; i++) {
        const struct queued *queued = transaction->queue[i];
        struct okv_resp_call one = *call;
        one.command = queued->command;
        one.args = queued->args;
        one.count = queued->count;
        one.has_changed = one.has_changed || i >= AGAIN_MAX;
        one.may_have_download = false;
        one.reply.protocol = call->client->protocol;
        rc = okv_resp_execute(&one);
        call->has_changed = call->has_changed || one.has_changed;
    }
    return rc;
}

int okv_resp_run_exec(struct okv_resp_call *call)
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
