/*
 * Whose the allocations of a heap are: 32 bits for each, beside the region. For those who empty a
 * range of it (clear.h).
 *
 * A slab has an array, which is made with the first owner of one of its slots, and goes with it.
 * The arena may use a slab for another size before it gives it back: the array stays as it was
 * then, and what is there has no owner.
 */
#ifndef OKV_SERVER_STORE_OWNERS_H
#define OKV_SERVER_STORE_OWNERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct okv_owners {
    pthread_mutex_t lock; /* held while arrays are read by others, and freed */
    uint64_t pages;
    /* By the first page of a slab the address of its array, by that of a run what identifies its
     * owner. */
    atomic_uintptr_t *of_page;
};

/* Memory is taken as pages come into use. NULL: there is none. */
struct okv_owners *okv_owners_create(uint64_t pages);
/* Accepts NULL. */
void okv_owners_destroy(struct okv_owners *owners);

/* A slot of a slab. */
struct okv_owners_slot {
    uint64_t offset; /* in the slab */
    uint64_t length, slab_length;
};

/* The caller has the run, or the slot, one of `slots` in the slab. Without memory for its array a
 * slot has no owner. */
void okv_owners_set_run(struct okv_owners *owners, uint64_t page, uint32_t owner);
void okv_owners_set_slot(struct okv_owners *owners, uint64_t page,
                         const struct okv_owners_slot *slot, uint32_t owner);
uint32_t okv_owners_get_run(const struct okv_owners *owners, uint64_t page);
/* Of the slot at this offset in the slab; may be that of an earlier allocation there. */
uint32_t okv_owners_get_slot(struct okv_owners *owners, uint64_t page, uint64_t offset);
/* Bytes of the slots of the slab that begins here; 0: none of them ever had an owner. */
uint64_t okv_owners_slot_length(struct okv_owners *owners, uint64_t page);
/* The slab that begins here goes. */
void okv_owners_drop_slab(struct okv_owners *owners, uint64_t page);

#endif
