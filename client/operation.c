/* Slots: how operations take them, wait for room, end, and give them back. */
#include "client/handle.h"

#include "shared/clock.h"
#include "shared/error.h"

static void queue_push(const okv *handle, struct slot_queue *queue, uint16_t slot)
{
    queue->slots[(queue->first + queue->count++) % handle->slot_count] = slot;
}

static uint16_t queue_pop(const okv *handle, struct slot_queue *queue)
{
    uint16_t slot = queue->slots[queue->first];
    queue->first = (queue->first + 1) % handle->slot_count;
    queue->count--;
    return slot;
}

int operation_take(okv *handle, enum operation_kind kind, enum operation_delivery delivery,
                   uint32_t timeout_ms, struct operation **out)
{
    bool polled = delivery == DELIVER_TO_POLL;

    if (handle->failure)
        return handle->failure;
    if (handle->free.count == 0 || (polled && handle->pending == handle->depth))
        return OKV_EAGAIN;
    struct operation *operation = &handle->operations[queue_pop(handle, &handle->free)];
    uint64_t timeout_ns = timeout_ms ? (uint64_t)timeout_ms * 1000000u : handle->timeout_ns;
    *operation = (struct operation){
        .kind = kind,
        .delivery = delivery,
        .index = operation->index,
        .image = operation->image,
        .extent = operation->extent,
        .deadline_ns = okv_clock_ns() + timeout_ns,
    };
    handle->active++;
    handle->pending += polled;
    if (operation->deadline_ns < handle->earliest_deadline_ns)
        handle->earliest_deadline_ns = operation->deadline_ns;
    *out = operation;
    return 0;
}

void operation_release(okv *handle, struct operation *operation)
{
    if (operation->exposure)
        handle->transport->unexpose(operation->exposure);
    if (operation->bounce)
        bounce_give_back(handle, operation->bounce);
    operation->exposure = NULL;
    operation->bounce = NULL;
    operation->step = STEP_FREE;
    operation->posted = false;
    operation->abandoned = false;
    queue_push(handle, &handle->free, operation->index);
}

/* ---- waiting for room ---- */

void operation_advance(okv *handle, struct operation *operation)
{
    if (operation->blocked)
        return;
    int rc = operation->step == STEP_REPLY ? request_post(handle, operation)
                                           : lookup_post(handle, operation);
    if (rc == OKV_EAGAIN) {
        operation->blocked = true;
        queue_push(handle, &handle->blocked, operation->index);
    } else if (rc) {
        operation_end_unanswered(handle, operation, rc);
    }
}

void operation_retry_blocked(okv *handle)
{
    for (uint32_t n = handle->blocked.count; n > 0 && handle->blocked.count > 0; n--) {
        struct operation *operation = &handle->operations[queue_pop(handle, &handle->blocked)];
        operation->blocked = false;
        operation_advance(handle, operation);
    }
}

static void blocked_remove(okv *handle, struct operation *operation)
{
    if (!operation->blocked)
        return;
    for (uint32_t n = handle->blocked.count; n > 0; n--) {
        uint16_t slot = queue_pop(handle, &handle->blocked);
        if (slot != operation->index)
            queue_push(handle, &handle->blocked, slot);
    }
    operation->blocked = false;
}

/* ---- ending ---- */

static void operation_count(okv *handle, const struct operation *operation, int status)
{
    switch (operation->kind) {
    case OPERATION_GET:
    case OPERATION_HEAD:
        handle->counters.gets++;
        handle->counters.hits += status == OKV_OK || status == OKV_ETOOSMALL;
        handle->counters.misses += status == OKV_ENOTFOUND;
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
        handle->counters.updates++;
        break;
    case OPERATION_PING:
    case OPERATION_STAT:
    case OPERATION_FLUSH:
        break;
    }
}

/* Gives the result to whoever wants it; one that waits in a call finds it in the slot. */
static void operation_conclude(okv *handle, struct operation *operation, int status)
{
    struct result_queue *ended = &handle->ended;

    blocked_remove(handle, operation);
    operation_count(handle, operation, status);
    handle->active--;
    operation->result.status = status;
    if (operation->delivery == DELIVER_TO_POLL)
        ended->results[(ended->first + ended->count++) % handle->depth] = operation->result;
    else if (operation->delivery == DELIVER_TO_ARRAY)
        *operation->out = operation->result;
}

void operation_end(okv *handle, struct operation *operation, int status)
{
    operation_conclude(handle, operation, status);
    if (operation->delivery == DELIVER_TO_CALLER)
        operation->step = STEP_ENDED;
    else
        operation_release(handle, operation);
}

/* A write whose message left may have been applied: only its answer can tell. */
static int status_without_answer(const struct operation *operation, int failure)
{
    switch (operation->kind) {
    case OPERATION_PUT:
    case OPERATION_DELETE:
    case OPERATION_INCR:
    case OPERATION_APPEND:
    case OPERATION_TOUCH:
    case OPERATION_FLUSH:
        return operation->posted ? OKV_EUNKNOWN : failure;
    default:
        return failure;
    }
}

void operation_end_unanswered(okv *handle, struct operation *operation, int failure)
{
    int status = status_without_answer(operation, failure);

    operation->posted = false;
    operation_end(handle, operation, status);
}

void operation_expire(okv *handle, struct operation *operation)
{
    handle->counters.timeouts++;
    if (!operation->posted && operation->reads == 0) {
        operation_end(handle, operation, OKV_ETIMEDOUT);
        return;
    }
    operation_conclude(handle, operation, status_without_answer(operation, OKV_ETIMEDOUT));
    operation->abandoned = true;
}
