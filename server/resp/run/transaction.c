#include "server/resp/run/transaction.h"

#include <stdlib.h>
#include <string.h>

#include "server/command/execute.h"
#include "server/database/database.h"
#include "server/resp/run/command.h"
#include "server/wal/format.h"
#include "server/wal/wal.h"
#include "shared/base/error.h"

/* Bytes of the commands of one transaction. */
#define QUEUE_MAX (128u << 20)

static struct okv_resp_transaction *create(struct okv_resp_client *client)
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

static void publish_size(struct okv_resp_client *client)
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

    return transaction
               ? transaction->bytes + transaction->watch_count * sizeof(struct okv_resp_watched)
               : 0;
}

/* Whether it may grow by `bytes`. */
static bool has_room(const struct okv_resp_client *client, size_t bytes)
{
    size_t most = okv_resp_is_short_of_memory(client) ? OKV_RESP_SHORT_MAX : QUEUE_MAX;

    return okv_resp_transaction_bytes(client) + bytes <= most;
}

uint64_t okv_resp_transaction_log_bytes(const struct okv_resp_client *client)
{
    return client->transaction ? client->transaction->log_bytes : 0;
}

bool okv_resp_transaction_open(struct okv_resp_client *client)
{
    struct okv_resp_transaction *transaction = create(client);

    if (!transaction)
        return false;
    transaction->is_open = true;
    publish_size(client);
    return true;
}

void okv_resp_transaction_unwatch(struct okv_resp_transaction *transaction)
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
    okv_resp_transaction_unwatch(transaction);
    free(transaction->queue);
    free(transaction->watches);
    free(transaction);
    client->transaction = NULL;
    publish_size(client);
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

uint64_t okv_resp_log_bytes(const struct okv_resp_arg *args, uint32_t count)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < count; i++)
        bytes += okv_wal_record_size(args[i].length, 0);
    return bytes;
}

static struct okv_resp_queued *copy_call(const struct okv_resp_call *call, size_t *bytes)
{
    size_t head = sizeof(struct okv_resp_queued) + call->count * sizeof *call->args;

    *bytes = head;
    for (uint32_t i = 0; i < call->count; i++)
        *bytes += call->args[i].length;
    struct okv_resp_queued *queued = malloc(*bytes);
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
    struct okv_resp_queued *queued = NULL;
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
    publish_size(call->client);
    okv_resp_simple(&call->reply, "QUEUED");
}

/* ---- watched keys ---- */

bool okv_resp_transaction_is_watched(const struct okv_resp_client *client,
                                     const struct okv_resp_arg *key)
{
    const struct okv_resp_transaction *transaction = client->transaction;

    for (size_t i = 0; transaction && i < transaction->watch_count; i++) {
        const struct okv_resp_watched *watched = transaction->watches[i];
        if (watched->database == client->common.database && watched->key_length == key->length &&
            memcmp(watched->key, key->text, key->length) == 0)
            return true;
    }
    return false;
}

int okv_resp_transaction_watch(struct okv_resp_client *client, const struct okv_resp_arg *key,
                               uint64_t version)
{
    struct okv_resp_transaction *transaction = create(client);
    struct okv_resp_watched *watched = NULL;

    if (transaction && has_room(client, sizeof *watched) &&
        make_room(&transaction->watches, transaction->watch_count, &transaction->watch_capacity))
        watched = malloc(sizeof *watched);
    if (!watched)
        return OKV_ENOMEM;
    *watched = (struct okv_resp_watched){
        .database = client->common.database, .version = version, .key_length = key->length};
    memcpy(watched->key, key->text, key->length);
    transaction->watches[transaction->watch_count++] = watched;
    return 0;
}

bool okv_resp_transaction_waits(const struct okv_resp_client *client)
{
    const struct okv_resp_transaction *transaction = client->transaction;
    size_t count = okv_resp_transaction_is_open(client) ? transaction->watch_count : 0;
    unsigned looked_at = client->common.database;

    for (size_t i = 0; i < count; i++) {
        unsigned database = transaction->watches[i]->database;
        struct okv_wal *wal = client->resp->executors[database].database->wal;
        if (database != looked_at && wal && !okv_wal_is_batch_open(wal))
            return true;
        looked_at = database;
    }
    return false;
}
