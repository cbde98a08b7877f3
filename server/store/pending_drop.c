/*
 * Drops a batch. What its images had allocated is freed, since no published image leads there:
 *
 *   made      what staged images refer to, and what changes of the batch have freed: that was
 *             published, or made and replaced within the batch
 *   kept      what the published images of the same buckets refer to
 *
 * and what was made and is not kept goes back to the heap.
 */
#include <stdlib.h>

#include "server/store/bucket_image.h"
#include "server/store/bucket_transaction.h"
#include "server/store/pending.h"
#include "shared/base/error.h"

struct offsets {
    uint64_t *all;
    size_t count, capacity;
};

struct drop {
    struct okv_store *store;
    struct okv_store_bucket bucket;
    struct offsets made, kept;
    int rc; /* OKV_ENOMEM, OKV_ECORRUPT: not all are known, and nothing is freed */
};

static void add(struct drop *drop, struct offsets *offsets, uint64_t offset)
{
    if (offsets->count == offsets->capacity) {
        size_t capacity = offsets->capacity ? 2 * offsets->capacity : 256;
        uint64_t *larger = realloc(offsets->all, capacity * sizeof *larger);
        if (!larger) {
            drop->rc = OKV_ENOMEM;
            return;
        }
        offsets->all = larger;
        offsets->capacity = capacity;
    }
    offsets->all[offsets->count++] = offset;
}

/* Of the images that were loaded. The primary page is of the index. */
static void add_bucket(struct drop *drop, struct offsets *offsets)
{
    const struct okv_store_bucket *bucket = &drop->bucket;

    for (unsigned page = 1; page < bucket->published_pages; page++)
        add(drop, offsets, bucket->published_offset[page]);
    for (unsigned i = 0; i < bucket->item_count; i++)
        if (bucket->items[i].entry.is_reference)
            add(drop, offsets, bucket->items[i].entry.extent);
}

/* The totals count what is published, from here on. */
static void drop_bucket(void *user, uint64_t number)
{
    struct drop *drop = user;
    const struct okv_table *table = &drop->store->table;
    int rc = okv_store_bucket_load(&drop->bucket, table, number);

    if (rc == 0) {
        const struct okv_store_tally staged = drop->bucket.published;
        add_bucket(drop, &drop->made);
        rc = okv_store_bucket_load_published(&drop->bucket, table, number);
        add_bucket(drop, &drop->kept);
        okv_store_count_difference(drop->store, &staged, &drop->bucket.published);
    }
    if (rc)
        drop->rc = rc;
}

static int compare(const void *first, const void *second)
{
    const uint64_t *a = first, *b = second;

    return *a < *b ? -1 : *a > *b;
}

static void free_made(struct drop *drop)
{
    struct offsets *made = &drop->made, *kept = &drop->kept;

    if (kept->count)
        qsort(kept->all, kept->count, sizeof *kept->all, compare);
    for (size_t i = 0; i < made->count; i++)
        if (!kept->count ||
            !bsearch(&made->all[i], kept->all, kept->count, sizeof *kept->all, compare))
            okv_heap_free(&drop->store->heap, made->all[i]);
}

void okv_store_pending_drop(struct okv_store *store)
{
    const struct okv_store_pending *pending = store->table.pending;
    struct drop drop = {.store = store};

    drop.rc = okv_store_bucket_init(&drop.bucket, store->table.bucket_size);
    if (drop.rc == 0) {
        okv_store_pending_each(store, drop_bucket, &drop);
        for (size_t i = 0; i < pending->freed_count; i++)
            add(&drop, &drop.made, pending->freed[i]);
        okv_store_bucket_fini(&drop.bucket);
    }
    okv_store_pending_discard(store);
    if (drop.rc == 0)
        free_made(&drop);
    free(drop.made.all);
    free(drop.kept.all);
}
