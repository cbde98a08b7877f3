#include "server/resp/run/upload.h"

#include <stdlib.h>
#include <string.h>

#include "server/command/execute.h"
#include "server/database/database.h"
#include "server/resp/run/call.h"
#include "server/resp/run/command.h"
#include "server/resp/run/long_build.h"
#include "server/resp/run/transaction.h"
#include "shared/base/error.h"
#include "shared/format/wire.h"

static const struct okv_executor *executor_of(const struct okv_resp_client *client)
{
    return &client->resp->executors[client->upload->database];
}

/* Whether the argument that is read is a value that may go to its extent at once. Its head is moved
 * in each step: a long one is of no key and no time. */
static bool is_wanted(const struct okv_resp_client *client, const struct okv_resp_arg *name)
{
    const struct okv_resp_parser *parser = &client->parser;

    if (!parser->has_bulk || parser->bulk < OKV_RESP_LONG_MIN || parser->count < 2 ||
        parser->position > OKV_RESP_SMALL_REST || !client->is_authenticated ||
        okv_resp_transaction_is_open(client))
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

    if (key->length == 0 || key->length > OKV_KEY_MAX)
        return OKV_EKEYSIZE;
    int rc = okv_long_transfer_reserve(&upload->transfer, executor, &client->reserved, key->length,
                                       upload->length);
    if (rc)
        return rc;
    const struct okv_store_write write = {.key = key->text, .key_length = key->length};
    okv_store_long_begin(&executor->database->store, &upload->transfer.value, &write);
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
        return okv_store_long_bytes(&executor_of(client)->database->store,
                                    &upload->transfer.value) +
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
        okv_store_long_step(&executor_of(client)->database->store, &upload->transfer.value,
                            upload->transfer.value.key_length + upload->received -
                                upload->transfer.value.done);
    if (upload->received < upload->length)
        return;
    uint8_t *bytes = upload->failure ? NULL
                                     : okv_store_long_bytes(&executor_of(client)->database->store,
                                                            &upload->transfer.value);
    okv_resp_parser_skipped(&client->parser, bytes);
}

bool okv_resp_upload_is_ready(struct okv_resp_client *client)
{
    struct okv_resp_upload *upload = client->upload;

    if (!upload || upload->failure)
        return true;
    int rc = okv_long_transfer_store(&upload->transfer, executor_of(client)->database);
    upload->failure = rc == OKV_EAGAIN ? 0 : rc;
    return rc != OKV_EAGAIN;
}

void okv_resp_upload_end(struct okv_resp_client *client)
{
    struct okv_resp_upload *upload = client->upload;

    if (!upload)
        return;
    okv_long_transfer_release(&upload->transfer, executor_of(client)->database, &client->reserved);
    free(upload);
    client->upload = NULL;
}

static struct okv_long_transfer *transfer_of(struct okv_resp_client *client)
{
    if (client->build)
        return &client->build->transfer;
    return client->upload ? &client->upload->transfer : NULL;
}

struct okv_store_long_value *okv_resp_long_value(struct okv_resp_client *client)
{
    struct okv_long_transfer *transfer = transfer_of(client);

    return transfer && okv_store_long_is_complete(&transfer->value) ? &transfer->value : NULL;
}

void okv_resp_long_value_keep(struct okv_resp_client *client, const struct okv_resp_arg *key,
                              uint64_t version)
{
    struct okv_long_transfer *transfer = transfer_of(client);

    if (!transfer || transfer->value.extent)
        return;
    unsigned database = client->build ? client->build->database : client->upload->database;
    okv_long_transfer_keep(transfer, client->resp->executors[database].database, key->text,
                           key->length, version);
}
