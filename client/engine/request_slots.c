#include "client/engine/request_slots.h"

void request_slots_reset(okv *handle)
{
    struct request_slots *slots = &handle->request_slots;

    slots->count = 0;
    /* A stack: the lowest slot goes out first. */
    for (uint32_t slot = handle->table.credits; slot-- > 0;)
        if (!slots->holders[slot])
            slots->free[slots->count++] = (uint16_t)slot;
}

void request_slot_acquire(okv *handle, struct operation *operation)
{
    struct request_slots *slots = &handle->request_slots;

    operation->request_slot = slots->free[--slots->count];
    operation->has_request_slot = true;
    operation->sequence = handle->next_sequence++;
    slots->holders[operation->request_slot] = operation;
}

void request_forget(okv *handle, struct operation *operation)
{
    struct request_slots *slots = &handle->request_slots;

    slots->resends -= operation->resend;
    operation->resend = false;
    operation->posted = false;
    if (!operation->has_request_slot)
        return;
    operation->has_request_slot = false;
    slots->holders[operation->request_slot] = NULL;
    /* Harmless without a connection: request_slots_reset() runs before the next request. */
    slots->free[slots->count++] = operation->request_slot;
}

bool request_is_owed(const okv *handle)
{
    for (uint32_t slot = 0; slot < handle->table.credits; slot++) {
        const struct operation *holder = handle->request_slots.holders[slot];
        if (holder && holder->posted && !holder->resend)
            return true;
    }
    return false;
}

bool request_has_room(const okv *handle)
{
    return (handle->request_slots.count > 0 || handle->request_slots.resends > 0) &&
           handle->transport->send_buffer(handle->conn);
}
