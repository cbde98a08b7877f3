#include "server/resp/run/long_read.h"

#include "server/command/execute.h"
#include "server/database/database.h"
#include "server/resp/run/call.h"
#include "shared/base/error.h"

bool okv_resp_read_is_long(const struct okv_resp_call *call, const struct okv_store_now *now)
{
    return now->extent && now->value_length >= OKV_RESP_LONG_MIN &&
           (call->is_preparing || !call->is_part);
}

int okv_resp_read_begin(struct okv_resp_call *call, const struct okv_store_now *now,
                        bool is_counted)
{
    struct okv_resp_client *client = call->client;
    struct okv_resp_read *read = &client->read;
    struct okv_database *database = call->executor->database;

    if (is_counted &&
        !okv_reserve(database, &client->reserved, &read->reservation, now->value_length))
        return OKV_EAGAIN;
    okv_heap_pin_shared(&database->store.heap, now->extent, &read->pin);
    read->bytes = now->value;
    read->length = now->value_length;
    read->done = 0;
    read->database = client->common.database;
    return 0;
}

void okv_resp_read_end(struct okv_resp_client *client)
{
    struct okv_resp_read *read = &client->read;

    if (read->length == 0)
        return;
    struct okv_database *database = client->resp->executors[read->database].database;
    okv_heap_unpin(&database->store.heap, &read->pin);
    okv_unreserve(database, &client->reserved, &read->reservation);
    *read = (struct okv_resp_read){.length = 0};
}
