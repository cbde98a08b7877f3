/* Operation slots: taken, blocked, ended and given back. */
#ifndef OKV_CLIENT_ENGINE_OPERATION_H
#define OKV_CLIENT_ENGINE_OPERATION_H

#include "client/handle.h"

/* A slot for an operation of this kind, initialised. OKV_EAGAIN: there is none; the handle's
 * failure. engine_operation_take() waits for one. */
int operation_take(okv *handle, enum operation_kind kind, enum operation_delivery delivery,
                   uint64_t deadline_ns, struct operation **out);
/* Begins one in a slot that was taken from the free ones. Key, buffer and tag in it may be an
 * earlier get's: the caller sets all of them (command_fill_get()), and counts `pending` where
 * okv_poll() delivers. */
static inline void operation_begin(okv *handle, struct operation *slot, enum operation_kind kind,
                                   enum operation_delivery delivery, uint64_t deadline_ns)
{
    slot->kind = kind;
    slot->delivery = delivery;
    slot->deadline_ns = deadline_ns;
    slot->number = handle->taken++;
    handle->active++;
    if (deadline_ns < handle->earliest_deadline_ns)
        handle->earliest_deadline_ns = deadline_ns;
}
/* When the time of a command is over that began at `begun_ns`. */
static inline uint64_t command_deadline_ns(const okv *handle, const struct okv_command *command,
                                           uint64_t begun_ns)
{
    uint32_t own_ms = command->timeout_ms;

    return begun_ns + (own_ms ? (uint64_t)own_ms * 1000000u : handle->timeout_ns);
}
/* All that a plain get has, and every operation may have: which get, and where its value goes. */
static inline void command_fill_get(struct operation *operation, const struct okv_command *command)
{
    operation->result.tag = command->tag;
    operation->key = command->key;
    operation->key_length = (uint32_t)command->key_length;
    operation->buffer = command->buffer;
    operation->buffer_size = command->buffer_size;
}
/* Where the next result for okv_poll() goes. */
static inline struct okv_result *result_next(okv *handle)
{
    struct result_queue *ended = &handle->ended;

    return &ended->results[ring_index(ended->first, ended->count, handle->depth)];
}
/* The slot that the next operation would have; there is one. */
static inline struct operation *operation_next(const okv *handle)
{
    return &handle->operations[handle->free.slots[handle->free.count - 1]];
}
/* Starts or resumes the current step; blocks the operation when there is no room. */
void operation_advance(okv *handle, struct operation *operation);
/* Tries blocked operations again. */
void operation_retry_blocked(okv *handle);
/* Ends an operation: its result is ready for whoever waits. Unless it is
 * DELIVER_TO_CALLER its slot is free again: do not touch it afterwards. */
void operation_end(okv *handle, struct operation *operation, int status);
/* Ends it with a failure that is no answer of the server's: OKV_EUNKNOWN for a write
 * whose request left. */
void operation_end_unanswered(okv *handle, struct operation *operation, int failure);
/* Its deadline passed: gives its result; what is under way keeps the slot. */
void operation_expire(okv *handle, struct operation *operation);
/* Gives the slot back, and what the operation had besides. */
void operation_release(okv *handle, struct operation *operation);
/* A write, which a server applies once (docs/connections.md section 5). */
bool operation_is_write(const struct operation *operation);
/* Those that wait for room do so no more. */
void operation_unblock_all(okv *handle);
/* True from its start to its end. */
static inline bool operation_is_under_way(const struct operation *operation)
{
    return operation->step != STEP_FREE && operation->step != STEP_ENDED;
}

#endif
