/*
 * The rules of publishing, which readers rely on (docs/consistency.md section 3):
 *
 *   - A bucket has a version, that of its part 0. Each change raises it by one;
 *     it never goes down, so a key never gets the same version twice.
 *   - Every part carries the version of its bucket. A reader accepts a set of
 *     parts only when all of them carry the one of part 0.
 *   - An image is built and sealed in private memory, then copied over the old one.
 *   - New extents are written first, then the overflow parts, part 0 last.
 *   - Extents never change. They and the parts that are no longer needed are
 *     freed after part 0 was written: until then it leads readers to them.
 *   - Space is taken before anything is written to where a reader may look. When
 *     there is none, what was taken is given back and nothing was published.
 */
#include "server/store_bucket.h"

#include <stdlib.h>
#include <string.h>

#include "server/store_layout.h"
#include "shared/error.h"
#include "shared/ordering.h"

static uint64_t first_part_offset(const struct okv_table *table, uint64_t number)
{
    return table->index_offset + number * table->bucket_size;
}

int okv_store_bucket_init(struct okv_store_bucket *bucket, uint32_t bucket_size)
{
    uint32_t smallest = (uint32_t)sizeof(struct okv_wire_entry) + 1;
    unsigned capacity = OKV_BUCKET_PARTS_MAX * (okv_bucket_room(bucket_size) / smallest);

    *bucket = (struct okv_store_bucket){.item_capacity = capacity};
    bucket->items = malloc(capacity * sizeof *bucket->items);
    if (!bucket->items)
        return OKV_ENOMEM;
    bucket->images = malloc((size_t)OKV_BUCKET_PARTS_MAX * bucket_size);
    if (!bucket->images)
        goto free_items;
    return 0;
free_items:
    free(bucket->items);
    return OKV_ENOMEM;
}

void okv_store_bucket_fini(struct okv_store_bucket *bucket)
{
    free(bucket->images);
    free(bucket->items);
}

/* ---- load ---- */

static int load_item(struct okv_store_bucket *bucket, const struct okv_table *table, unsigned part,
                     const struct okv_entry *entry)
{
    if (bucket->item_count == bucket->item_capacity)
        return OKV_ECORRUPT;
    struct okv_store_item *item = &bucket->items[bucket->item_count++];
    *item = (struct okv_store_item){
        .entry = *entry,
        .inline_size =
            (uint32_t)sizeof(struct okv_wire_entry) + entry->key_length + entry->value_length,
        .published_part = (uint8_t)part,
    };
    if (entry->is_reference) {
        item->entry.key = table->base + entry->extent;
        item->entry.value = item->entry.key + entry->key_length;
        bucket->published.references++;
    }
    bucket->published.user_bytes += entry->key_length + entry->value_length;
    return 0;
}

static int load_part(struct okv_store_bucket *bucket, const struct okv_table *table, unsigned part)
{
    const uint8_t *image = table->base + bucket->published_offset[part];
    uint32_t position = 0;
    struct okv_entry entry;
    int rc;

    while ((rc = okv_bucket_next(image, &position, &entry)) == 1) {
        rc = load_item(bucket, table, part, &entry);
        if (rc)
            return rc;
    }
    return rc;
}

int okv_store_bucket_load(struct okv_store_bucket *bucket, const struct okv_table *table,
                          uint64_t number)
{
    uint64_t offset = first_part_offset(table, number);

    bucket->number = number;
    bucket->version = okv_bucket_version(table->base + offset);
    bucket->published = (struct okv_store_tally){0};
    bucket->published_parts = 0;
    bucket->item_count = 0;
    bucket->dropped_extent = 0;
    bucket->only_shrinks = false;
    while (offset) {
        unsigned part = bucket->published_parts;
        if (part == OKV_BUCKET_PARTS_MAX)
            return OKV_ECORRUPT;
        bucket->published_parts++;
        bucket->published_offset[part] = offset;
        int rc = load_part(bucket, table, part);
        if (rc)
            return rc;
        offset = okv_bucket_chain(table->base + offset);
    }
    bucket->published.items = bucket->item_count;
    bucket->published.overflow_parts = bucket->published_parts - 1;
    return 0;
}

/* ---- change ---- */

struct okv_store_item *okv_store_bucket_find(struct okv_store_bucket *bucket, uint16_t tag,
                                             const void *key, uint32_t key_length)
{
    for (unsigned i = 0; i < bucket->item_count; i++) {
        struct okv_store_item *item = &bucket->items[i];
        if (item->entry.tag == tag && item->entry.key_length == key_length &&
            memcmp(item->entry.key, key, key_length) == 0)
            return item;
    }
    return NULL;
}

int okv_store_bucket_put(struct okv_store_bucket *bucket, struct okv_store_item *item,
                         const struct okv_entry *entry)
{
    if (item) {
        bucket->dropped_extent = item->entry.extent;
    } else {
        if (bucket->item_count == bucket->item_capacity)
            return OKV_EFULL;
        item = &bucket->items[bucket->item_count++];
    }
    *item = (struct okv_store_item){
        .entry = *entry,
        .inline_size =
            (uint32_t)sizeof(struct okv_wire_entry) + entry->key_length + entry->value_length,
    };
    item->entry.is_reference = false;
    item->entry.extent = 0;
    item->entry.version = okv_store_bucket_next_version(bucket);
    return 0;
}

void okv_store_bucket_remove(struct okv_store_bucket *bucket, struct okv_store_item *item)
{
    bucket->dropped_extent = item->entry.extent;
    bucket->only_shrinks = true;
    *item = bucket->items[--bucket->item_count];
}

/* ---- commit ---- */

static void give_back_space(struct okv_store_bucket *bucket, const struct okv_table *table)
{
    for (unsigned i = 0; i < bucket->item_count; i++) {
        struct okv_store_item *item = &bucket->items[i];
        if (item->fresh_extent) {
            okv_heap_free(table->heap, item->entry.extent);
            item->entry.extent = 0;
            item->fresh_extent = false;
        }
    }
    for (unsigned part = bucket->published_parts; part < bucket->parts; part++)
        if (bucket->offset[part])
            okv_heap_free(table->heap, bucket->offset[part]);
}

static int write_extent(const struct okv_table *table, struct okv_store_item *item)
{
    struct okv_entry *entry = &item->entry;
    uint32_t length = entry->key_length + entry->value_length;
    uint64_t offset = okv_heap_alloc(table->heap, length);

    if (!offset)
        return OKV_EFULL;
    uint8_t *extent = table->base + offset;
    memcpy(extent, entry->key, entry->key_length);
    if (entry->value_length)
        memcpy(extent + entry->key_length, entry->value, entry->value_length);
    entry->extent = offset;
    entry->checksum = okv_extent_checksum(extent, length, table->boot_id);
    item->fresh_extent = true;
    return 0;
}

/* Takes what the layout needs beyond what is published; all or nothing. */
static int take_space(struct okv_store_bucket *bucket, const struct okv_table *table)
{
    for (unsigned part = 0; part < bucket->parts; part++)
        bucket->offset[part] = part < bucket->published_parts ? bucket->published_offset[part] : 0;
    for (unsigned part = bucket->published_parts; part < bucket->parts; part++) {
        bucket->offset[part] = okv_heap_alloc(table->heap, table->bucket_size);
        if (!bucket->offset[part])
            goto give_back;
    }
    for (unsigned i = 0; i < bucket->item_count; i++) {
        struct okv_store_item *item = &bucket->items[i];
        if (item->entry.is_reference && !item->entry.extent && write_extent(table, item))
            goto give_back;
    }
    return 0;
give_back:
    give_back_space(bucket, table);
    return OKV_EFULL;
}

static uint8_t *private_image(const struct okv_store_bucket *bucket, const struct okv_table *table,
                              unsigned part)
{
    return bucket->images + (size_t)part * table->bucket_size;
}

/* OKV_ECORRUPT when the layout promised more than an image holds. */
static int build_images(struct okv_store_bucket *bucket, const struct okv_table *table)
{
    uint64_t version = okv_store_bucket_next_version(bucket);
    struct okv_store_tally tally = {
        .items = bucket->item_count,
        .overflow_parts = bucket->parts - 1,
    };

    for (unsigned part = 0; part < bucket->parts; part++) {
        uint64_t chain = part + 1 < bucket->parts ? bucket->offset[part + 1] : 0;
        okv_bucket_begin(private_image(bucket, table, part), table->depth, version, chain, part);
    }
    for (unsigned i = 0; i < bucket->item_count; i++) {
        const struct okv_store_item *item = &bucket->items[i];
        uint8_t *image = private_image(bucket, table, item->part);
        if (okv_bucket_append(image, table->bucket_size, &item->entry))
            return OKV_ECORRUPT;
        tally.references += item->entry.is_reference;
        tally.user_bytes += item->entry.key_length + item->entry.value_length;
    }
    for (unsigned part = 0; part < bucket->parts; part++)
        okv_bucket_seal(private_image(bucket, table, part), table->bucket_size, table->boot_id,
                        bucket->number);
    bucket->changed = tally;
    return 0;
}

static void publish(const struct okv_store_bucket *bucket, const struct okv_table *table)
{
    okv_publish_fence(); /* extents before what refers to them */
    for (unsigned part = bucket->parts; part-- > 0;) {
        if (part == 0)
            okv_publish_fence(); /* every other part before part 0 */
        memcpy(table->base + bucket->offset[part], private_image(bucket, table, part),
               table->bucket_size);
    }
    okv_publish_fence(); /* part 0 before what was freed is written again */
}

static void free_dropped(struct okv_store_bucket *bucket, const struct okv_table *table)
{
    if (bucket->dropped_extent)
        okv_heap_free(table->heap, bucket->dropped_extent);
    for (unsigned i = 0; i < bucket->item_count; i++) {
        struct okv_entry *entry = &bucket->items[i].entry;
        if (entry->extent && !entry->is_reference)
            okv_heap_free(table->heap, entry->extent);
    }
    for (unsigned part = bucket->parts; part < bucket->published_parts; part++)
        okv_heap_free(table->heap, bucket->published_offset[part]);
}

int okv_store_bucket_commit(struct okv_store_bucket *bucket, const struct okv_table *table)
{
    int rc = okv_store_layout_plan(bucket, table);

    if (!rc)
        rc = take_space(bucket, table);
    if (rc && bucket->only_shrinks) {
        okv_store_layout_keep(bucket);
        rc = take_space(bucket, table);
    }
    if (rc)
        return rc;
    rc = build_images(bucket, table);
    if (rc) {
        give_back_space(bucket, table);
        return rc;
    }
    publish(bucket, table);
    free_dropped(bucket, table);
    return 0;
}

void okv_store_bucket_create_empty(const struct okv_table *table, uint64_t number)
{
    uint8_t *image = table->base + first_part_offset(table, number);

    okv_bucket_begin(image, table->depth, 0, 0, 0);
    okv_bucket_seal(image, table->bucket_size, table->boot_id, number);
}
