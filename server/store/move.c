/*
 * Extents are immutable, and one bucket refers to each. So a move is an ordinary change of that
 * bucket, whose version rises, as readers of parts of a value rely on; no item gets a new version.
 */
#include "server/store/move.h"

#include <string.h>

#include "server/store/bucket_image.h"
#include "server/store/heap_range.h"
#include "shared/format/hash.h"

/* Longer extents are not moved, nor is the source of an append that is under way. */
#define MOVE_MAX (UINT64_C(1) << 20)

static bool is_movable(struct okv_store *store, const struct okv_store_item *item)
{
    return okv_entry_extent_length(&item->entry) <= MOVE_MAX &&
           !okv_heap_is_pinned(&store->heap, item->entry.extent);
}

static void move_to(struct okv_store *store, struct okv_store_bucket *bucket,
                    struct okv_store_item *item, uint64_t to)
{
    const struct okv_table *table = &store->table;
    uint64_t length = okv_entry_extent_length(&item->entry);

    memcpy(table->base + to, table->base + item->entry.extent, length);
    uint64_t hash = okv_hash_key(item->entry.key, item->entry.key_length, table->hash_seed);
    okv_heap_set_owner(&store->heap, to, length, (uint32_t)hash);
    okv_store_bucket_drop_extent(bucket, item);
    item->entry.extent = to;
    item->fresh_extent = true;
    bucket->only_shrinks = false;
}

uint64_t okv_store_move_extent(struct okv_store *store, struct okv_store_bucket *bucket,
                               struct okv_store_item *item)
{
    uint64_t length = okv_entry_extent_length(&item->entry);
    uint64_t to = is_movable(store, item) ? okv_heap_alloc(&store->heap, length) : 0;

    if (!to)
        return 0;
    move_to(store, bucket, item, to);
    return length;
}

/* To a better position, if the allocator has one. Returns the bytes. */
static uint64_t move_to_better(struct okv_store *store, struct okv_store_bucket *bucket,
                               struct okv_store_item *item, bool downwards)
{
    uint64_t length = okv_entry_extent_length(&item->entry);
    uint64_t from = item->entry.extent;
    bool sparse = okv_heap_is_sparse(&store->heap, from);

    if ((!sparse && !downwards) || !is_movable(store, item))
        return 0;
    uint64_t to = okv_heap_alloc(&store->heap, length);
    if (!to)
        return 0;
    if (!sparse && !okv_heap_is_before(to, from)) {
        okv_heap_free_unwritten(&store->heap, to);
        return 0;
    }
    move_to(store, bucket, item, to);
    return length;
}

unsigned okv_store_move_extents(struct okv_store *store, struct okv_store_bucket *bucket,
                                bool downwards, uint64_t *bytes)
{
    unsigned moved = 0;

    for (unsigned i = 0; i < bucket->item_count; i++) {
        uint64_t length = bucket->items[i].entry.extent
                              ? move_to_better(store, bucket, &bucket->items[i], downwards)
                              : 0;
        *bytes += length;
        moved += length > 0;
    }
    return moved;
}
