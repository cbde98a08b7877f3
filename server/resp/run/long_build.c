#include "server/resp/run/long_build.h"

#include <stdlib.h>
#include <string.h>

#include "server/command/execute.h"
#include "server/database/database.h"
#include "server/resp/run/call.h"
#include "shared/base/error.h"
#include "shared/format/wire.h"

/* The bytes of a step are copied and hashed. */
#define STEP (OKV_TURN_WORK / 2)

static struct okv_database *database_of(const struct okv_resp_client *client)
{
    return client->resp->executors[client->build->database].database;
}

int okv_resp_build_take(struct okv_resp_call *call, const struct okv_store_now *now)
{
    struct okv_resp_client *client = call->client;
    struct okv_resp_build *build = calloc(1, sizeof *build);

    if (!build)
        return OKV_ENOMEM;
    client->build = build;
    build->database = client->common.database;
    build->version = now ? now->version : 0;
    if (!now || now->value_length == 0)
        return 0;
    struct okv_store_long_value *value = &build->transfer.value;
    value->before = now->value;
    value->before_length = now->value_length;
    if (now->extent) {
        okv_heap_pin_shared(&call->executor->database->store.heap, now->extent, &value->source);
        return 0;
    }
    value->before = build->copy = malloc(now->value_length);
    if (!build->copy) {
        okv_resp_build_end(client);
        return OKV_ENOMEM;
    }
    memcpy(build->copy, now->value, now->value_length);
    return 0;
}

/* The source is of the client's database, which may be another one than the new value's. */
static void unpin(struct okv_resp_client *client)
{
    const struct okv_executor *own = &client->resp->executors[client->common.database];

    okv_heap_unpin(&own->database->store.heap, &client->build->transfer.value.source);
}

int okv_resp_build_begin(struct okv_resp_call *call, const struct okv_resp_plan *plan)
{
    struct okv_resp_client *client = call->client;
    struct okv_resp_build *build = client->build;
    const struct okv_executor *executor = &client->resp->executors[plan->database];
    struct okv_store_long_value *value = &build->transfer.value;

    int rc = plan->key->length == 0 || plan->key->length > OKV_KEY_MAX ? OKV_EKEYSIZE
             : client->builds == OKV_RESP_BUILDS_MAX
                 ? OKV_ECONFLICT
                 : okv_long_transfer_reserve(&build->transfer, executor, &client->reserved,
                                             plan->key->length, plan->length);
    if (rc) {
        okv_resp_build_end(client);
        return rc;
    }
    client->builds++;
    build->database = plan->database;
    build->is_draft = plan->is_draft;
    const struct okv_store_write write = {.key = plan->key->text, .key_length = plan->key->length};
    okv_store_long_begin(&executor->database->store, value, &write);
    if (plan->patch)
        okv_store_long_compose(value, plan->patch->text, plan->patch->length, plan->patch_offset);
    return OKV_RESP_GOES_ON;
}

int okv_resp_build_step(struct okv_resp_client *client, const struct okv_resp_arg *patch)
{
    struct okv_resp_build *build = client->build;

    if (!build)
        return 0;
    struct okv_database *database = database_of(client);
    struct okv_store_long_value *value = &build->transfer.value;
    if (patch)
        value->patch = patch->text;
    okv_turn_spend(&client->resp->turn, 2 * okv_store_long_step(&database->store, value, STEP));
    if (!okv_store_long_is_complete(value))
        return OKV_RESP_GOES_ON;
    return build->is_draft ? 0 : okv_long_transfer_store(&build->transfer, database);
}

void okv_resp_build_revise(struct okv_resp_client *client)
{
    struct okv_store_long_value *value = &client->build->transfer.value;

    client->build->is_draft = false;
    value->before = NULL;
    okv_store_long_compose(value, NULL, 0, 0); /* it is as it shall be, also behind the old value */
    value->done = 0;
    okv_hash_stream_begin(&value->checksum);
}

bool okv_resp_build_is_of(const struct okv_resp_client *client, uint64_t version)
{
    const struct okv_resp_build *build = client->build;

    return build && build->version == version && okv_store_long_is_complete(&build->transfer.value);
}

void okv_resp_build_end(struct okv_resp_client *client)
{
    struct okv_resp_build *build = client->build;

    if (!build)
        return;
    unpin(client);
    okv_long_transfer_release(&build->transfer, database_of(client), &client->reserved);
    free(build->copy);
    free(build);
    client->build = NULL;
}
