#include "server/resp/long_value.h"

#include <stdlib.h>
#include <string.h>

#include "server/resp/call.h"
#include "server/resp/commands.h"
#include "server/resp/transaction.h"
#include "server/wal/wal.h"
#include "shared/base/error.h"

/* ---- values that arrive ---- */

static const struct okv_executor *executor_of(const struct okv_resp_client *client)
{
    return &client->resp->executors[client->intake->database];
}

/* Whether the argument that is read is a value that may go to its extent at once. */
static bool is_wanted(const struct okv_resp_client *client, const struct okv_resp_arg *name)
{
    const struct okv_resp_parser *parser = &client->parser;

    if (!parser->has_bulk || parser->bulk < OKV_RESP_LONG_MIN || parser->count < 2 ||
        !client->is_known || okv_resp_transaction_is_open(client))
        return false;
    const struct okv_resp_command *command = okv_resp_command_find(name);
    return command && command->value == (int)parser->count &&
           okv_resp_may(client, client->database, OKV_RIGHT_WRITE);
}

static struct okv_resp_arg early_arg(const struct okv_resp_client *client, uint32_t index)
{
    const struct okv_resp_arg *arg = &client->parser.args[index];

    return (struct okv_resp_arg){client->in.bytes + client->at + (uintptr_t)arg->text, arg->length};
}

/* Returns 0, OKV_EAGAIN, or why there is no extent. */
static int reserve(struct okv_resp_client *client, const struct okv_resp_arg *key)
{
    struct okv_resp_intake *intake = client->intake;
    const struct okv_executor *executor = executor_of(client);
    struct okv_store *store = &executor->database->store;

    if (key->length == 0 || key->length > OKV_KEY_MAX)
        return OKV_EKEYSIZE;
    if (intake->length > store->max_value)
        return OKV_EVALUESIZE;
    if (!okv_reserve(executor->database, &client->reserved, &intake->reservation,
                     (uint64_t)key->length + intake->length))
        return OKV_EAGAIN;
    int rc =
        okv_store_long_reserve(store, executor->work, &intake->value, key->length, intake->length);
    if (rc)
        return rc;
    const struct okv_store_write write = {.key = key->text, .key_length = key->length};
    okv_store_long_begin(store, &intake->value, &write);
    return 0;
}

int okv_resp_intake_begin(struct okv_resp_client *client)
{
    if (client->intake || client->parser.count < 2)
        return 0;
    const struct okv_resp_arg name = early_arg(client, 0), key = early_arg(client, 1);
    if (!is_wanted(client, &name))
        return 0;
    client->intake = calloc(1, sizeof *client->intake);
    if (!client->intake)
        return OKV_EAGAIN;
    client->intake->database = client->database;
    client->intake->length = client->parser.bulk;
    client->intake->failure = reserve(client, &key);
    if (client->intake->failure != OKV_EAGAIN) {
        okv_resp_parser_leave_out(&client->parser);
        return 0;
    }
    okv_resp_intake_end(client);
    return OKV_EAGAIN;
}

uint8_t *okv_resp_intake_room(struct okv_resp_client *client, size_t *room)
{
    struct okv_resp_intake *intake = client->intake;

    if (!intake || intake->received == intake->length)
        return NULL;
    *room = intake->length - intake->received;
    if (!intake->failure)
        return okv_store_long_bytes(&executor_of(client)->database->store, &intake->value) +
               intake->received;
    size_t most = sizeof client->resp->dropped;
    *room = *room < most ? *room : most;
    return client->resp->dropped;
}

/* The checksum goes on with what came. */
void okv_resp_intake_add(struct okv_resp_client *client, size_t length)
{
    struct okv_resp_intake *intake = client->intake;

    intake->received += (uint32_t)length;
    if (!intake->failure)
        okv_store_long_step(&executor_of(client)->database->store, &intake->value,
                            intake->value.key_length + intake->received - intake->value.done);
    if (intake->received < intake->length)
        return;
    uint8_t *bytes = intake->failure ? NULL
                                     : okv_store_long_bytes(&executor_of(client)->database->store,
                                                            &intake->value);
    okv_resp_parser_left_out(&client->parser, bytes);
}

bool okv_resp_intake_is_ready(struct okv_resp_client *client)
{
    struct okv_resp_intake *intake = client->intake;

    if (!intake || intake->failure)
        return true;
    const struct okv_executor *executor = executor_of(client);
    struct okv_wal *wal = executor->database->wal;
    if (!wal || intake->length < wal->values.least)
        return true;
    if (!intake->stored)
        intake->stored = okv_values_store(
            &wal->values, okv_store_long_bytes(&executor->database->store, &intake->value),
            intake->length);
    if (!intake->stored)
        return true; /* the record takes it */
    int rc = okv_values_state(&wal->values, intake->stored, &intake->value.copy);
    if (rc && rc != OKV_EAGAIN)
        intake->failure = rc == OKV_EDISKFULL ? rc : OKV_EREADONLY;
    return rc != OKV_EAGAIN;
}

void okv_resp_intake_end(struct okv_resp_client *client)
{
    struct okv_resp_intake *intake = client->intake;

    if (!intake)
        return;
    struct okv_database *database = executor_of(client)->database;
    if (intake->stored)
        okv_values_drop(&database->wal->values, intake->stored, &intake->value);
    okv_store_long_release(&database->store, &intake->value);
    okv_unreserve(database, &client->reserved, &intake->reservation);
    free(intake);
    client->intake = NULL;
}

struct okv_store_long_value *okv_resp_intake_value(struct okv_resp_client *client)
{
    return client->intake && client->intake->value.extent ? &client->intake->value : NULL;
}

void okv_resp_intake_keep(struct okv_resp_client *client, const struct okv_resp_arg *key,
                          uint64_t version)
{
    struct okv_resp_intake *intake = client->intake;

    if (!intake || !intake->stored || intake->value.extent)
        return;
    okv_values_keep(&executor_of(client)->database->wal->values, intake->stored, key->text,
                    key->length, version);
    intake->stored = NULL;
}

/* ---- values that leave ---- */

bool okv_resp_tail_begin(struct okv_resp_call *call, const struct okv_store_now *now, int *code)
{
    struct okv_resp_client *client = call->client;
    struct okv_resp_tail *tail = &client->tail;
    struct okv_database *database = call->executor->database;

    *code = 0;
    if (!call->may_have_tail || !now->extent || now->value_length < OKV_RESP_LONG_MIN)
        return false;
    if (!okv_reserve(database, &client->reserved, &tail->reservation, now->value_length)) {
        *code = OKV_EAGAIN;
        return false;
    }
    okv_heap_pin_shared(&database->store.heap, now->extent, &tail->pin);
    tail->bytes = now->value;
    tail->length = now->value_length;
    tail->sent = 0;
    tail->database = client->database;
    return true;
}

void okv_resp_tail_end(struct okv_resp_client *client)
{
    struct okv_database *database = client->resp->executors[client->tail.database].database;

    okv_heap_unpin(&database->store.heap, &client->tail.pin);
    okv_unreserve(database, &client->reserved, &client->tail.reservation);
    client->tail.length = client->tail.sent = 0;
}
