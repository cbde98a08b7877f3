/* Request slots: taken by requests, given back by replies. */
#include "client/engine/request_slots.h"

void lanes_reset(okv *handle)
{
    struct lanes *lanes = &handle->lanes;

    lanes->count = 0;
    /* The lowest is taken first. */
    for (uint32_t lane = handle->table.credits; lane-- > 0;)
        if (!lanes->holders[lane])
            lanes->free[lanes->count++] = (uint16_t)lane;
}

void lane_take(okv *handle, struct operation *operation)
{
    struct lanes *lanes = &handle->lanes;

    operation->lane = lanes->free[--lanes->count];
    operation->has_lane = true;
    operation->sequence = handle->next_sequence++;
    lanes->holders[operation->lane] = operation;
}

void request_forget(okv *handle, struct operation *operation)
{
    struct lanes *lanes = &handle->lanes;

    lanes->resends -= operation->resend;
    operation->resend = false;
    operation->posted = false;
    if (!operation->has_lane)
        return;
    operation->has_lane = false;
    lanes->holders[operation->lane] = NULL;
    /* While there is no connection nobody takes it: lanes_reset() comes first. */
    lanes->free[lanes->count++] = operation->lane;
}

bool request_is_owed(const okv *handle)
{
    for (uint32_t lane = 0; lane < handle->table.credits; lane++) {
        const struct operation *holder = handle->lanes.holders[lane];
        if (holder && holder->posted && !holder->resend)
            return true;
    }
    return false;
}

bool request_has_room(const okv *handle)
{
    return (handle->lanes.count > 0 || handle->lanes.resends > 0) &&
           handle->transport->send_buffer(handle->conn);
}
