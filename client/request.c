/*
 * Requests: what the server does for us, one message each way
 * (docs/format.md section 6). A request takes a credit and its reply gives it
 * back, so the server always has a receive buffer for it.
 */
#include "client/handle.h"

#include <string.h>

#include "shared/error.h"

static unsigned request_opcode(enum operation_kind kind)
{
    switch (kind) {
    case OPERATION_GET:
        return OKV_OP_GET;
    case OPERATION_PUT:
        return OKV_OP_PUT;
    case OPERATION_DELETE:
        return OKV_OP_DELETE;
    case OPERATION_STAT:
        return OKV_OP_STAT;
    case OPERATION_PING:
        break;
    }
    return OKV_OP_PING;
}

/* The lowest sequence whose answer is still owed, for the server's memory of answers. */
static uint64_t first_incomplete(const okv *handle)
{
    uint64_t lowest = handle->next_sequence;

    for (uint32_t i = 0; i < handle->slot_count; i++) {
        const struct operation *operation = &handle->operations[i];
        if (operation->step == STEP_REPLY && operation->posted && operation->sequence < lowest)
            lowest = operation->sequence;
    }
    return lowest;
}

int request_post(okv *handle, struct operation *operation)
{
    if (handle->credits == 0)
        return OKV_EAGAIN;
    uint8_t *message = handle->transport->send_buffer(handle->conn);
    if (!message)
        return OKV_EAGAIN;

    struct okv_request_message request = {
        .opcode = request_opcode(operation->kind),
        .slot = operation->index,
        .sequence = handle->next_sequence,
        .first_incomplete = first_incomplete(handle),
        .key = operation->key,
        .key_length = operation->key_length,
        .value = operation->value,
        .value_length = operation->value_length,
    };
    uint32_t length = okv_request_encode(&request, message);
    int rc = handle->transport->post_send(handle->conn, length,
                                          okv_immediate(request.opcode, request.slot));
    if (rc)
        return rc;
    operation->sequence = handle->next_sequence++;
    handle->credits--;
    handle->counters.requests++;
    return 0;
}

/* What a server may say to an operation; anything else would be passed on as
 * something that it is not, such as a local time-out. */
static bool reply_status_is_valid(enum operation_kind kind, int status)
{
    switch (status) {
    case OKV_OK:
    case OKV_EUNSUPPORTED:
        return true;
    case OKV_ENOTFOUND:
        return kind == OPERATION_GET || kind == OPERATION_DELETE;
    case OKV_ECORRUPT:
        return kind == OPERATION_GET || kind == OPERATION_PUT || kind == OPERATION_DELETE;
    case OKV_EFULL:
    case OKV_EVALUESIZE:
        return kind == OPERATION_PUT;
    default:
        return false;
    }
}

static void reply_apply(okv *handle, struct operation *operation,
                        const struct okv_reply_message *reply)
{
    bool wants_value = operation->kind == OPERATION_GET || operation->kind == OPERATION_STAT;

    if (reply->status == OKV_OK && wants_value) {
        operation_deliver(handle, operation, reply->value, reply->value_length, reply->version);
        return;
    }
    if (reply->status == OKV_OK)
        operation->result.version = reply->version;
    operation_end(handle, operation, reply->status);
}

/* The operation that a reply answers, or NULL when it answers none. */
static struct operation *reply_operation(okv *handle, const struct okv_reply_message *reply)
{
    if (reply->slot >= handle->slot_count)
        return NULL;
    struct operation *operation = &handle->operations[reply->slot];
    if (operation->step != STEP_REPLY || !operation->posted ||
        operation->sequence != reply->sequence ||
        request_opcode(operation->kind) != reply->opcode ||
        !reply_status_is_valid(operation->kind, reply->status))
        return NULL;
    return operation;
}

void request_message(okv *handle, const struct okv_event *event)
{
    struct okv_reply_message reply;

    if (!event->has_immediate ||
        okv_reply_decode(event->immediate, event->data, event->length, &reply)) {
        engine_fail(handle, OKV_EPROTO, "the server sent a message that is no reply");
        return;
    }
    if (reply.opcode == OKV_OP_GOODBYE) {
        engine_fail(handle, OKV_ESHUTDOWN, "the server is shutting down and said goodbye");
        return;
    }
    struct operation *operation = reply_operation(handle, &reply);
    if (!operation) {
        engine_fail(handle, OKV_EPROTO, "the server gave an answer that fits no request");
        return;
    }
    operation->posted = false;
    handle->credits++;
    handle->counters.replies++;
    if (operation->abandoned)
        operation_release(handle, operation);
    else
        reply_apply(handle, operation, &reply);
}
