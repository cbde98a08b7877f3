/*
 * Whose the allocations of a heap are: 32 bits for each, beside the region. For those who empty a
 * range of it (clear.h).
 *
 * A slab has an array, which is made with the first owner of one of its slots, and goes with it.
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

/* The caller has the run, or the slot, one of `slots` in the slab. Without memory for its array a
 * slot has no owner. */
void okv_owners_set_run(struct okv_owners *owners, uint64_t page, uint32_t owner);
void okv_owners_set_slot(struct okv_owners *owners, uint64_t page, uint64_t slot, uint64_t slots,
                         uint32_t owner);
uint32_t okv_owners_get_run(const struct okv_owners *owners, uint64_t page);
/* May be that of an earlier allocation there. False: no slot of the slab ever had one. */
bool okv_owners_get_slot(struct okv_owners *owners, uint64_t page, uint64_t slot, uint32_t *owner);
/* The slab that begins here goes. */
void okv_owners_drop_slab(struct okv_owners *owners, uint64_t page);

#endif
