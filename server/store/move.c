/*
 * Extents are immutable, and one bucket refers to each. So a move is an ordinary change of that
 * bucket, whose version rises, as readers of parts of a value rely on; no item gets a new version.
 */
#include "server/store/move.h"

#include <string.h>

#include "server/store/bucket_image.h"

/* Longer extents are not moved, nor is the source of an append that is under way. */
#define MOVE_MAX (UINT64_C(1) << 20)

/* Copies an item's extent to a better position, if the allocator has one. Returns the bytes. */
static uint64_t move_extent(struct okv_store *store, struct okv_store_bucket *bucket,
                            struct okv_store_item *item, bool downwards)
{
    uint64_t length = okv_entry_extent_length(&item->entry);
    uint64_t from = item->entry.extent;
    bool sparse = okv_heap_is_sparse(&store->heap, from);

    if ((!sparse && !downwards) || length > MOVE_MAX || okv_heap_is_pinned(&store->heap, from))
        return 0;
    uint64_t to = okv_heap_alloc(&store->heap, length);
    if (!to)
        return 0;
    if (!sparse && !okv_heap_is_before(to, from)) {
        okv_heap_free(&store->heap, to);
        return 0;
    }
    memcpy(store->table.base + to, store->table.base + from, length);
    okv_store_bucket_drop_extent(bucket, item);
    item->entry.extent = to;
    item->fresh_extent = true;
    return length;
}

unsigned okv_store_move_extents(struct okv_store *store, struct okv_store_bucket *bucket,
                                bool downwards, uint64_t *bytes)
{
    unsigned moved = 0;

    for (unsigned i = 0; i < bucket->item_count; i++) {
        uint64_t length = bucket->items[i].entry.extent
                              ? move_extent(store, bucket, &bucket->items[i], downwards)
                              : 0;
        *bytes += length;
        moved += length > 0;
    }
    if (moved)
        bucket->only_shrinks = false;
    return moved;
}
