#include "server/resp/run/transaction.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "server/command/execute.h"
#include "server/database/database.h"
#include "server/resp/run/command.h"
#include "server/resp/run/price.h"
#include "server/wal/format.h"
#include "server/wal/wal.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"

/* Bytes of the commands of one transaction. */
#define QUEUE_MAX (128u << 20)

static struct okv_resp_transaction *create(struct okv_resp_client *client)
{
    if (!client->transaction)
        client->transaction = calloc(1, sizeof *client->transaction);
    if (client->transaction)
        client->transaction->hash_seed = client->resp->hash_seed;
    return client->transaction;
}

bool okv_resp_transaction_is_open(const struct okv_resp_client *client)
{
    return client->transaction && client->transaction->is_open;
}

void okv_resp_transaction_spoil(struct okv_resp_client *client)
{
    struct okv_resp_transaction *transaction = client->transaction;

    if (!okv_resp_transaction_is_open(client))
        return;
    transaction->is_spoiled = true;
    free(transaction->copy.queued); /* the refused command may be half copied */
    transaction->copy.queued = NULL;
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

    if (!transaction)
        return 0;
    size_t watch = transaction->watch_count ? malloc_usable_size(transaction->watches[0]) : 0;
    return sizeof *transaction + transaction->bytes + transaction->capacity * sizeof(void *) +
           transaction->watch_count * watch + transaction->watch_capacity * sizeof(void *) +
           transaction->watch_slots * sizeof *transaction->watch_index;
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
    free(transaction->watch_index);
    transaction->watch_index = NULL;
    transaction->watch_slots = 0;
}

void okv_resp_transaction_drop(struct okv_resp_client *client)
{
    struct okv_resp_transaction *transaction = client->transaction;

    if (!transaction)
        return;
    while (transaction->count > 0)
        free(transaction->queue[--transaction->count]);
    okv_resp_transaction_unwatch(transaction);
    free(transaction->copy.queued);
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

static void refuse_queue(struct okv_resp_call *call)
{
    call->client->transaction->is_spoiled = true;
    okv_resp_error(&call->reply, "OOM a transaction may have 128 MiB, as far as there is memory");
}

/* Makes room for a copy of a command. False: an error was replied. */
static bool begin_copy(struct okv_resp_call *call)
{
    struct okv_resp_transaction *transaction = call->client->transaction;
    size_t bytes = sizeof(struct okv_resp_queued) + call->count * sizeof *call->args;
    uint64_t work =
        okv_resp_price_of_arguments(call->client, call->command, call->args, call->count);

    for (uint32_t i = 0; i < call->count; i++)
        bytes += call->args[i].length;
    if (transaction->work + work > okv_resp_alone_work(call->client)) {
        transaction->is_spoiled = true;
        okv_resp_refuse_length(call);
        return false;
    }
    if (!has_room(call->client, bytes) ||
        !make_room(&transaction->queue, transaction->count, &transaction->capacity) ||
        !(transaction->copy.queued = malloc(bytes))) {
        refuse_queue(call);
        return false;
    }
    *transaction->copy.queued =
        (struct okv_resp_queued){.command = call->command, .work = work, .count = call->count};
    transaction->copy.to = (uint8_t *)&transaction->copy.queued->args[call->count];
    transaction->copy.arg = transaction->copy.done = 0;
    transaction->bytes += malloc_usable_size(transaction->copy.queued);
    return true;
}

/* Copies as much as a turn may. Returns whether all is copied. */
static bool copy_some(const struct okv_resp_call *call, struct okv_resp_copy *copy)
{
    struct okv_turn *turn = &call->client->resp->turn;
    uint32_t left = OKV_TURN_WORK;

    for (; copy->arg < call->count && left > 0; copy->arg++, copy->done = 0) {
        const struct okv_resp_arg *arg = &call->args[copy->arg];
        uint32_t length = arg->length - copy->done;
        length = length < left ? length : left;
        if (copy->done == 0)
            copy->queued->args[copy->arg] = (struct okv_resp_arg){copy->to, arg->length};
        memcpy(copy->to, arg->text + copy->done, length);
        copy->to += length;
        copy->done += length;
        left -= length;
        if (copy->done < arg->length)
            break;
    }
    okv_turn_spend(turn, OKV_TURN_ITEM + OKV_TURN_WORK - left);
    return copy->arg == call->count;
}

int okv_resp_transaction_queue(struct okv_resp_call *call)
{
    struct okv_resp_transaction *transaction = call->client->transaction;
    struct okv_resp_copy *copy = &transaction->copy;

    if (!copy->queued && !begin_copy(call))
        return 0;
    if (!copy_some(call, copy))
        return OKV_RESP_GOES_ON;
    transaction->work += copy->queued->work;
    transaction->queue[transaction->count++] = copy->queued;
    copy->queued = NULL;
    if (call->command->flags & OKV_RESP_TABLE)
        transaction->reads_table = true;
    if (call->command->flags & OKV_RESP_WRITE)
        transaction->log_bytes += okv_resp_log_bytes(call->args, call->count);
    publish_size(call->client);
    okv_resp_simple(&call->reply, "QUEUED");
    return 0;
}

/* ---- watched keys ---- */

/* Where the key is in the index, or will be. */
static uint32_t *find_watch(const struct okv_resp_transaction *transaction, unsigned database,
                            const void *key, uint32_t key_length)
{
    size_t mask = transaction->watch_slots - 1;
    size_t at = okv_hash_key(key, key_length, transaction->hash_seed + database) & mask;

    for (; transaction->watch_index[at]; at = (at + 1) & mask) {
        const struct okv_resp_watched *watched =
            transaction->watches[transaction->watch_index[at] - 1];
        if (watched->database == database && watched->key_length == key_length &&
            memcmp(watched->key, key, key_length) == 0)
            break;
    }
    return &transaction->watch_index[at];
}

bool okv_resp_transaction_is_watched(const struct okv_resp_client *client,
                                     const struct okv_resp_arg *key)
{
    const struct okv_resp_transaction *transaction = client->transaction;

    return transaction && transaction->watch_count &&
           *find_watch(transaction, client->common.database, key->text, key->length);
}

static bool make_room_in_index(struct okv_resp_transaction *transaction)
{
    size_t slots = transaction->watch_slots ? 2 * transaction->watch_slots : 16;

    if (2 * (transaction->watch_count + 1) <= transaction->watch_slots)
        return true;
    uint32_t *index = calloc(slots, sizeof *index);
    if (!index)
        return false;
    free(transaction->watch_index);
    transaction->watch_index = index;
    transaction->watch_slots = slots;
    for (size_t i = 0; i < transaction->watch_count; i++) {
        const struct okv_resp_watched *watched = transaction->watches[i];
        *find_watch(transaction, watched->database, watched->key, watched->key_length) =
            (uint32_t)i + 1;
    }
    return true;
}

int okv_resp_transaction_watch(struct okv_resp_client *client, const struct okv_resp_arg *key,
                               uint64_t version)
{
    struct okv_resp_transaction *transaction = create(client);
    struct okv_resp_watched *watched = NULL;

    if (transaction && has_room(client, sizeof *watched) && make_room_in_index(transaction) &&
        make_room(&transaction->watches, transaction->watch_count, &transaction->watch_capacity))
        watched = malloc(sizeof *watched);
    if (!watched)
        return OKV_ENOMEM;
    *watched = (struct okv_resp_watched){
        .database = client->common.database, .version = version, .key_length = key->length};
    memcpy(watched->key, key->text, key->length);
    *find_watch(transaction, watched->database, key->text, key->length) =
        (uint32_t)transaction->watch_count + 1;
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
