/*
 * Requests and replies, one message each way (docs/protocol.md section 2). A request takes a
 * request slot and its reply frees it, so the server always has a receive buffer. A value too long
 * for a message stays in place: it is advertised, and the server READs it before it replies.
 */
#include "client/connection/request.h"

#include <string.h>

#include "client/connection/goodbye.h"
#include "client/connection/hits.h"
#include "client/connection/lease.h"
#include "client/connection/report.h"
#include "client/engine/failure.h"
#include "client/engine/memory.h"
#include "client/engine/operation.h"
#include "client/engine/request_slots.h"
#include "shared/base/error.h"

/* ---- requests ---- */

/* Advertises a copy: the caller's memory cannot be registered, such as a mapping without
 * PROT_WRITE. */
static int copy_advertise(okv *handle, struct operation *operation)
{
    int rc = 0;

    if (!operation->bounce)
        rc = bounce_acquire(handle, operation->value_length, &operation->bounce);
    if (rc)
        return rc;
    memcpy(operation->bounce->base, operation->value, operation->value_length);
    return handle->transport->advertise(handle->conn, operation->bounce->base,
                                        operation->value_length, &operation->advert);
}

static int value_advertise(okv *handle, struct operation *operation)
{
    int rc = handle->transport->advertise(handle->conn, operation->value, operation->value_length,
                                          &operation->advert);

    if (rc == OKV_EIO)
        rc = copy_advertise(handle, operation);
    if (rc)
        operation->advert = NULL;
    else
        handle->counters.rendezvous++;
    return rc;
}

static struct okv_request_message request_message_of(const struct operation *operation)
{
    struct okv_request_message request = {
        .opcode = operation_opcode(operation),
        .slot = operation->request_slot,
        .flags = operation->flags,
        .sequence = operation->sequence,
        .argument = operation->argument,
        .ttl_ms = operation->ttl_ms,
        .key = operation->key,
        .key_length = operation->key_length,
        .value = operation->value,
        .value_length = operation->value_length,
    };

    if (operation->advert) {
        request.value = NULL;
        request.rendezvous_address = operation->advert->address;
        request.rendezvous_key = operation->advert->key;
    }
    return request;
}

/* On OKV_EIO the message may have left: it counts as posted, and the connection as lost. */
static int request_send(okv *handle, struct operation *operation, uint8_t *bytes)
{
    struct okv_request_message request = request_message_of(operation);
    uint32_t length = okv_request_encode(&request, bytes);
    int rc = handle->transport->post_send(handle->conn, length,
                                          okv_immediate(request.opcode, request.slot));

    if (rc && rc != OKV_EIO)
        return rc;
    handle->counters.requests++;
    handle->counters.request_bytes += length;
    if (operation->advert)
        handle->counters.request_bytes += operation->value_length;
    handle->counters.resent += operation->resend;
    handle->request_slots.resends -= operation->resend;
    operation->resend = false;
    operation->posted = true;
    handle->unflushed = true;
    return rc ? OKV_EDISCONNECTED : 0;
}

/* OKV_EAGAIN: no request slot or send buffer. A request that is resent has its slot already. */
static int request_try(okv *handle, struct operation *operation)
{
    bool has_slot = operation->has_request_slot || handle->request_slots.count > 0;
    uint8_t *bytes = has_slot ? handle->transport->send_buffer(handle->conn) : NULL;

    if (!bytes)
        return OKV_EAGAIN;
    if (operation->flags & OKV_REQUEST_RENDEZVOUS) {
        int rc = value_advertise(handle, operation);
        if (rc)
            return rc;
    }
    if (!operation->has_request_slot)
        request_slot_acquire(handle, operation);
    return request_send(handle, operation, bytes);
}

void request_post(okv *handle, struct operation *operation)
{
    if (operation_may_post(handle, operation))
        operation_posted(handle, operation, request_try(handle, operation));
}

void request_start(okv *handle, struct operation *operation)
{
    operation->step = STEP_REPLY;
    request_post(handle, operation);
}

/* ---- replies ---- */

#define KIND(name) (1u << OPERATION_##name)
#define KINDS_READ (KIND(GET) | KIND(HEAD) | KIND(GET_RANGE))

/* The statuses that a server may give. Others would mislead the caller: OKV_ETIMEDOUT, for example,
 * is a local event. */
static bool reply_status_is_valid(const struct operation *operation, int status)
{
    unsigned kind = 1u << operation->kind;
    unsigned flags = operation->flags;

    switch (status) {
    case OKV_OK:
    case OKV_EUNSUPPORTED:
    case OKV_EDENIED:
        return true;
    case OKV_ENOTFOUND:
        return kind & (KINDS_READ | KIND(DELETE) | KIND(TOUCH) | KIND(GET_TOUCH) | KIND(ADMIN)) ||
               flags & OKV_REQUEST_IF_VERSION;
    case OKV_EINVAL:
        return kind & KIND(ADMIN);
    case OKV_ETOOSMALL:
        return kind & (KINDS_READ | KIND(STAT));
    case OKV_ECORRUPT:
        return !(kind & (KIND(PING) | KIND(STAT) | KIND(ADMIN)));
    case OKV_EFULL:
    case OKV_EBUCKETFULL:
        return kind & (KIND(PUT) | KIND(APPEND) | KIND(INCR) | KIND(TOUCH) | KIND(GET_TOUCH));
    case OKV_EUNKNOWN: /* its batch of the server's log failed */
    case OKV_EREADONLY:
    case OKV_EDISKFULL:
    case OKV_EFEWCOPIES:
        return operation_is_write(operation);
    case OKV_EVALUESIZE:
        return kind & (KIND(PUT) | KIND(APPEND) | KIND(INCR) | KIND(GET_TOUCH));
    case OKV_EEXISTS:
        return flags & OKV_REQUEST_IF_ABSENT;
    case OKV_ECONFLICT:
        return flags & OKV_REQUEST_IF_VERSION;
    case OKV_ERENDEZVOUS:
        return flags & OKV_REQUEST_RENDEZVOUS;
    case OKV_ENUMBER:
    case OKV_EOVERFLOW:
        return kind & KIND(INCR);
    default:
        return false;
    }
}

static bool reply_value_is_valid(const okv *handle, const struct operation *operation,
                                 const struct okv_reply_message *reply)
{
    if (reply->status != OKV_OK)
        return reply->value_length == 0;
    switch (operation->kind) {
    case OPERATION_GET:
    case OPERATION_HEAD:
    case OPERATION_GET_RANGE:
    case OPERATION_GET_TOUCH:
        return reply->value_length <= handle->table.max_value;
    case OPERATION_STAT:
    case OPERATION_ADMIN:
        return true;
    case OPERATION_INCR:
    case OPERATION_PING:
        return reply->value_length == sizeof(struct okv_wire_number);
    case OPERATION_APPEND:
        return reply->value_length == sizeof(struct okv_wire_number) &&
               okv_get_u64(reply->value) <= handle->table.max_value;
    case OPERATION_FLUSH:
        return reply->value_length == sizeof(struct okv_wire_flush);
    default:
        return reply->value_length == 0;
    }
}

/* Copies the value to the caller's buffer, or the part that is wanted. */
static int reply_deliver(struct operation *operation, const struct okv_reply_message *reply)
{
    operation->result.length = reply->value_length;
    if (operation->kind == OPERATION_HEAD)
        return OKV_OK;
    if (operation->kind == OPERATION_GET_RANGE) {
        uint32_t length = operation_part_length(operation, reply->value_length);
        if (length > 0)
            memcpy(operation->buffer, reply->value + operation->offset, length);
        return OKV_OK;
    }
    if (reply->value_length > operation->buffer_size)
        return OKV_ETOOSMALL;
    if (reply->value_length)
        memcpy(operation->buffer, reply->value, reply->value_length);
    return OKV_OK;
}

static int reply_fill(struct operation *operation, const struct okv_reply_message *reply)
{
    struct okv_result *result = &operation->result;
    int status = reply->status;

    if (status == OKV_ECONFLICT || status == OKV_EEXISTS)
        result->version = reply->version;
    if (status != OKV_OK)
        return status;
    if (operation->kind == OPERATION_INCR)
        result->number = (int64_t)okv_get_u64(reply->value);
    else if (operation->kind == OPERATION_APPEND)
        result->length = (size_t)okv_get_u64(reply->value);
    else if (operation->kind != OPERATION_PING &&
             (reply->value_length || operation->kind == OPERATION_GET))
        status = reply_deliver(operation, reply);
    if (status == OKV_OK)
        result->version = reply->version;
    return status;
}

/* True for a copy of an earlier reply: over ofi with verbs others can make the provider deliver it
 * again. */
static bool reply_is_repeated(const okv *handle, const struct okv_reply_message *reply)
{
    return reply->slot < handle->table.credits && reply->sequence > 0 &&
           reply->sequence <= handle->request_slots.answered[reply->slot];
}

/* The operation that a reply answers, or NULL if it fits none. */
static struct operation *reply_operation(okv *handle, const struct okv_reply_message *reply)
{
    if (reply->slot >= handle->table.credits)
        return NULL;
    struct operation *operation = handle->request_slots.holders[reply->slot];
    if (!operation || operation->step != STEP_REPLY || !operation->posted || operation->resend ||
        operation->sequence != reply->sequence || operation_opcode(operation) != reply->opcode ||
        !reply_status_is_valid(operation, reply->status) ||
        !reply_value_is_valid(handle, operation, reply))
        return NULL;
    return operation;
}

/* The server READs before it replies. */
static void value_withdraw(okv *handle, struct operation *operation)
{
    handle->transport->withdraw(operation->advert, true);
    operation->advert = NULL;
}

/* Ends the operation. Returns it instead if it is a get whose value the reply had no room for. */
static struct operation *reply_apply(okv *handle, struct operation *operation,
                                     const struct okv_reply_message *reply)
{
    if (operation->abandoned)
        operation_release(handle, operation);
    else if (KINDS_READ & 1u << operation->kind && reply->status == OKV_ETOOSMALL)
        return operation;
    else
        operation_end(handle, operation, reply_fill(operation, reply));
    return NULL;
}

struct operation *request_message(okv *handle, const struct okv_event *event)
{
    struct okv_reply_message reply;

    if (!event->has_immediate ||
        okv_reply_decode(event->immediate, event->data, event->length, &reply)) {
        engine_fail(handle, OKV_EPROTO, "the server sent a message that is no reply");
        return NULL;
    }
    if (reply.opcode == OKV_OP_GOODBYE) {
        goodbye_receive(handle, reply.status);
        return NULL;
    }
    if (reply_is_repeated(handle, &reply) || report_reply(handle, &reply) ||
        hits_reply(handle, &reply) || lease_reply(handle, &reply))
        return NULL;
    struct operation *operation = reply_operation(handle, &reply);
    if (!operation) {
        engine_fail(handle, OKV_EPROTO, "the server gave an answer that fits no request");
        return NULL;
    }
    request_forget(handle, operation);
    if (operation->advert)
        value_withdraw(handle, operation);
    handle->request_slots.answered[reply.slot] = reply.sequence;
    handle->counters.replies++;
    handle->counters.reply_bytes += event->length;
    return reply_apply(handle, operation, &reply);
}
