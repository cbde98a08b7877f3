#include "server/resp/run/transaction.h"

#include <stdlib.h>
#include <string.h>

#include "server/command/execute.h"
#include "server/database/database.h"
#include "server/resp/run/command.h"
#include "server/resp/run/price.h"
#include "server/wal/format.h"
#include "server/wal/wal.h"
#include "shared/base/error.h"

/* Bytes of the commands of one transaction. */
#define QUEUE_MAX (128u << 20)
#define ALIGNMENT (sizeof(void *))

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
    struct okv_resp_transaction *transaction = client->transaction;

    if (!okv_resp_transaction_is_open(client))
        return;
    transaction->is_spoiled = true;
    if (transaction->copy.is_under_way) /* the refused command is half copied */
        transaction->commands.used = transaction->copy.at;
    transaction->copy.is_under_way = false;
}

static void publish_size(struct okv_resp_client *client)
{
    const struct okv_resp_transaction *transaction = client->transaction;
    bool is_open = okv_resp_transaction_is_open(client);

    atomic_store_explicit(&client->queued, is_open ? (int)transaction->count : -1,
                          memory_order_relaxed);
    atomic_store_explicit(&client->queued_bytes, is_open ? transaction->commands.used : 0,
                          memory_order_relaxed);
}

size_t okv_resp_transaction_bytes(const struct okv_resp_client *client)
{
    const struct okv_resp_transaction *transaction = client->transaction;

    if (!transaction)
        return 0;
    return sizeof *transaction + transaction->commands.capacity +
           okv_resp_watches_bytes(&transaction->watches);
}

size_t okv_resp_transaction_fresh(struct okv_resp_client *client)
{
    struct okv_resp_transaction *transaction = client->transaction;

    return transaction ? okv_resp_buffer_fresh(&transaction->commands) +
                             okv_resp_buffer_fresh(&transaction->watches.keys)
                       : 0;
}

/* That commands and watched keys together may have. */
static size_t most_bytes(const struct okv_resp_client *client)
{
    return okv_resp_is_short_of_memory(client) ? OKV_RESP_SHORT_MAX : QUEUE_MAX;
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

void okv_resp_transaction_unwatch(struct okv_resp_client *client)
{
    okv_resp_watches_drop(&client->transaction->watches, &client->resp->trash);
}

void okv_resp_transaction_drop(struct okv_resp_client *client)
{
    struct okv_resp_transaction *transaction = client->transaction;

    if (!transaction)
        return;
    okv_resp_transaction_unwatch(client);
    okv_resp_buffer_discard(&transaction->commands, &client->resp->trash);
    free(transaction);
    client->transaction = NULL;
    publish_size(client);
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

static size_t size_of_arguments(uint32_t count)
{
    return sizeof(struct okv_resp_queued) + count * sizeof(struct okv_resp_arg);
}

static size_t size_of(const struct okv_resp_call *call)
{
    size_t size = size_of_arguments(call->count);

    for (uint32_t i = 0; i < call->count; i++)
        size += call->args[i].length;
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* The command that is being queued, until the buffer grows. */
static struct okv_resp_queued *last(const struct okv_resp_transaction *transaction)
{
    return (void *)(transaction->commands.bytes + transaction->copy.at);
}

/* Makes room for a copy of a command. False: an error was replied. */
static bool begin_copy(struct okv_resp_call *call)
{
    struct okv_resp_transaction *transaction = call->client->transaction;
    struct okv_resp_buffer *commands = &transaction->commands;
    uint64_t work =
        okv_resp_price_of_arguments(call->client, call->command, call->args, call->count);

    if (transaction->work + work > okv_resp_alone_work(call->client)) {
        transaction->is_spoiled = true;
        okv_resp_refuse_length(call);
        return false;
    }
    size_t size = size_of(call), watches = okv_resp_watches_bytes(&transaction->watches);
    size_t most = most_bytes(call->client);
    commands->most = most > watches ? most - watches : 1;
    if (!okv_resp_buffer_room(commands, size)) {
        refuse_queue(call);
        return false;
    }
    transaction->copy = (struct okv_resp_copy){.is_under_way = true, .at = commands->used};
    *last(transaction) = (struct okv_resp_queued){
        .command = call->command, .work = work, .size = size, .count = call->count};
    commands->used += size_of_arguments(call->count);
    return true;
}

/* Copies as much as a turn may. Returns whether all is copied. */
static bool copy_some(const struct okv_resp_call *call, struct okv_resp_transaction *transaction)
{
    struct okv_resp_copy *copy = &transaction->copy;
    struct okv_turn *turn = &call->client->resp->turn;
    uint32_t left = OKV_TURN_WORK;

    for (; copy->arg < call->count && left > 0; copy->arg++, copy->done = 0) {
        const struct okv_resp_arg *arg = &call->args[copy->arg];
        uint32_t length = arg->length - copy->done;
        length = length < left ? length : left;
        last(transaction)->args[copy->arg].length = arg->length;
        memcpy(transaction->commands.bytes + transaction->commands.used, arg->text + copy->done,
               length);
        transaction->commands.used += length;
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
    const struct okv_resp_queued *queued;

    if (!transaction->copy.is_under_way && !begin_copy(call))
        return 0;
    if (!copy_some(call, transaction))
        return OKV_RESP_GOES_ON;
    queued = last(transaction);
    transaction->copy.is_under_way = false;
    transaction->work += queued->work;
    transaction->commands.used = transaction->copy.at + queued->size;
    transaction->count++;
    if (call->command->flags & OKV_RESP_TABLE)
        transaction->reads_table = true;
    if (call->command->flags & OKV_RESP_WRITE)
        transaction->log_bytes += okv_resp_log_bytes(call->args, call->count);
    publish_size(call->client);
    okv_resp_simple(&call->reply, "QUEUED");
    return 0;
}

/* The buffer may have moved since, and its texts with it. */
static void set_texts(struct okv_resp_queued *queued)
{
    const uint8_t *text = (const uint8_t *)queued + size_of_arguments(queued->count);

    for (uint32_t i = 0; i < queued->count; i++) {
        queued->args[i].text = text;
        text += queued->args[i].length;
    }
}

struct okv_resp_queued *okv_resp_transaction_next(struct okv_resp_transaction *transaction,
                                                  struct okv_resp_queued *queued)
{
    struct okv_resp_buffer *commands = &transaction->commands;
    uint8_t *next = queued ? (uint8_t *)queued + queued->size : commands->bytes;

    if (!next || next == commands->bytes + commands->used)
        return NULL;
    set_texts((void *)next);
    return (void *)next;
}

/* ---- watched keys ---- */

bool okv_resp_transaction_is_watched(const struct okv_resp_client *client,
                                     const struct okv_resp_arg *key)
{
    return client->transaction &&
           okv_resp_watches_have(&client->transaction->watches, client->resp->hash_seed,
                                 client->common.database, key);
}

int okv_resp_transaction_watch(struct okv_resp_client *client, const struct okv_resp_arg *key,
                               uint64_t version)
{
    struct okv_resp_transaction *transaction = create(client);

    if (!transaction)
        return OKV_ENOMEM;
    int64_t work = okv_resp_watches_add(&transaction->watches, client->resp->hash_seed,
                                        most_bytes(client), client->common.database, key, version);
    okv_turn_spend(&client->resp->turn, work > 0 ? (uint64_t)work : 0);
    return work < 0 ? (int)work : 0;
}

bool okv_resp_transaction_waits(const struct okv_resp_client *client)
{
    const struct okv_resp_transaction *transaction = client->transaction;
    const struct okv_resp_watched *watched = NULL;
    unsigned looked_at = client->common.database;

    if (!okv_resp_transaction_is_open(client))
        return false;
    while ((watched = okv_resp_watches_next(&transaction->watches, watched))) {
        struct okv_wal *wal = client->resp->executors[watched->database].database->wal;
        if (watched->database != looked_at && wal && !okv_wal_is_batch_open(wal))
            return true;
        looked_at = watched->database;
    }
    return false;
}
