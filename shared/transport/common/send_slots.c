#include "shared/transport/common/send_slots.h"

#include <stdlib.h>

bool okv_send_slots_create(struct okv_send_slots *slots, unsigned count)
{
    *slots = (struct okv_send_slots){.count = count};
    slots->free = calloc(2 * (size_t)count, sizeof *slots->free);
    if (!slots->free)
        return false;
    slots->ring = slots->free + count;
    while (slots->free_count < count) {
        slots->free[slots->free_count] = count - 1 - slots->free_count;
        slots->free_count++;
    }
    return true;
}

void okv_send_slots_destroy(struct okv_send_slots *slots)
{
    free(slots->free);
    slots->free = NULL;
}

void okv_send_slots_unqueue(struct okv_send_slots *slots)
{
    while (slots->queued > 0) {
        okv_send_slots_return(slots, okv_send_slots_first(slots));
        okv_send_slots_pop(slots);
    }
}
