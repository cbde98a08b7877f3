#include "server/store/iterate.h"

#include "server/store/locking.h"

static int iterate_page(const struct okv_store *store, const uint8_t *image, uint64_t clock_ms,
                        okv_store_iterate_visit *visit, void *user)
{
    uint32_t position = 0;
    struct okv_entry entry;
    int rc;

    while ((rc = okv_bucket_next(image, &position, &entry)) == 1) {
        const uint8_t *extent = store->table.base + entry.extent;
        if (okv_entry_is_expired(&entry, clock_ms))
            continue;
        visit(user, entry.key_in_extent ? extent : entry.key, entry.key_length);
    }
    return rc;
}

int okv_store_iterate(struct okv_store *store, uint64_t *position, okv_store_iterate_visit *visit,
                      void *user)
{
    const struct okv_table *table = &store->table;
    uint64_t number = okv_store_lock_hash(store, okv_bits_reversed(*position));
    uint64_t clock_ms = atomic_load(&store->clock_ms);
    unsigned depth = okv_linear_depth(number, atomic_load(&store->bucket_count));
    uint64_t offset = okv_table_bucket_offset(table, number);
    int rc = 0;

    while (offset && rc == 0) {
        const uint8_t *image = table->base + offset;
        rc = iterate_page(store, image, clock_ms, visit, user);
        offset = okv_bucket_chain(image);
    }
    okv_store_unlock(store, number);
    /* At least OKV_STORE_BUCKETS_MIN buckets: the depth is not 0. */
    uint64_t neighbours = UINT64_C(1) << (64 - depth);
    *position = (*position | (neighbours - 1)) + 1;
    return rc;
}
