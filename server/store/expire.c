#include "server/store/expire.h"

#include "server/store/bucket_transaction.h"
#include "server/store/locking.h"
#include "server/store/resize.h"

static bool has_expired(const struct okv_store *store, uint64_t number, uint64_t clock_ms)
{
    const struct okv_table *table = &store->table;
    uint64_t offset = okv_table_bucket_offset(table, number);

    while (offset) {
        const uint8_t *image = table->base + offset;
        uint32_t position = 0;
        struct okv_entry entry;
        while (okv_bucket_next(image, &position, &entry) == 1)
            if (okv_entry_is_expired(&entry, clock_ms))
                return true;
        offset = okv_bucket_chain(image);
    }
    return false;
}

static void sweep_bucket(struct okv_store *store, struct okv_store_work *work, uint64_t number)
{
    okv_store_lock(store, number);
    if (number < atomic_load(&store->bucket_count) &&
        has_expired(store, number, atomic_load(&store->clock_ms)) &&
        okv_store_transaction_load(store, work, number) == 0)
        okv_store_transaction_commit(store, work); /* on failure the next sweep tries again */
    okv_store_unlock(store, number);
}

void okv_store_sweep(struct okv_store *store, struct okv_store_work *work, unsigned buckets)
{
    uint64_t count = atomic_load(&store->bucket_count);
    unsigned pages = work->loaded_pages;

    if (atomic_load(&store->totals.expiring) == 0)
        return;
    if (buckets > count)
        buckets = (unsigned)count;
    for (unsigned i = 0; i < buckets && okv_store_step_goes_on(work, pages); i++)
        sweep_bucket(store, work, atomic_fetch_add(&store->swept, 1) % count);
    okv_store_shrink(store, work, buckets);
}
