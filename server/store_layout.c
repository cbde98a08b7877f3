#include "server/store_layout.h"

#include <string.h>

#include "shared/error.h"

#define REFERENCE_SIZE \
    ((uint32_t)(sizeof(struct okv_wire_entry) + sizeof(struct okv_wire_reference)))

/* Moving it to an extent would make its entry smaller. */
static bool may_spill(const struct okv_store_item *item)
{
    return item->inline_size > REFERENCE_SIZE;
}

static bool may_be_inline(const struct okv_store_item *item, const struct okv_table *table)
{
    return !may_spill(item) || item->inline_size <= table->inline_max;
}

static uint32_t size_of(const struct okv_store_item *item)
{
    return item->entry.is_reference ? REFERENCE_SIZE : item->inline_size;
}

static struct okv_store_item *largest_inline(struct okv_store_bucket *bucket)
{
    struct okv_store_item *largest = NULL;

    for (unsigned i = 0; i < bucket->item_count; i++) {
        struct okv_store_item *item = &bucket->items[i];
        if (!item->entry.is_reference && may_spill(item) &&
            (!largest || item->inline_size > largest->inline_size))
            largest = item;
    }
    return largest;
}

/* Items that have an extent start as references, so that none is given up only
 * to be written again. */
static void spill(struct okv_store_bucket *bucket, const struct okv_table *table)
{
    uint32_t room = okv_bucket_room(table->bucket_size);
    uint64_t total = 0;

    for (unsigned i = 0; i < bucket->item_count; i++) {
        struct okv_store_item *item = &bucket->items[i];
        item->entry.is_reference = item->entry.extent != 0 || !may_be_inline(item, table);
        total += size_of(item);
    }
    while (total > room) {
        struct okv_store_item *item = largest_inline(bucket);
        if (!item)
            break;
        item->entry.is_reference = true;
        total -= item->inline_size - REFERENCE_SIZE;
    }
}

static int deal(struct okv_store_bucket *bucket, uint32_t room)
{
    bucket->parts = 1;
    memset(bucket->used, 0, sizeof bucket->used);
    for (unsigned i = 0; i < bucket->item_count; i++) {
        struct okv_store_item *item = &bucket->items[i];
        uint32_t size = size_of(item);
        unsigned part = 0;
        while (part < OKV_BUCKET_PARTS_MAX && bucket->used[part] + size > room)
            part++;
        if (part == OKV_BUCKET_PARTS_MAX)
            return OKV_EFULL;
        item->part = (uint8_t)part;
        bucket->used[part] += size;
        if (part >= bucket->parts)
            bucket->parts = part + 1;
    }
    return 0;
}

static struct okv_store_item *smallest_that_fits(struct okv_store_bucket *bucket,
                                                 const struct okv_table *table)
{
    uint32_t room = okv_bucket_room(table->bucket_size);
    struct okv_store_item *smallest = NULL;

    for (unsigned i = 0; i < bucket->item_count; i++) {
        struct okv_store_item *item = &bucket->items[i];
        if (item->entry.is_reference && may_be_inline(item, table) &&
            (!smallest || item->inline_size < smallest->inline_size) &&
            bucket->used[item->part] + item->inline_size - REFERENCE_SIZE <= room)
            smallest = item;
    }
    return smallest;
}

static void pull_back(struct okv_store_bucket *bucket, const struct okv_table *table)
{
    struct okv_store_item *item;

    while ((item = smallest_that_fits(bucket, table))) {
        item->entry.is_reference = false;
        bucket->used[item->part] += item->inline_size - REFERENCE_SIZE;
    }
}

int okv_store_layout_plan(struct okv_store_bucket *bucket, const struct okv_table *table)
{
    spill(bucket, table);
    int rc = deal(bucket, okv_bucket_room(table->bucket_size));
    if (rc)
        return rc;
    pull_back(bucket, table);
    return 0;
}

void okv_store_layout_keep(struct okv_store_bucket *bucket)
{
    bucket->parts = 1;
    memset(bucket->used, 0, sizeof bucket->used);
    for (unsigned i = 0; i < bucket->item_count; i++) {
        struct okv_store_item *item = &bucket->items[i];
        item->entry.is_reference = item->entry.extent != 0;
        item->part = item->published_part;
        bucket->used[item->part] += size_of(item);
        if (item->part >= bucket->parts)
            bucket->parts = item->part + 1u;
    }
}
