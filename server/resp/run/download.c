#include "server/resp/run/download.h"

#include "server/command/execute.h"
#include "server/database/database.h"
#include "server/resp/run/call.h"
#include "shared/base/error.h"

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
    if (call->client->replies != OKV_RESP_REPLIES_ALL)
        return 0; /* it would be dropped */
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
