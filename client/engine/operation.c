#include "client/engine/operation.h"

#include "client/engine/engine_ops.h"
#include "client/engine/memory.h"
#include "client/engine/read_batch.h"
#include "client/engine/request_slots.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

static void queue_push(const okv *handle, struct slot_queue *queue, uint16_t slot)
{
    queue->slots[ring_index(queue->first, queue->count++, handle->slot_count)] = slot;
}

static uint16_t queue_pop(const okv *handle, struct slot_queue *queue)
{
    uint16_t slot = queue->slots[queue->first];
    queue->first = ring_index(queue->first, 1, handle->slot_count);
    queue->count--;
    return slot;
}

/* Clears the arguments, which gets on the fast path leave in their slots. */
static inline void arguments_clear(struct operation *operation)
{
    operation->key = NULL;
    operation->key_length = 0;
    operation->buffer = NULL;
    operation->buffer_size = 0;
    operation->result.tag = 0;
}

/* Resets the other members to their state in a free slot. A get on the fast path leaves them
 * untouched and skips this. Field by field: lookup_start() fills the large members, and a memset of
 * the whole slot takes a tenth of a local get's time. */
static inline void slot_clear(struct operation *operation)
{
    operation->is_fast = false;
    operation->abandoned = false;
    operation->advert = NULL;
    operation->bounce = NULL;
    operation->step = STEP_FREE;
    operation->reads = 0;
    operation->value = NULL;
    operation->value_length = 0;
    operation->flags = 0;
    operation->argument = 0;
    operation->ttl_ms = 0;
    operation->extent_read = (struct extent_read){.length = 0};
    operation->result = (struct okv_result){.tag = 0};
    operation->out = NULL;
}

int operation_acquire(okv *handle, enum operation_kind kind, enum operation_delivery delivery,
                      uint64_t deadline_ns, struct operation **out)
{
    bool polled = delivery == DELIVER_TO_POLL;

    if (handle->failure)
        return handle->failure;
    if (handle->free.count == 0 || (polled && handle->pending == handle->depth))
        return OKV_EAGAIN;
    /* The slot that was released last: its memory is in the caches. */
    *out = &handle->operations[handle->free.slots[--handle->free.count]];
    arguments_clear(*out);
    operation_begin(handle, *out, kind, delivery, deadline_ns);
    handle->pending += polled;
    return 0;
}

static inline void slot_release(okv *handle, struct operation *operation)
{
    if (operation->advert)
        handle->transport->withdraw(operation->advert, false);
    if (operation->bounce)
        bounce_release(handle, operation->bounce);
    if (operation->has_request_slot || operation->posted || operation->resend)
        request_forget(handle, operation);
    slot_clear(operation);
    handle->free.slots[handle->free.count++] = operation->index;
}

void operation_release(okv *handle, struct operation *operation)
{
    slot_release(handle, operation);
}

/* ---- waiting for room ---- */

static struct slot_queue *blocked_queue(okv *handle, const struct operation *operation)
{
    return operation->step == STEP_REPLY ? &handle->blocked_requests : &handle->blocked_reads;
}

void operation_posted(okv *handle, struct operation *operation, int rc)
{
    if (rc == OKV_EAGAIN) {
        operation->blocked = true;
        queue_push(handle, blocked_queue(handle, operation), operation->index);
    } else if (rc == OKV_EDISCONNECTED) {
        handle->lost = true; /* engine_flush() handles it */
    } else if (rc) {
        operation_end_unanswered(handle, operation, rc);
    }
}

/* Retries each operation of a queue once, while there is room. */
static void retry_queue(okv *handle, struct slot_queue *queue, bool (*has_room)(const okv *handle))
{
    for (uint32_t n = queue->count; n > 0 && queue->count > 0 && has_room(handle); n--) {
        struct operation *operation = &handle->operations[queue_pop(handle, queue)];
        operation->blocked = false;
        handle->ops->retry(handle, operation);
    }
}

static bool reads_have_room(const okv *handle)
{
    return reads_room(handle) > 0;
}

void operation_retry_blocked(okv *handle)
{
    retry_queue(handle, &handle->blocked_requests, request_has_room);
    retry_queue(handle, &handle->blocked_reads, reads_have_room);
}

void operation_unblock_all(okv *handle)
{
    handle->blocked_reads.count = 0;
    handle->blocked_requests.count = 0;
    for (uint32_t i = 0; i < handle->slot_count; i++)
        handle->operations[i].blocked = false;
}

static void queue_remove(const okv *handle, struct slot_queue *queue, uint16_t removed)
{
    for (uint32_t n = queue->count; n > 0; n--) {
        uint16_t slot = queue_pop(handle, queue);
        if (slot != removed)
            queue_push(handle, queue, slot);
    }
}

static void blocked_remove(okv *handle, struct operation *operation)
{
    /* In both: its step, which selects the queue, may have changed since. */
    queue_remove(handle, &handle->blocked_reads, operation->index);
    queue_remove(handle, &handle->blocked_requests, operation->index);
    operation->blocked = false;
}

/* ---- ending ---- */

static inline void lookup_count(okv *handle, const struct operation *operation, int status)
{
    if (get_is_timed(handle) && operation->delivery != DELIVER_TO_ARRAY)
        get_time(handle, operation->begun_ns, okv_clock_ns());
    handle->counters.gets++;
    if (status == OKV_OK || status == OKV_ETOOSMALL)
        handle->counters.hits++;
    else if (status == OKV_ENOTFOUND)
        handle->counters.misses++;
}

static void operation_count(okv *handle, const struct operation *operation, int status)
{
    switch (operation->kind) {
    case OPERATION_GET:
    case OPERATION_HEAD:
    case OPERATION_GET_RANGE:
        lookup_count(handle, operation, status);
        break;
    case OPERATION_PUT:
        handle->counters.puts++;
        break;
    case OPERATION_DELETE:
        handle->counters.deletes++;
        break;
    case OPERATION_INCR:
    case OPERATION_APPEND:
    case OPERATION_TOUCH:
    case OPERATION_GET_TOUCH:
        handle->counters.updates++;
        break;
    case OPERATION_PING:
    case OPERATION_STAT:
    case OPERATION_ADMIN:
    case OPERATION_FLUSH:
        break;
    }
}

/* Delivers the result. A caller who blocks finds it in the slot. */
static inline void operation_conclude(okv *handle, struct operation *operation, int status)
{
    struct result_queue *ended = &handle->ended;

    if (operation->blocked)
        blocked_remove(handle, operation);
    if (operation->kind == OPERATION_GET) /* the usual case */
        lookup_count(handle, operation, status);
    else
        operation_count(handle, operation, status);
    if (status == OKV_EDENIED)
        handle->denied_right = okv_opcode_facts(operation_opcode(operation))->right;
    handle->active--;
    operation->result.status = status;
    if (operation->delivery == DELIVER_TO_POLL)
        ended->results[ring_index(ended->first, ended->count++, handle->depth)] = operation->result;
    else if (operation->delivery == DELIVER_TO_ARRAY)
        *operation->out = operation->result;
}

void operation_end(okv *handle, struct operation *operation, int status)
{
    operation_conclude(handle, operation, status);
    if (operation->delivery == DELIVER_TO_CALLER)
        operation->step = STEP_ENDED;
    else
        slot_release(handle, operation);
}

unsigned operation_opcode(const struct operation *operation)
{
    static const uint8_t opcodes[] = {
        [OPERATION_GET] = OKV_OP_GET,
        [OPERATION_HEAD] = OKV_OP_GET,
        [OPERATION_GET_RANGE] = OKV_OP_GET,
        [OPERATION_PUT] = OKV_OP_PUT,
        [OPERATION_DELETE] = OKV_OP_DELETE,
        [OPERATION_INCR] = OKV_OP_INCR,
        [OPERATION_APPEND] = OKV_OP_APPEND,
        [OPERATION_TOUCH] = OKV_OP_TOUCH,
        [OPERATION_GET_TOUCH] = OKV_OP_GET_TOUCH,
        [OPERATION_PING] = OKV_OP_PING,
        [OPERATION_STAT] = OKV_OP_STAT,
        [OPERATION_ADMIN] = OKV_OP_ADMIN,
        [OPERATION_FLUSH] = OKV_OP_FLUSH,
    };

    if (operation->kind == OPERATION_INCR && operation->ttl_ms)
        return OKV_OP_INCR_TTL;
    return opcodes[operation->kind];
}

bool operation_is_write(const struct operation *operation)
{
    return okv_opcode_is_write(operation_opcode(operation));
}

/* A write whose request left may have been applied: only its reply says whether. */
static int status_without_reply(const struct operation *operation, int failure)
{
    return operation->posted && operation_is_write(operation) ? OKV_EUNKNOWN : failure;
}

void operation_end_unanswered(okv *handle, struct operation *operation, int failure)
{
    int status = status_without_reply(operation, failure);

    request_forget(handle, operation);
    operation_end(handle, operation, status);
}

void operation_expire(okv *handle, struct operation *operation)
{
    bool awaited = operation->posted && !operation->resend;

    handle->counters.timeouts++;
    if (!awaited && operation->reads == 0) {
        operation_end_unanswered(handle, operation, timeout_status(handle));
        return;
    }
    operation_conclude(handle, operation, status_without_reply(operation, timeout_status(handle)));
    operation->is_fast = false;
    operation->abandoned = true;
}
