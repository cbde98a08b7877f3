#include "server/store/fullness.h"

/* Of the region, by which keys and values have to become less before a store counts as having room:
 * a full one also takes a write in the place of each item that is deleted. */
#define ROOM_SHARE 32u

void okv_store_report_fullness(struct okv_store *store, void (*report)(void *user, bool is_full),
                               void *user)
{
    store->fullness.report = report;
    store->fullness.user = user;
}

void okv_store_note_full(struct okv_store *store)
{
    struct okv_store_fullness *fullness = &store->fullness;

    atomic_store(&fullness->user_bytes, atomic_load(&store->totals.user_bytes));
    if (!atomic_exchange(&fullness->is_full, true) && fullness->report)
        fullness->report(fullness->user, true);
}

void okv_store_note_taken(struct okv_store *store)
{
    struct okv_store_fullness *fullness = &store->fullness;

    if (!atomic_load_explicit(&fullness->is_full, memory_order_relaxed) ||
        atomic_load(&store->totals.user_bytes) + store->length / ROOM_SHARE >
            atomic_load(&fullness->user_bytes))
        return;
    if (atomic_exchange(&fullness->is_full, false) && fullness->report)
        fullness->report(fullness->user, false);
}
