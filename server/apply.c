#include "server/apply.h"

#include "shared/error.h"

/* Values and figures are written to their place behind the reply's header. */
static void apply_get(struct okv_server *server, const struct okv_request_message *request,
                      struct okv_reply_message *reply, uint8_t *room)
{
    uint32_t size = server->limits.slot_size - (uint32_t)OKV_REPLY_HEADER;

    reply->status = okv_store_get(&server->store, request->key, request->key_length, room, size,
                                  &reply->value_length, &reply->version);
    if (reply->status)
        reply->value_length = 0;
    OKV_STATS_ADD(&server->stats, gets, 1);
}

static void apply_put(struct okv_server *server, struct okv_store_bucket *work,
                      const struct okv_request_message *request, struct okv_reply_message *reply)
{
    reply->status = okv_store_put(&server->store, work, request->key, request->key_length,
                                  request->value, request->value_length, &reply->version);
    if (reply->status)
        OKV_STATS_ADD(&server->stats, puts_refused, 1);
    else
        OKV_STATS_ADD(&server->stats, puts, 1);
}

static void apply_delete(struct okv_server *server, struct okv_store_bucket *work,
                         const struct okv_request_message *request, struct okv_reply_message *reply)
{
    reply->status = okv_store_delete(&server->store, work, request->key, request->key_length);
    if (reply->status == OKV_OK)
        OKV_STATS_ADD(&server->stats, deletes, 1);
}

static void apply_stat(struct okv_server *server, struct okv_reply_message *reply, uint8_t *room)
{
    uint32_t size = server->limits.slot_size - (uint32_t)OKV_REPLY_HEADER;

    OKV_STATS_ADD(&server->stats, stats, 1);
    size_t length = okv_stats_render(server, (char *)room, size);
    if (length <= size)
        reply->value_length = (uint32_t)length;
    else
        reply->status = OKV_ETOOSMALL;
}

int okv_apply(struct okv_server *server, struct okv_store_bucket *work,
              const struct okv_event *event, uint8_t *out, uint32_t *length, uint32_t *immediate)
{
    struct okv_request_message request;
    int rc = okv_request_decode(event->immediate, event->data, event->length, &request);

    if (rc && rc != OKV_EUNSUPPORTED)
        return rc;
    uint8_t *room = out + OKV_REPLY_HEADER;
    struct okv_reply_message reply = {.sequence = request.sequence, .status = rc, .value = room};
    if (rc) {
        OKV_STATS_ADD(&server->stats, unsupported, 1);
    } else {
        switch ((enum okv_opcode)request.opcode) {
        case OKV_OP_PING:
            OKV_STATS_ADD(&server->stats, pings, 1);
            break;
        case OKV_OP_GET:
            apply_get(server, &request, &reply, room);
            break;
        case OKV_OP_PUT:
            apply_put(server, work, &request, &reply);
            break;
        case OKV_OP_DELETE:
            apply_delete(server, work, &request, &reply);
            break;
        case OKV_OP_STAT:
            apply_stat(server, &reply, room);
            break;
        case OKV_OP_GOODBYE: /* the decoder lets no client say it */
            return OKV_EPROTO;
        }
    }
    *length = okv_reply_encode(&reply, out);
    *immediate = OKV_IMMEDIATE_REPLY | okv_immediate(request.opcode, request.slot);
    OKV_STATS_ADD(&server->stats, bytes_in, event->length);
    OKV_STATS_ADD(&server->stats, bytes_out, *length);
    return 0;
}
