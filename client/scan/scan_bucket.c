/*
 * READs the pages of the bucket, all of one version, and sorts its items by position. Every extent
 * is checked before its item is shown. If one was replaced meanwhile, scan.c READs the bucket again
 * and continues after the items that were shown, so nothing about them has to be remembered.
 */
#include "client/scan/scan_bucket.h"

#include <stdlib.h>
#include <string.h>

#include "client/connection/clock_sync.h"
#include "client/get/extent.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"

static uint8_t *page_image(const struct scan *scan, unsigned page)
{
    return scan->images + (size_t)page * scan->handle->table.bucket_size;
}

/* Copies the primary page from `image` and READs the overflow pages. */
static int pages_read(struct scan *scan, uint64_t bucket, const uint8_t *image)
{
    okv *handle = scan->handle;
    const struct okv_welcome *table = &handle->table;

    memcpy(page_image(scan, 0), image, table->bucket_size);
    scan->pages = 1;
    for (;;) {
        uint64_t chain = okv_bucket_chain(page_image(scan, scan->pages - 1));
        if (chain == 0)
            return 0;
        if (scan->pages == OKV_BUCKET_PAGES_MAX)
            return OKV_EPROTO;
        int rc = scan_read(scan, READ_IMAGE, chain, scan->image, table->bucket_size);
        if (rc)
            return rc;
        if (okv_bucket_check(scan->image, table->bucket_size, table->boot_id, bucket,
                             scan->pages) ||
            okv_bucket_version(scan->image) != okv_bucket_version(scan->images)) {
            handle->counters.torn_buckets++;
            return OKV_ECORRUPT;
        }
        memcpy(page_image(scan, scan->pages++), scan->image, table->bucket_size);
    }
}

/* ---- extents ---- */

static int held_reserve(struct scan *scan, size_t length)
{
    if (scan->held_room - scan->held_size >= length)
        return 0;
    size_t room = scan->held_size + length + scan->held_room / 2;
    uint8_t *larger = realloc(scan->held, room);
    if (!larger)
        return OKV_ENOMEM;
    scan->held = larger;
    scan->held_room = room;
    return 0;
}

/* Appends an item's extent to scan->held, checked. */
static int extent_read(struct scan *scan, struct scan_item *item)
{
    okv *handle = scan->handle;
    const struct okv_entry *entry = &item->entry;

    if (!extent_is_possible(handle, entry))
        return OKV_EPROTO;
    size_t length = (size_t)okv_entry_extent_length(entry);
    int rc = held_reserve(scan, length);
    if (rc)
        return rc;
    uint8_t *extent = scan->held + scan->held_size;
    for (size_t done = 0; done < length;) {
        size_t piece = length - done < EXTENT_PIECE_SIZE ? length - done : EXTENT_PIECE_SIZE;
        rc = scan_read(scan, READ_EXTENT, entry->extent + done, scan->piece, (uint32_t)piece);
        if (rc)
            return rc;
        memcpy(extent + done, scan->piece, piece);
        done += piece;
    }
    const void *key = entry->key_in_extent ? extent : entry->key;
    if (okv_extent_check(entry, extent, handle->table.boot_id, key, entry->key_length)) {
        handle->counters.torn_extents++;
        return OKV_ECORRUPT;
    }
    item->extent = scan->held_size;
    scan->held_size += length;
    return 0;
}

static const uint8_t *item_key(const struct scan *scan, const struct scan_item *item)
{
    return item->entry.key_in_extent ? scan->held + item->extent : item->entry.key;
}

/* ---- the list of items ---- */

static int items_reserve(struct scan *scan)
{
    if (scan->item_count < scan->item_room)
        return 0;
    size_t room = scan->item_room ? scan->item_room * 2 : 64;
    struct scan_item *larger = realloc(scan->items, room * sizeof *larger);
    if (!larger)
        return OKV_ENOMEM;
    scan->items = larger;
    scan->item_room = room;
    return 0;
}

/* True when the item lies between the point and `end`. Sets its position. */
static bool item_is_wanted(const struct scan *scan, struct scan_item *item, uint64_t end)
{
    uint64_t hash =
        okv_hash_key(item_key(scan, item), item->entry.key_length, scan->handle->table.hash_seed);

    item->position = scan_position_of(scan, hash);
    return okv_hash_bucket(hash, scan->level) == scan->class_index &&
           item->position >= scan->position && item->position < end;
}

/* Adds an entry to the list if it is wanted. A key in an extent needs the whole extent: only its
 * checksum proves the key. */
static int list_entry(struct scan *scan, const struct okv_entry *entry, uint64_t end)
{
    struct scan_item item = {.entry = *entry, .extent = SCAN_NOT_HELD};
    size_t held = scan->held_size;
    bool in_extent = entry->is_reference && entry->key_in_extent;
    int rc = in_extent ? extent_read(scan, &item) : 0;

    if (rc)
        return rc;
    bool wanted = item_is_wanted(scan, &item, end);
    if (wanted && entry->is_reference && !in_extent &&
        held + okv_entry_extent_length(entry) <= SCAN_HELD_MAX) {
        rc = extent_read(scan, &item);
        if (rc)
            return rc;
    }
    if (!wanted || scan->held_size > SCAN_HELD_MAX) {
        scan->held_size = held;
        item.extent = SCAN_NOT_HELD;
    }
    if (!wanted)
        return 0;
    rc = items_reserve(scan);
    if (rc)
        return rc;
    scan->items[scan->item_count++] = item;
    return 0;
}

static int item_compare(const void *a, const void *b)
{
    const struct scan_item *left = a;
    const struct scan_item *right = b;

    return (left->position > right->position) - (left->position < right->position);
}

/* Lists the items between the point and `end`, in order. */
static int list_items(struct scan *scan, uint64_t end)
{
    uint64_t now_ms = clock_now_ms(scan->handle);

    scan->item_count = 0;
    scan->held_size = 0;
    for (unsigned page = 0; page < scan->pages; page++) {
        struct okv_entry entry;
        uint32_t position = 0;
        int rc;
        while ((rc = okv_bucket_next(page_image(scan, page), &position, &entry)) == 1) {
            rc = okv_entry_is_expired(&entry, now_ms) ? 0 : list_entry(scan, &entry, end);
            if (rc < 0)
                return rc;
        }
        if (rc < 0)
            return rc;
    }
    if (scan->item_count > 1)
        qsort(scan->items, scan->item_count, sizeof *scan->items, item_compare);
    return 0;
}

/* ---- showing ---- */

static int show_item(struct scan *scan, const struct scan_item *item)
{
    const struct okv_entry *entry = &item->entry;
    struct okv_item shown = {
        .key = item_key(scan, item),
        .key_length = entry->key_length,
        .value = entry->value,
        .value_length = entry->value_length,
        .version = entry->version,
        .ttl_ms = clock_ttl_ms(scan->handle, entry->expiry_ms),
    };

    if (entry->is_reference)
        shown.value = scan->held + item->extent + (entry->key_in_extent ? entry->key_length : 0);
    scan->verdict = scan->visit(scan->user, &shown);
    return scan->verdict ? SCAN_STOPPED : 0;
}

/* Shows the items of one position, usually one, once all their extents have come. */
static int show_group(struct scan *scan, struct scan_item *items, size_t count)
{
    size_t held = scan->held_size;
    int rc = 0;

    for (size_t i = 0; i < count && rc == 0; i++)
        if (items[i].entry.is_reference && items[i].extent == SCAN_NOT_HELD)
            rc = extent_read(scan, &items[i]);
    if (rc == 0)
        rc = show_item(scan, &items[0]);
    for (size_t i = 1; i < count && rc == 0; i++)
        rc = show_item(scan, &items[i]);
    scan->held_size = held;
    return rc;
}

int scan_bucket_show(struct scan *scan, uint64_t bucket, const uint8_t *image)
{
    uint64_t end = scan_interval_end(scan, okv_bucket_depth(image));
    int rc = pages_read(scan, bucket, image);

    if (rc == 0)
        rc = list_items(scan, end);
    for (size_t i = 0, count; i < scan->item_count && rc == 0; i += count) {
        struct scan_item *items = &scan->items[i];
        count = 1;
        while (i + count < scan->item_count && items[count].position == items->position)
            count++;
        scan->position = items->position;
        rc = show_group(scan, items, count);
        if (rc == 0 || (rc == SCAN_STOPPED && count == 1))
            scan->position = items->position + 1;
    }
    if (rc == 0)
        scan->position = end;
    return rc;
}
