#include "server/resp/run/long_value.h"

#include <stdlib.h>
#include <string.h>

#include "server/command/execute.h"
#include "server/database/database.h"
#include "server/resp/run/call.h"
#include "server/resp/run/command.h"
#include "server/resp/run/transaction.h"
#include "server/wal/blob/blobs.h"
#include "server/wal/wal.h"
#include "shared/base/error.h"
#include "shared/format/wire.h"

/* ---- values that arrive ---- */

static const struct okv_executor *executor_of(const struct okv_resp_client *client)
{
    return &client->resp->executors[client->upload->database];
}

/* Whether the argument that is read is a value that may go to its extent at once. */
static bool is_wanted(const struct okv_resp_client *client, const struct okv_resp_arg *name)
{
    const struct okv_resp_parser *parser = &client->parser;

    if (!parser->has_bulk || parser->bulk < OKV_RESP_LONG_MIN || parser->count < 2 ||
        !client->is_authenticated || okv_resp_transaction_is_open(client))
        return false;
    const struct okv_resp_command *command = okv_resp_command_find(client->resp->commands, name);
    return command && command->value == (int)parser->count &&
           okv_resp_may(client, client->common.database, OKV_RIGHT_WRITE);
}

static struct okv_resp_arg early_arg(const struct okv_resp_client *client, uint32_t index)
{
    const struct okv_resp_arg *arg = &client->parser.args[index];

    return (struct okv_resp_arg){client->in.bytes + client->at + (uintptr_t)arg->text, arg->length};
}

/* Returns 0, OKV_EAGAIN, or why there is no extent. */
static int reserve(struct okv_resp_client *client, const struct okv_resp_arg *key)
{
    struct okv_resp_upload *upload = client->upload;
    const struct okv_executor *executor = executor_of(client);
    struct okv_store *store = &executor->database->store;

    if (key->length == 0 || key->length > OKV_KEY_MAX)
        return OKV_EKEYSIZE;
    if (upload->length > store->max_value)
        return OKV_EVALUESIZE;
    if (!okv_reserve(executor->database, &client->reserved, &upload->reservation,
                     (uint64_t)key->length + upload->length))
        return OKV_EAGAIN;
    int rc =
        okv_store_long_reserve(store, executor->work, &upload->value, key->length, upload->length);
    if (rc) {
        okv_unreserve(executor->database, &client->reserved, &upload->reservation);
        return rc;
    }
    const struct okv_store_write write = {.key = key->text, .key_length = key->length};
    okv_store_long_begin(store, &upload->value, &write);
    return 0;
}

int okv_resp_upload_begin(struct okv_resp_client *client)
{
    if (client->upload || client->parser.count < 2)
        return 0;
    const struct okv_resp_arg name = early_arg(client, 0), key = early_arg(client, 1);
    if (!is_wanted(client, &name))
        return 0;
    client->upload = calloc(1, sizeof *client->upload);
    if (!client->upload)
        return OKV_EAGAIN;
    client->upload->database = client->common.database;
    client->upload->length = client->parser.bulk;
    client->upload->failure = reserve(client, &key);
    if (client->upload->failure != OKV_EAGAIN) {
        okv_resp_parser_skip(&client->parser);
        return 0;
    }
    okv_resp_upload_end(client);
    return OKV_EAGAIN;
}

uint8_t *okv_resp_upload_room(struct okv_resp_client *client, size_t *room)
{
    struct okv_resp_upload *upload = client->upload;

    if (!upload || upload->received == upload->length)
        return NULL;
    *room = upload->length - upload->received;
    if (!upload->failure)
        return okv_store_long_bytes(&executor_of(client)->database->store, &upload->value) +
               upload->received;
    size_t most = sizeof client->resp->dropped;
    *room = *room < most ? *room : most;
    return client->resp->dropped;
}

/* The checksum goes on with what came. */
void okv_resp_upload_add(struct okv_resp_client *client, size_t length)
{
    struct okv_resp_upload *upload = client->upload;

    upload->received += (uint32_t)length;
    okv_turn_spend(&client->resp->turn, length);
    if (!upload->failure)
        okv_store_long_step(&executor_of(client)->database->store, &upload->value,
                            upload->value.key_length + upload->received - upload->value.done);
    if (upload->received < upload->length)
        return;
    uint8_t *bytes = upload->failure ? NULL
                                     : okv_store_long_bytes(&executor_of(client)->database->store,
                                                            &upload->value);
    okv_resp_parser_skipped(&client->parser, bytes);
}

bool okv_resp_upload_is_ready(struct okv_resp_client *client)
{
    struct okv_resp_upload *upload = client->upload;

    if (!upload || upload->failure)
        return true;
    const struct okv_executor *executor = executor_of(client);
    struct okv_wal *wal = executor->database->wal;
    if (!wal || upload->length < okv_wal_blob_min(wal))
        return true;
    if (!upload->stored)
        upload->stored = okv_blob_write(
            okv_wal_blobs(wal), okv_store_long_bytes(&executor->database->store, &upload->value),
            upload->length);
    if (!upload->stored)
        return true; /* the record takes it */
    int rc = okv_blob_state(okv_wal_blobs(wal), upload->stored, &upload->value.copy);
    if (rc && rc != OKV_EAGAIN)
        upload->failure = rc == OKV_EDISKFULL ? rc : OKV_EREADONLY;
    return rc != OKV_EAGAIN;
}

void okv_resp_upload_end(struct okv_resp_client *client)
{
    struct okv_resp_upload *upload = client->upload;

    if (!upload)
        return;
    struct okv_database *database = executor_of(client)->database;
    if (upload->stored)
        okv_blob_release(okv_wal_blobs(database->wal), upload->stored, &upload->value);
    okv_store_long_release(&database->store, &upload->value);
    okv_unreserve(database, &client->reserved, &upload->reservation);
    free(upload);
    client->upload = NULL;
}

struct okv_store_long_value *okv_resp_upload_value(struct okv_resp_client *client)
{
    return client->upload && client->upload->value.extent ? &client->upload->value : NULL;
}

void okv_resp_upload_keep(struct okv_resp_client *client, const struct okv_resp_arg *key,
                          uint64_t version)
{
    struct okv_resp_upload *upload = client->upload;

    if (!upload || !upload->stored || upload->value.extent)
        return;
    okv_blob_reference(okv_wal_blobs(executor_of(client)->database->wal), upload->stored, key->text,
                       key->length, version);
    upload->stored = NULL;
}

/* ---- values that leave ---- */

static int begin_download(struct okv_resp_call *call, const struct okv_store_now *now,
                          uint32_t first, uint32_t length)
{
    struct okv_resp_client *client = call->client;
    struct okv_resp_download *download = &client->download;
    struct okv_database *database = call->executor->database;

    if (!okv_reserve(database, &client->reserved, &download->reservation, now->value_length))
        return OKV_EAGAIN;
    okv_heap_pin_shared(&database->store.heap, now->extent, &download->pin);
    download->bytes = now->value + first;
    download->length = length;
    download->sent = 0;
    download->database = client->common.database;
    okv_resp_bulk_head(&call->reply, length);
    return 0;
}

int okv_resp_reply_value(struct okv_resp_call *call, const struct okv_store_now *now,
                         uint32_t first, uint32_t length)
{
    call->reply.out->used = call->reply_start;
    if (call->may_have_download && now->extent && length >= OKV_RESP_LONG_MIN)
        return begin_download(call, now, first, length);
    okv_resp_bulk(&call->reply, now->value + first, length);
    return 0;
}

void okv_resp_download_end(struct okv_resp_client *client)
{
    struct okv_database *database = client->resp->executors[client->download.database].database;

    okv_heap_unpin(&database->store.heap, &client->download.pin);
    okv_unreserve(database, &client->reserved, &client->download.reservation);
    client->download.length = client->download.sent = 0;
}
