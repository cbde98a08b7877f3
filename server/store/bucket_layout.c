#include "server/store/bucket_layout.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/error.h"

/* Keys longer than this fraction of a bucket's room go to the extent. */
#define KEY_IN_ENTRY_SHARE 8

static uint32_t size_as(const struct okv_entry *entry, bool reference, uint64_t version)
{
    struct okv_entry other = *entry;

    other.is_reference = reference;
    return okv_entry_size(&other, version);
}

static uint32_t reference_size(const struct okv_store_bucket *bucket,
                               const struct okv_store_item *item)
{
    return size_as(&item->entry, true, bucket->next_version);
}

static uint32_t size_of(const struct okv_store_bucket *bucket, const struct okv_store_item *item)
{
    return item->entry.is_reference ? reference_size(bucket, item) : item->inline_size;
}

bool okv_store_layout_is_small(const struct okv_table *table, const struct okv_entry *entry,
                               uint64_t image_version)
{
    uint64_t bytes = (uint64_t)entry->key_length + entry->value_length;

    return bytes <= table->inline_max && size_as(entry, false, image_version) <= table->inline_max;
}

/* Items that have an extent start as references, so that none is freed only to be written again.
 * Returns the bytes of all entries. */
static uint64_t choose_kinds(struct okv_store_bucket *bucket, const struct okv_table *table)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < bucket->item_count; i++) {
        struct okv_store_item *item = &bucket->items[i];
        struct okv_entry *entry = &item->entry;
        bool small = okv_store_layout_is_small(table, entry, bucket->next_version);
        item->inline_size = small ? size_as(entry, false, bucket->next_version) : UINT32_MAX;
        entry->is_reference = entry->extent != 0 || !small;
        if (!entry->extent)
            entry->key_in_extent =
                okv_store_key_goes_to_extent(table, entry->key_length, entry->value_length);
        total += size_of(bucket, item);
    }
    return total;
}

static int larger_first(const void *a, const void *b)
{
    uint32_t left = (*(struct okv_store_item *const *)a)->inline_size;
    uint32_t right = (*(struct okv_store_item *const *)b)->inline_size;

    return (left < right) - (left > right);
}

static int smaller_first(const void *a, const void *b)
{
    return larger_first(b, a);
}

/* Lists the items that are references, or those that are not, in `order`. */
static unsigned list_items(struct okv_store_bucket *bucket, bool references,
                           int (*compare)(const void *, const void *))
{
    unsigned count = 0;

    for (unsigned i = 0; i < bucket->item_count; i++)
        if (bucket->items[i].entry.is_reference == references)
            bucket->order[count++] = &bucket->items[i];
    qsort(bucket->order, count, sizeof(struct okv_store_item *), compare);
    return count;
}

static void spill(struct okv_store_bucket *bucket, uint64_t total, uint32_t room)
{
    unsigned count = list_items(bucket, false, larger_first);

    for (unsigned i = 0; i < count && total > room; i++) {
        struct okv_store_item *item = bucket->order[i];
        uint32_t size = reference_size(bucket, item);
        if (size >= item->inline_size)
            continue;
        item->entry.is_reference = true;
        total -= item->inline_size - size;
    }
}

static int distribute(struct okv_store_bucket *bucket, uint32_t room)
{
    bucket->pages = 1;
    memset(bucket->used, 0, sizeof bucket->used);
    for (unsigned i = 0; i < bucket->item_count; i++) {
        struct okv_store_item *item = &bucket->items[i];
        uint32_t size = size_of(bucket, item);
        unsigned page = 0;
        while (page < OKV_BUCKET_PAGES_MAX && bucket->used[page] + size > room)
            page++;
        if (page == OKV_BUCKET_PAGES_MAX)
            return OKV_EBUCKETFULL;
        item->page = (uint8_t)page;
        bucket->used[page] += size;
        if (page >= bucket->pages)
            bucket->pages = page + 1;
    }
    return 0;
}

/* Bytes of a reference to the item when it is as old as can be. No entry of a bucket with several
 * pages is longer, now or later. */
static uint32_t size_at_most(const struct okv_store_item *item)
{
    struct okv_entry oldest = item->entry;

    oldest.version = 0;
    return size_as(&oldest, true, OKV_LE48_MAX);
}

/* An entry takes at most a third of a page's room, so distribute() begins a page only when all
 * before it are full by two thirds, in whatever order the items come. */
static bool is_overfull(const struct okv_store_bucket *bucket, uint32_t room)
{
    uint64_t most = 0;

    for (unsigned i = 0; i < bucket->item_count; i++)
        most += size_at_most(&bucket->items[i]);
    return most > (uint64_t)OKV_BUCKET_PAGES_MAX * (room - room / 3);
}

static void return_inline(struct okv_store_bucket *bucket, uint32_t room)
{
    unsigned count = list_items(bucket, true, smaller_first);

    for (unsigned i = 0; i < count; i++) {
        struct okv_store_item *item = bucket->order[i];
        if (item->inline_size == UINT32_MAX)
            return;
        uint32_t size = reference_size(bucket, item);
        if (bucket->used[item->page] - size + item->inline_size > room)
            continue;
        item->entry.is_reference = false;
        bucket->used[item->page] += item->inline_size - size;
    }
}

int okv_store_layout_plan(struct okv_store_bucket *bucket, const struct okv_table *table)
{
    uint32_t room = okv_bucket_room(table->bucket_size);
    uint64_t total = choose_kinds(bucket, table);

    if (total > room)
        spill(bucket, total, room);
    int rc = distribute(bucket, room);
    if (rc)
        return rc;
    if (bucket->pages > 1 && is_overfull(bucket, room))
        return OKV_EBUCKETFULL;
    return_inline(bucket, room);
    return 0;
}

void okv_store_layout_keep(struct okv_store_bucket *bucket)
{
    bucket->next_version = bucket->version;
    bucket->pages = bucket->published_pages;
    memset(bucket->used, 0, sizeof bucket->used);
    for (unsigned i = 0; i < bucket->item_count; i++) {
        struct okv_store_item *item = &bucket->items[i];
        item->entry.is_reference = item->entry.extent != 0;
        item->inline_size = size_as(&item->entry, false, bucket->next_version);
        item->page = item->published_page;
        bucket->used[item->page] += size_of(bucket, item);
    }
}

bool okv_store_key_goes_to_extent(const struct okv_table *table, uint32_t key_length,
                                  uint32_t value_length)
{
    if (value_length == 0 || key_length > okv_bucket_room(table->bucket_size) / KEY_IN_ENTRY_SHARE)
        return true;
    /* Index bytes cost more than heap bytes, because buckets are never full. */
    return okv_heap_size(value_length) + 2 * (uint64_t)key_length >=
           okv_heap_size((uint64_t)key_length + value_length);
}
