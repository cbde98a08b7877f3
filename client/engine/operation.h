/* Operation slots. An operation acquires a slot, may wait in it for credit, ends, and releases it.
 */
#ifndef OKV_CLIENT_ENGINE_OPERATION_H
#define OKV_CLIENT_ENGINE_OPERATION_H

#include "client/engine/timed_gets.h"
#include "client/handle.h"

/* Begins an operation of this kind in a free slot. OKV_EAGAIN: none is free. Also the handle's
 * failure. wait_acquire() waits for one. */
int operation_acquire(okv *handle, enum operation_kind kind, enum operation_delivery delivery,
                      uint64_t deadline_ns, struct operation **out);
/* Begins an operation in a slot that the caller has removed from the free ones. Key, buffer and tag
 * in it may be left from an earlier get: the caller sets all of them (command_fill_get()), and
 * counts `pending` when okv_poll() delivers. */
static inline void operation_begin(okv *handle, struct operation *slot, enum operation_kind kind,
                                   enum operation_delivery delivery, uint64_t deadline_ns)
{
    slot->kind = kind;
    slot->delivery = delivery;
    slot->deadline_ns = deadline_ns;
    slot->begun_ns = handle->begun_ns;
    slot->number = handle->operations_begun++;
    handle->active++;
    if (deadline_ns < handle->earliest_deadline_ns)
        handle->earliest_deadline_ns = deadline_ns;
}
/* The deadline of a command that began at `begun_ns`. */
static inline uint64_t command_deadline_ns(const okv *handle, const struct okv_command *command,
                                           uint64_t begun_ns)
{
    uint32_t own_ms = command->timeout_ms;

    return begun_ns + (own_ms ? (uint64_t)own_ms * 1000000u : handle->timeout_ns);
}
/* Fills in the arguments of a plain get, which every operation may have too. */
static inline void command_fill_get(struct operation *operation, const struct okv_command *command)
{
    operation->result.tag = command->tag;
    operation->key = command->key;
    operation->key_length = (uint32_t)command->key_length;
    operation->buffer = command->buffer;
    operation->buffer_size = command->buffer_size;
}
/* get_range: the wanted bytes of a value of this length. */
static inline uint32_t operation_part_length(const struct operation *operation, uint32_t length)
{
    if (operation->offset >= length)
        return 0;
    uint32_t left = length - (uint32_t)operation->offset;
    return operation->buffer_size < left ? (uint32_t)operation->buffer_size : left;
}
/* True when it wants only a part of a value of this length. */
static inline bool operation_wants_part(const struct operation *operation, uint32_t length)
{
    return operation->kind == OPERATION_GET_RANGE &&
           operation_part_length(operation, length) < length;
}
/* The free entry of the ring of results. */
static inline struct okv_result *result_next(okv *handle)
{
    struct result_queue *ended = &handle->ended;

    return &ended->results[ring_index(ended->first, ended->count, handle->depth)];
}
/* The slot that the next operation takes; one must be free. */
static inline struct operation *operation_next(const okv *handle)
{
    return &handle->operations[handle->free.slots[handle->free.count - 1]];
}
/* False while it waits for room, or for a connection: resend_resume() starts it on the next one. */
static inline bool operation_may_post(const okv *handle, const struct operation *operation)
{
    return !operation->blocked && link_is_up(handle);
}
/* Its request or READs were posted, with this result. OKV_EAGAIN: there is no room, so it waits and
 * is retried. */
void operation_posted(okv *handle, struct operation *operation, int rc);
/* Retries the operations that wait for room. */
void operation_retry_blocked(okv *handle);
/* Ends an operation and delivers its result. Unless it is DELIVER_TO_CALLER, its slot is free
 * afterwards: do not touch it. */
void operation_end(okv *handle, struct operation *operation, int status);
/* Ends it without a reply: with OKV_EUNKNOWN if it is a write whose request left, else with
 * `failure`. */
void operation_end_unanswered(okv *handle, struct operation *operation, int failure);
/* Delivers OKV_ETIMEDOUT, OKV_EDENIED or OKV_EUNKNOWN. While READs or a reply are under way the
 * operation keeps its slot, abandoned. */
void operation_expire(okv *handle, struct operation *operation);
/* Frees the slot, its request slot and its buffers. */
void operation_release(okv *handle, struct operation *operation);
/* enum okv_opcode of its request. */
unsigned operation_opcode(const struct operation *operation);
/* True for a write, which the server applies once (docs/connections.md section 5). */
bool operation_is_write(const struct operation *operation);
/* Empties the queues of operations that wait for room. */
void operation_unblock_all(okv *handle);
/* True from its start to its end. */
static inline bool operation_is_under_way(const struct operation *operation)
{
    return operation->step != STEP_FREE && operation->step != STEP_ENDED;
}

#endif
