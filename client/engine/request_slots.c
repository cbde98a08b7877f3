/* Request slots: taken by requests, given back by replies. */
#include "client/engine/request_slots.h"

void request_slots_reset(okv *handle)
{
    struct request_slots *request_slots = &handle->request_slots;

    request_slots->count = 0;
    /* The lowest is taken first. */
    for (uint32_t request_slot = handle->table.credits; request_slot-- > 0;)
        if (!request_slots->holders[request_slot])
            request_slots->free[request_slots->count++] = (uint16_t)request_slot;
}

void request_slot_take(okv *handle, struct operation *operation)
{
    struct request_slots *request_slots = &handle->request_slots;

    operation->request_slot = request_slots->free[--request_slots->count];
    operation->has_request_slot = true;
    operation->sequence = handle->next_sequence++;
    request_slots->holders[operation->request_slot] = operation;
}

void request_forget(okv *handle, struct operation *operation)
{
    struct request_slots *request_slots = &handle->request_slots;

    request_slots->resends -= operation->resend;
    operation->resend = false;
    operation->posted = false;
    if (!operation->has_request_slot)
        return;
    operation->has_request_slot = false;
    request_slots->holders[operation->request_slot] = NULL;
    /* While there is no connection nobody takes it: request_slots_reset() comes first. */
    request_slots->free[request_slots->count++] = operation->request_slot;
}

bool request_is_owed(const okv *handle)
{
    for (uint32_t request_slot = 0; request_slot < handle->table.credits; request_slot++) {
        const struct operation *holder = handle->request_slots.holders[request_slot];
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
