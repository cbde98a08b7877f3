/* The status block, which clients READ: the clock, the count of buckets, and the lease of a member
 * of a cluster. */
#ifndef OKV_SERVER_STORE_STATUS_H
#define OKV_SERVER_STORE_STATUS_H

#include "server/store/state.h"
#include "shared/base/clock.h"

/* Writes the status block as it is now. */
void okv_store_publish_status(struct okv_store *store);

/* Makes the store a member of a cluster, or renews its lease, and writes the status block. Any
 * thread. Connections from before the store was a member do not ask for a lease: there may be none.
 * Likewise the epoch may change only between connections. */
void okv_store_set_lease(struct okv_store *store, const struct okv_store_lease *lease);
/* As it was set last; zeros on a server alone. */
struct okv_store_lease okv_store_get_lease(struct okv_store *store);

/* Any thread. A server alone reads no clock for it. */
static inline bool okv_store_is_member(const struct okv_store *store)
{
    return atomic_load_explicit(&store->valid_until_us, memory_order_relaxed) != OKV_STORE_ALONE;
}
/* Whether what was read of the table before this call was current: no copy had taken over. */
static inline bool okv_store_lease_holds(const struct okv_store *store)
{
    return !okv_store_is_member(store) ||
           okv_clock_lease_us() <
               atomic_load_explicit(&store->valid_until_us, memory_order_relaxed);
}
/* For clients' estimates of the lease clock; 0 on a server alone. */
static inline uint64_t okv_store_lease_clock_us(const struct okv_store *store)
{
    return okv_store_is_member(store) ? okv_clock_lease_us() : 0;
}

#endif
