/*
 * Which send buffers of a connection are free, and which wait for a flush. Their memory is the
 * transport's. The free ones are a stack, so that few are used and stay in the cache; those that
 * wait are a ring, in the order in which they were posted.
 */
#ifndef OKV_SHARED_TRANSPORT_COMMON_SEND_SLOTS_H
#define OKV_SHARED_TRANSPORT_COMMON_SEND_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

struct okv_send_slots {
    unsigned count;
    unsigned free_count;
    unsigned first, queued; /* of the ring */
    unsigned current;       /* the one that the caller fills, if it has one */
    bool has_current;
    uint32_t *free; /* [count] */
    uint32_t *ring; /* [count] */
};

/* All slots are free. False: no memory. */
bool okv_send_slots_create(struct okv_send_slots *slots, unsigned count);
/* Accepts zeroed slots. */
void okv_send_slots_destroy(struct okv_send_slots *slots);
/* Frees the slots that wait for a flush. */
void okv_send_slots_unqueue(struct okv_send_slots *slots);

/* Makes slots->current a slot, the same until okv_send_slots_queue(). False: none is free. */
static inline bool okv_send_slots_reserve(struct okv_send_slots *slots)
{
    if (!slots->has_current) {
        if (slots->free_count == 0)
            return false;
        slots->current = slots->free[--slots->free_count];
        slots->has_current = true;
    }
    return true;
}

/* The current slot waits for a flush. */
static inline void okv_send_slots_queue(struct okv_send_slots *slots)
{
    slots->ring[(slots->first + slots->queued++) % slots->count] = slots->current;
    slots->has_current = false;
}

/* The slot that has waited longest. Precondition: one is queued. */
static inline unsigned okv_send_slots_first(const struct okv_send_slots *slots)
{
    return slots->ring[slots->first];
}

/* Removes that slot from the queue. */
static inline void okv_send_slots_pop(struct okv_send_slots *slots)
{
    slots->first = (slots->first + 1) % slots->count;
    slots->queued--;
}

/* The message in a slot was sent, or will not be. */
static inline void okv_send_slots_return(struct okv_send_slots *slots, unsigned index)
{
    if (slots->free_count < slots->count) /* whatever a device completes */
        slots->free[slots->free_count++] = index;
}

#endif
