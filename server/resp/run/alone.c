#include "server/resp/run/alone.h"

#include <stdlib.h>

#include "server/command/execute.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/resp/proto/args.h"
#include "server/resp/proto/bitfield.h"
#include "server/resp/run/command.h"
#include "server/resp/run/lookup.h"
#include "server/resp/run/pages.h"
#include "server/resp/run/price.h"
#include "server/resp/run/transaction.h"
#include "shared/format/hash.h"

/* The greatest lengths that the values of a transaction's keys may have. */
struct lengths {
    struct okv_resp_length {
        uint64_t hash; /* of the key; 0: free */
        uint64_t length;
    } * slots; /* [mask + 1]; NULL: there was no memory, and nothing is cheap enough */
    uint64_t mask;
};

struct pricing {
    struct okv_resp_call *call;
    struct lengths lengths;
    uint64_t work, most;
    uint64_t room; /* bytes of keys and values that it may write */
    bool has_writes;
};

/* Calls `of` for each key. */
static void each_key(struct pricing *pricing, const struct okv_resp_command *command,
                     const struct okv_resp_arg *args, uint32_t count,
                     void (*of)(struct pricing *pricing, const struct okv_resp_arg *key,
                                uint64_t *length),
                     uint64_t *length)
{
    int last = okv_resp_last_key(command, count);

    for (int i = command->first_key; i && i <= last && pricing->work <= pricing->most;
         i += command->key_step)
        of(pricing, &args[i], length);
}

/* ---- by the values of its keys ---- */

static struct okv_resp_length *slot_of(const struct pricing *pricing,
                                       const struct okv_resp_arg *key)
{
    const struct lengths *lengths = &pricing->lengths;
    uint64_t seed = pricing->call->client->resp->hash_seed;
    uint64_t hash = okv_hash_key(key->text, key->length, seed) | 1;
    uint64_t at = hash >> 1 & lengths->mask;

    while (lengths->slots[at].hash && lengths->slots[at].hash != hash)
        at = (at + 1) & lengths->mask;
    lengths->slots[at].hash = hash;
    return &lengths->slots[at];
}

static int visit_length(void *user, const struct okv_store_now *now)
{
    *(uint64_t *)user = now->value_length;
    return 0;
}

/* Adds the length of its value to *length. */
static void add_length(struct pricing *pricing, const struct okv_resp_arg *key, uint64_t *length)
{
    struct okv_resp_length *slot = slot_of(pricing, key);
    uint64_t stored = 0;

    if (slot->length == 0) {
        okv_resp_peek(pricing->call, key, visit_length, &stored);
        slot->length = stored + 1; /* 0: not looked at */
    }
    *length += slot->length - 1;
}

static void set_length(struct pricing *pricing, const struct okv_resp_arg *key, uint64_t *length)
{
    struct okv_resp_length *slot = slot_of(pricing, key);

    if (slot->length < *length + 1)
        slot->length = *length + 1;
}

static uint64_t end_of_fields(const struct okv_resp_arg *args, uint32_t count)
{
    const struct okv_bitfield fields = {.args = args + 2, .count = count - 2};
    struct okv_bitfield_summary summary;

    if (okv_bitfield_check(fields, &summary))
        return 0; /* it will be refused */
    return summary.end < OKV_VALUE_MAX ? summary.end : OKV_VALUE_MAX;
}

/* How long a value may become by an offset. */
static uint64_t offset_of(const struct okv_resp_command *command, const struct okv_resp_arg *args,
                          uint32_t count)
{
    int64_t offset;

    if (command->flags & OKV_RESP_FIELDS)
        return end_of_fields(args, count);
    if (!(command->flags & (OKV_RESP_OFFSET | OKV_RESP_BIT_OFFSET)) ||
        !okv_resp_arg_integer(&args[2], &offset) || offset < 0)
        return 0;
    uint64_t bytes = (uint64_t)offset / (command->flags & OKV_RESP_BIT_OFFSET ? 8 : 1);
    return bytes < OKV_VALUE_MAX ? bytes : OKV_VALUE_MAX;
}

/* SET copies the value that was there only with GET. What was built is not copied any more. */
static bool needs_values(const struct pricing *pricing, const struct okv_resp_command *command,
                         const struct okv_resp_arg *args, uint32_t count)
{
    bool needs = command->flags & OKV_RESP_VALUE && !pricing->call->client->build;

    for (uint32_t i = 3; command->value && command->arity < 0 && i < count; i++)
        needs = needs || okv_resp_arg_is(&args[i], "GET");
    return needs;
}

/* A change of a value makes the new one, and the table takes it; in a durable database the log
 * does, too. */
static void add_command(struct pricing *pricing, const struct okv_resp_command *command,
                        const struct okv_resp_arg *args, uint32_t count, uint64_t arguments)
{
    uint64_t length = 0;
    uint64_t bytes = arguments - (1 + okv_resp_count_keys(command, count)) * OKV_TURN_ITEM;
    bool is_write = command->flags & OKV_RESP_WRITE;
    unsigned logs = is_write && pricing->call->executor->database->wal;

    pricing->has_writes = pricing->has_writes || is_write || command->flags & OKV_RESP_CHANGE;
    pricing->work += arguments + bytes * logs;
    if (!is_write && !(command->flags & OKV_RESP_WALK))   /* KEYS counts its own pages */
        pricing->work += okv_resp_price_of_filled(bytes); /* of the reply */
    if (needs_values(pricing, command, args, count))
        each_key(pricing, command, args, count, add_length, &length);
    uint64_t offset = offset_of(command, args, count);
    length = length > offset ? length : offset;
    pricing->work += length * (1 + is_write + logs) + okv_resp_price_of_filled(length);
    length += bytes;
    pricing->room += is_write ? length : 0;
    if (is_write)
        each_key(pricing, command, args, count, set_length, &length);
}

/* ---- all of it ---- */

static void add_queue(struct pricing *pricing, struct okv_resp_transaction *transaction)
{
    struct okv_resp_queued *queued = NULL;

    while (pricing->work <= pricing->most &&
           (queued = okv_resp_transaction_next(transaction, queued)))
        add_command(pricing, queued->command, queued->args, queued->count, queued->work);
}

/* Twice as many slots as keys. */
static bool lengths_init(struct lengths *lengths, uint64_t keys)
{
    uint64_t slots = 8;

    while (slots < 2 * keys)
        slots *= 2;
    *lengths = (struct lengths){calloc(slots, sizeof *lengths->slots), slots - 1};
    return lengths->slots;
}

static void add_all(struct pricing *pricing)
{
    struct okv_resp_call *call = pricing->call;
    struct okv_resp_transaction *transaction = call->client->transaction;
    bool is_exec = call->command->flags & OKV_RESP_TRANSACTION;
    uint64_t arguments =
        okv_resp_price_of_arguments(call->client, call->command, call->args, call->count);
    uint64_t work = is_exec ? transaction->work : arguments;

    /* What costs an item's price each cannot be more. */
    if (work > pricing->most || !lengths_init(&pricing->lengths, work / OKV_TURN_ITEM)) {
        pricing->work = pricing->most + 1;
        return;
    }
    if (is_exec) {
        pricing->work = transaction->watches.count * (UINT64_C(2) * OKV_TURN_ITEM);
        add_queue(pricing, transaction);
    } else {
        add_command(pricing, call->command, call->args, call->count, arguments);
    }
    free(pricing->lengths.slots);
}

/* Of a command, not of EXEC, whose lengths are not kept for another one. */
uint64_t okv_resp_alone_price(struct okv_resp_call *call, uint64_t most)
{
    struct pricing pricing = {.call = call, .most = most};
    uint64_t arguments =
        okv_resp_price_of_arguments(call->client, call->command, call->args, call->count);

    if (arguments > most ||
        !lengths_init(&pricing.lengths, okv_resp_count_keys(call->command, call->count)))
        return most + 1;
    add_command(&pricing, call->command, call->args, call->count, arguments);
    free(pricing.lengths.slots);
    return pricing.work;
}

bool okv_resp_alone_check(struct okv_resp_call *call)
{
    struct pricing pricing = {.call = call, .most = okv_resp_alone_work(call->client)};
    const struct okv_resp_transaction *transaction = call->client->transaction;

    if (okv_resp_transaction_is_open(call->client) && transaction->is_spoiled)
        return true; /* EXEC refuses it */
    add_all(&pricing);
    if (pricing.has_writes)
        pricing.work += OKV_TURN_STEP_MAX; /* to make room */
    if (pricing.work <= pricing.most) {
        call->spare = pricing.most - pricing.work;
        call->room = pricing.room;
        call->client->room_steps = pricing.has_writes;
        return true;
    }
    okv_resp_refuse_length(call);
    if (okv_resp_transaction_is_open(call->client))
        okv_resp_transaction_drop(call->client);
    return false;
}
