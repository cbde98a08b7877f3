/*
 * Readers rely on these rules of publishing (docs/consistency.md section 4):
 *
 *   - The version of a bucket is the version of its primary page. Every change that writes or moves
 *     an item increments it, so a key never gets the same version twice. A split or merge gives
 *     the buckets that it writes a version above those of the buckets that it read.
 *   - Every page carries the version of its bucket. A reader accepts a set of pages only if all
 *     versions are equal.
 *   - An image is built and sealed in private memory, then copied over the old one.
 *   - publish.c writes extents, overflow pages and the primary page in this order.
 *   - Extents never change. Unused extents and pages are freed after the primary page was written:
 *     until then it leads readers to them. So a reader of a part who finds one reference and one
 *     version of the bucket before and after has read bytes of that extent alone.
 *   - All space is allocated before anything is published. Without space, what was allocated is
 *     freed and the bucket stays as it was.
 */
#include "server/store/bucket_image.h"

#include <stdlib.h>
#include <string.h>

#include "server/store/ages.h"
#include "server/store/bucket_layout.h"
#include "server/store/heap_range.h"
#include "server/store/heat.h"
#include "server/store/pending.h"
#include "server/store/publish.h"
#include "shared/base/error.h"
#include "shared/format/bucket_edit.h"
#include "shared/format/hash.h"

int okv_store_bucket_init(struct okv_store_bucket *bucket, uint32_t bucket_size)
{
    unsigned capacity = OKV_BUCKET_PAGES_MAX * (okv_bucket_room(bucket_size) / OKV_ENTRY_SIZE_MIN);

    *bucket = (struct okv_store_bucket){.item_capacity = capacity};
    bucket->items = malloc(capacity * sizeof *bucket->items);
    bucket->order = malloc(capacity * sizeof *bucket->order);
    bucket->dropped = malloc(capacity * sizeof *bucket->dropped);
    bucket->images = malloc((size_t)OKV_BUCKET_PAGES_MAX * bucket_size);
    if (bucket->items && bucket->order && bucket->dropped && bucket->images)
        return 0;
    okv_store_bucket_fini(bucket);
    return OKV_ENOMEM;
}

void okv_store_bucket_fini(struct okv_store_bucket *bucket)
{
    free(bucket->images);
    free(bucket->dropped);
    free(bucket->order);
    free(bucket->items);
}

void okv_store_tally_item(struct okv_store_tally *tally, const struct okv_table *table,
                          const struct okv_entry *entry, unsigned page, uint64_t image_version)
{
    bool small = entry->is_reference && okv_store_layout_is_small(table, entry, image_version);

    tally->items++;
    tally->user_bytes += entry->key_length + entry->value_length;
    tally->references += entry->is_reference;
    tally->extra_reads += page > 0 || small;
    tally->expiring += entry->expiry_ms != 0;
}

/* Bytes of an item besides its key and value, about. */
#define ITEM_OVERHEAD 32u

void okv_store_tally_heat(struct okv_store_tally *tally, const struct okv_table *table,
                          const struct okv_entry *entry, uint8_t heat)
{
    uint64_t bytes = (uint64_t)entry->key_length + entry->value_length + ITEM_OVERHEAD;

    if (!table->heat || (table->evicts_expiring && !entry->expiry_ms))
        return;
    tally->heat_bytes += bytes;
    tally->new_bytes += okv_heat_is_new(heat) ? bytes : 0;
}

/* ---- load ---- */

void okv_store_entry_complete(struct okv_entry *entry, const struct okv_table *table)
{
    if (!entry->is_reference)
        return;
    entry->value = table->base + entry->extent;
    if (entry->key_in_extent) {
        entry->key = entry->value;
        entry->value += entry->key_length;
    }
}

/* The key of an entry that is complete may be in an extent, which has not to be read. */
static uint16_t tag_of(const struct okv_table *table, const struct okv_entry *entry)
{
    if (entry->is_reference && entry->key_in_extent)
        return entry->tag;
    return okv_hash_tag(okv_hash_key(entry->key, entry->key_length, table->hash_seed));
}

static int load_item(struct okv_store_bucket *bucket, const struct okv_table *table, unsigned page,
                     const struct okv_entry *entry)
{
    if (bucket->item_count == bucket->item_capacity)
        return OKV_ECORRUPT;
    struct okv_store_item *item = &bucket->items[bucket->item_count++];
    *item = (struct okv_store_item){.entry = *entry, .published_page = (uint8_t)page};
    okv_store_entry_complete(&item->entry, table);
    okv_store_tally_item(&bucket->published, table, entry, page, bucket->version);
    if (table->heat) {
        item->tag = tag_of(table, &item->entry);
        item->heat = okv_heat_of(table->heat, bucket->number, item->tag);
        okv_store_tally_heat(&bucket->published, table, entry, item->heat);
    }
    return 0;
}

static int load_page(struct okv_store_bucket *bucket, const struct okv_table *table, unsigned page,
                     const uint8_t *image)
{
    uint32_t position = 0;
    struct okv_entry entry;
    int rc;

    bucket->published.entry_bytes += okv_bucket_used(image);
    while ((rc = okv_bucket_next(image, &position, &entry)) == 1) {
        rc = load_item(bucket, table, page, &entry);
        if (rc)
            return rc;
    }
    return rc;
}

void okv_store_bucket_begin(struct okv_store_bucket *bucket, const struct okv_table *table,
                            uint64_t number, unsigned depth, uint64_t version)
{
    bucket->number = number;
    bucket->depth = depth;
    bucket->version = version;
    bucket->next_version = version + 1;
    bucket->published = (struct okv_store_tally){0};
    bucket->published_pages = 1;
    bucket->published_offset[0] = okv_table_bucket_offset(table, number);
    bucket->item_count = 0;
    bucket->dropped_count = 0;
    bucket->expired = 0;
    bucket->evicted = (struct okv_store_evicted){0};
    bucket->gone = 0;
    bucket->only_shrinks = false;
    if (table->heat)
        okv_heat_begin(table->heat, bucket->heat, number);
}

typedef const uint8_t *image_function(const struct okv_table *table, uint64_t number, unsigned page,
                                      uint64_t offset);

static const uint8_t *published_image(const struct okv_table *table, uint64_t number, unsigned page,
                                      uint64_t offset)
{
    (void)number;
    (void)page;
    return table->base + offset;
}

static int load(struct okv_store_bucket *bucket, const struct okv_table *table, uint64_t number,
                image_function *image_of)
{
    uint64_t offset = okv_table_bucket_offset(table, number);
    const uint8_t *first = image_of(table, number, 0, offset);

    okv_store_bucket_begin(bucket, table, number, okv_bucket_depth(first),
                           okv_bucket_version(first));
    for (unsigned page = 0; offset; page++) {
        if (page == OKV_BUCKET_PAGES_MAX)
            return OKV_ECORRUPT;
        bucket->published_pages = page + 1;
        bucket->published_offset[page] = offset;
        const uint8_t *image = image_of(table, number, page, offset);
        int rc = load_page(bucket, table, page, image);
        if (rc)
            return rc;
        offset = okv_bucket_chain(image);
    }
    bucket->published.overflow_pages = bucket->published_pages - 1;
    return 0;
}

int okv_store_bucket_load(struct okv_store_bucket *bucket, const struct okv_table *table,
                          uint64_t number)
{
    return load(bucket, table, number, okv_store_current_image);
}

int okv_store_bucket_load_published(struct okv_store_bucket *bucket, const struct okv_table *table,
                                    uint64_t number)
{
    return load(bucket, table, number, published_image);
}

/* ---- change ---- */

struct okv_store_item *okv_store_bucket_find(struct okv_store_bucket *bucket, const void *key,
                                             uint32_t key_length)
{
    for (unsigned i = 0; i < bucket->item_count; i++) {
        struct okv_store_item *item = &bucket->items[i];
        if (item->entry.key_length == key_length && memcmp(item->entry.key, key, key_length) == 0)
            return item;
    }
    return NULL;
}

void okv_store_bucket_drop_extent(struct okv_store_bucket *bucket,
                                  const struct okv_store_item *item)
{
    if (item->entry.extent)
        bucket->dropped[bucket->dropped_count++] = item->entry.extent;
}

/* An item that is replaced was used. */
static uint8_t next_heat(const struct okv_store_bucket *bucket, const struct okv_table *table,
                         const struct okv_store_item *item, uint16_t tag)
{
    return item ? okv_heat_hotter(item->heat) : okv_heat_of_new(table->heat, bucket->number, tag);
}

int okv_store_bucket_put(struct okv_store_bucket *bucket, const struct okv_table *table,
                         struct okv_store_item *item, const struct okv_entry *entry)
{
    bool keeps_extent = item && item->entry.extent && item->entry.extent == entry->extent;
    struct okv_store_item next = {.entry = *entry};

    next.entry.version = bucket->next_version;
    if (table->heat) {
        uint64_t hash = okv_hash_key(entry->key, entry->key_length, table->hash_seed);
        okv_ages_note_put(table->ages, hash);
        next.tag = okv_hash_tag(hash);
        next.heat = next_heat(bucket, table, item, next.tag);
        bucket->evicted.came_back += !item && !okv_heat_is_new(next.heat);
    }

    if (!item) {
        if (bucket->item_count == bucket->item_capacity)
            return OKV_EBUCKETFULL;
        item = &bucket->items[bucket->item_count++];
    } else if (!keeps_extent) {
        okv_store_bucket_drop_extent(bucket, item);
    }
    *item = next;
    bucket->only_shrinks = false;
    return 0;
}

void okv_store_bucket_remove(struct okv_store_bucket *bucket, struct okv_store_item *item)
{
    const struct okv_store_item removed = *item;

    okv_store_bucket_drop_extent(bucket, item);
    bucket->only_shrinks = true;
    *item = bucket->items[--bucket->item_count];
    bucket->items[bucket->item_count] = removed;
}

void okv_store_bucket_remove_logged(struct okv_store_bucket *bucket, struct okv_store_item *item)
{
    okv_store_bucket_remove(bucket, item);
    bucket->gone++;
}

void okv_store_bucket_gone(const struct okv_store_bucket *bucket, enum okv_store_log_kind kind,
                           struct okv_store_record *records)
{
    for (unsigned i = 0; i < bucket->gone; i++) {
        const struct okv_entry *entry = &bucket->items[bucket->item_count + i].entry;
        records[i] = (struct okv_store_record){.kind = kind,
                                               .key = entry->key,
                                               .key_length = entry->key_length,
                                               .version = bucket->next_version};
    }
}

void okv_store_bucket_expire(struct okv_store_bucket *bucket, uint64_t clock_ms)
{
    unsigned before = bucket->item_count;

    if (bucket->published.expiring == 0)
        return;
    for (unsigned i = bucket->item_count; i-- > 0;)
        if (okv_entry_is_expired(&bucket->items[i].entry, clock_ms))
            okv_store_bucket_remove(bucket, &bucket->items[i]);
    bucket->expired = before - bucket->item_count;
}

int okv_store_bucket_move(struct okv_store_bucket *from, struct okv_store_item *item,
                          struct okv_store_bucket *to)
{
    if (to->item_count == to->item_capacity)
        return OKV_EBUCKETFULL;
    to->items[to->item_count++] = *item;
    *item = from->items[--from->item_count];
    return 0;
}

/* ---- prepare ---- */

static void release_extents(struct okv_store_bucket *bucket, const struct okv_table *table)
{
    for (unsigned i = 0; i < bucket->item_count; i++) {
        struct okv_store_item *item = &bucket->items[i];
        if (!item->fresh_extent)
            continue;
        okv_heap_free(table->heap, item->entry.extent);
        item->entry.extent = 0;
        item->fresh_extent = false;
    }
}

static void note(uint64_t *offsets, unsigned *count, uint64_t offset)
{
    if (offsets)
        offsets[*count] = offset;
    ++*count;
}

unsigned okv_store_bucket_fresh(const struct okv_store_bucket *bucket, uint64_t *offsets)
{
    unsigned count = 0;

    for (unsigned i = 0; i < bucket->item_count; i++)
        if (bucket->items[i].fresh_extent)
            note(offsets, &count, bucket->items[i].entry.extent);
    for (unsigned page = bucket->published_pages; page < bucket->pages; page++)
        note(offsets, &count, bucket->offset[page]);
    return count;
}

void okv_store_bucket_cancel(struct okv_store_bucket *bucket, const struct okv_table *table)
{
    release_extents(bucket, table);
    for (unsigned page = bucket->published_pages; page < bucket->pages; page++)
        if (bucket->offset[page])
            okv_heap_free(table->heap, bucket->offset[page]);
}

void okv_store_entry_seal_extent(struct okv_entry *entry, const struct okv_table *table)
{
    uint8_t *extent = table->base + entry->extent;
    uint64_t length = okv_entry_extent_length(entry), hash = 0;

    if (entry->key_in_extent || table->heat)
        hash = okv_hash_key(entry->key, entry->key_length, table->hash_seed);
    if (entry->key_in_extent) {
        memcpy(extent, entry->key, entry->key_length);
        entry->tag = okv_hash_tag(hash);
    }
    okv_heap_set_owner(table->heap, entry->extent, length, (uint32_t)hash);
    entry->checksum = okv_extent_checksum(extent, length, table->boot_id);
}

int okv_store_entry_write_extent(struct okv_entry *entry, const struct okv_table *table)
{
    uint64_t offset = okv_heap_alloc(table->heap, okv_entry_extent_length(entry));
    uint32_t before = entry->key_in_extent ? entry->key_length : 0;

    if (!offset)
        return OKV_EFULL;
    if (entry->value_length)
        memcpy(table->base + offset + before, entry->value, entry->value_length);
    entry->extent = offset;
    okv_store_entry_seal_extent(entry, table);
    return 0;
}

/* Allocates the pages and extents that the layout adds; all or nothing. */
static int allocate_space(struct okv_store_bucket *bucket, const struct okv_table *table)
{
    for (unsigned page = 0; page < bucket->pages; page++)
        bucket->offset[page] = page < bucket->published_pages ? bucket->published_offset[page] : 0;
    for (unsigned page = bucket->published_pages; page < bucket->pages; page++) {
        bucket->offset[page] = okv_heap_alloc(table->heap, table->bucket_size);
        if (!bucket->offset[page])
            goto cancel;
        /* As of a hash that belongs there. */
        okv_heap_set_owner(table->heap, bucket->offset[page], table->bucket_size,
                           (uint32_t)bucket->number);
    }
    for (unsigned i = 0; i < bucket->item_count; i++) {
        struct okv_store_item *item = &bucket->items[i];
        if (!item->entry.is_reference || item->entry.extent)
            continue;
        if (okv_store_entry_write_extent(&item->entry, table))
            goto cancel;
        item->fresh_extent = true;
    }
    return 0;
cancel:
    okv_store_bucket_cancel(bucket, table);
    return OKV_EFULL;
}

static uint8_t *private_image(const struct okv_store_bucket *bucket, const struct okv_table *table,
                              unsigned page)
{
    return bucket->images + (size_t)page * table->bucket_size;
}

/* Counts items as the record has them: some share a cell. */
void okv_store_bucket_record(struct okv_store_bucket *bucket, const struct okv_table *table,
                             struct okv_store_tally *tally)
{
    if (!table->heat)
        return;
    okv_heat_clear(table->heat, bucket->heat);
    for (unsigned i = 0; i < bucket->item_count; i++)
        okv_heat_add(table->heat, bucket->heat, bucket->items[i].tag, bucket->items[i].heat);
    for (unsigned i = 0; i < bucket->item_count; i++) {
        const struct okv_store_item *item = &bucket->items[i];
        okv_store_tally_heat(tally, table, &item->entry,
                             okv_heat_added(table->heat, bucket->heat, item->tag));
    }
}

/* OKV_ECORRUPT: the layout put more into an image than it holds. */
static int build_images(struct okv_store_bucket *bucket, const struct okv_table *table)
{
    uint64_t version = bucket->next_version;
    struct okv_store_tally tally = {.overflow_pages = bucket->pages - 1};

    for (unsigned page = 0; page < bucket->pages; page++) {
        uint64_t chain = page + 1 < bucket->pages ? bucket->offset[page + 1] : 0;
        okv_bucket_begin(private_image(bucket, table, page), bucket->depth, version, chain, page);
    }
    for (unsigned i = 0; i < bucket->item_count; i++) {
        struct okv_store_item *item = &bucket->items[i];
        uint8_t *image = private_image(bucket, table, item->page);
        item->entry.is_quiet = table->heat && okv_heat_is_quiet(item->heat);
        if (okv_bucket_append(image, table->bucket_size, &item->entry))
            return OKV_ECORRUPT;
        okv_store_tally_item(&tally, table, &item->entry, item->page, version);
    }
    okv_store_bucket_record(bucket, table, &tally);
    for (unsigned page = 0; page < bucket->pages; page++) {
        uint8_t *image = private_image(bucket, table, page);
        tally.entry_bytes += okv_bucket_used(image);
        okv_bucket_seal(image, table->bucket_size, table->boot_id, bucket->number);
    }
    bucket->changed = tally;
    return 0;
}

int okv_store_bucket_prepare(struct okv_store_bucket *bucket, const struct okv_table *table)
{
    int rc = okv_store_layout_plan(bucket, table);

    if (!rc)
        rc = allocate_space(bucket, table);
    if (rc && bucket->only_shrinks) {
        okv_store_layout_keep(bucket);
        rc = allocate_space(bucket, table);
    }
    if (rc) {
        release_extents(bucket, table); /* from before the plan: compact.c makes such */
        return rc;
    }
    rc = build_images(bucket, table);
    if (!rc)
        rc = okv_store_pending_reserve(table, bucket->number, bucket->pages);
    if (rc)
        okv_store_bucket_cancel(bucket, table);
    return rc;
}

/* ---- commit ---- */

void okv_store_bucket_publish(const struct okv_store_bucket *bucket, const struct okv_table *table)
{
    const struct okv_store_images images = {.number = bucket->number,
                                            .pages = bucket->pages,
                                            .bytes = bucket->images,
                                            .offset = bucket->offset,
                                            .primary_lines = table->bucket_size};

    okv_store_publish_or_stage(table, &images);
}

unsigned okv_store_bucket_freed(const struct okv_store_bucket *bucket, uint64_t *offsets)
{
    unsigned count = 0;

    for (unsigned i = 0; i < bucket->dropped_count; i++)
        note(offsets, &count, bucket->dropped[i]);
    for (unsigned i = 0; i < bucket->item_count; i++) {
        const struct okv_entry *entry = &bucket->items[i].entry;
        if (entry->extent && !entry->is_reference)
            note(offsets, &count, entry->extent);
    }
    for (unsigned page = bucket->pages; page < bucket->published_pages; page++)
        note(offsets, &count, bucket->published_offset[page]);
    return count;
}

void okv_store_bucket_finish(struct okv_store_bucket *bucket, const struct okv_table *table)
{
    if (table->heat)
        okv_heat_store(table->heat, bucket->heat, bucket->number);
    for (unsigned i = 0; i < bucket->dropped_count; i++)
        okv_store_free(table, bucket->dropped[i]);
    for (unsigned i = 0; i < bucket->item_count; i++) {
        struct okv_entry *entry = &bucket->items[i].entry;
        if (entry->extent && !entry->is_reference)
            okv_store_free(table, entry->extent);
    }
    for (unsigned page = bucket->pages; page < bucket->published_pages; page++)
        okv_store_free(table, bucket->published_offset[page]);
}
