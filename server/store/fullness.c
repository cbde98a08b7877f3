#include "server/store/fullness.h"

#include "server/store/evict.h"

/* Of the region, by which keys and values have to become less before a store counts as having room:
 * a full one also takes a write in the place of each item that is deleted. */
#define ROOM_SHARE 32u

void okv_store_report_fullness(struct okv_store *store, void (*report)(void *user, bool is_full),
                               void *user)
{
    store->fullness.report = report;
    store->fullness.user = user;
}

#define MORE "delete items, or give it more by --memory, or by SIZE in --database"
const char *okv_store_fullness_advice(const struct okv_store *store)
{
    if (store->eviction.mode == OKV_STORE_REFUSE)
        return MORE ", or let it evict items by --full";
    if (store->eviction.mode == OKV_STORE_EVICT_EXPIRING && !okv_store_may_evict(store))
        return "no item with a time to live is left to evict: " MORE;
    return "evicting items left no piece of memory that is large enough: lower --max-value, or "
           "give "
           "long values a database of their own";
}
#undef MORE

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
