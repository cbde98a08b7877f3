/*
 * A change in place: one entry of a bucket is put, replaced or removed, and the others stay as
 * they are. The image that is published is copied, all ages go up by one, the entry's bytes are
 * exchanged: a tenth of the work of taking the bucket apart and laying it out anew.
 *
 * Nothing else would come of that (bucket_layout.c) when the bucket has one part and goes on to
 * fit it, nothing in it has expired, and no small item that was put out of it finds room again.
 * Otherwise the change takes the whole bucket apart (bucket_image.c).
 *
 * What is published, and in which order, is the same either way.
 */
#include <string.h>

#include "server/store/bucket_layout.h"
#include "server/store/bucket_transaction.h"
#include "shared/base/error.h"

/* An entry that has no more than a tag of its key may be another's. */
static bool is_of_key(const struct okv_entry *entry, const struct okv_store_write *write)
{
    return !entry->key_in_extent || memcmp(entry->key, write->key, write->key_length) == 0;
}

bool okv_store_patch_begin(struct okv_store *store, struct okv_store_work *work, uint64_t number,
                           uint64_t hash, uint64_t clock_ms, const struct okv_store_write *write)
{
    const struct okv_table *table = &store->table;
    struct okv_store_patch *patch = &work->patch;

    patch->number = number;
    patch->published = table->base + okv_table_bucket_offset(table, number);
    return !okv_bucket_chain(patch->published) &&
           okv_bucket_bump_ages(patch->image, patch->published, table->bucket_size,
                                table->inline_max, hash, write->key, write->key_length,
                                &patch->cursor) &&
           patch->cursor.earliest_expiry > clock_ms;
}

bool okv_store_patch_read(struct okv_store *store, struct okv_store_work *work,
                          const struct okv_store_write *write, const struct okv_entry **there)
{
    struct okv_store_patch *patch = &work->patch;

    *there = NULL;
    if (patch->cursor.length == 0)
        return true;
    if (!okv_bucket_cursor_read(patch->published, &patch->cursor, &patch->there))
        return false;
    okv_store_entry_complete(&patch->there, &store->table);
    *there = &patch->there;
    return is_of_key(&patch->there, write);
}

/* Whether an entry of this length fits besides the others, and none of those that were put out
 * finds room again. */
static bool keeps_the_others(const struct okv_table *table, const struct okv_store_patch *patch,
                             uint32_t length)
{
    uint32_t others = okv_bucket_used(patch->image) - patch->cursor.length;
    uint32_t room = okv_bucket_room(table->bucket_size) - others;

    return length <= room && patch->cursor.inline_need > room - length;
}

/* Decides what the entry will be, and takes the extent that it needs. */
static int settle_entry(const struct okv_table *table, const struct okv_store_patch *patch,
                        struct okv_entry *entry)
{
    entry->version = okv_bucket_version(patch->image);
    entry->is_reference = false;
    uint32_t length = okv_entry_size(entry, entry->version);
    if (length <= table->inline_max)
        return entry->extent || !keeps_the_others(table, patch, length) ? OKV_STORE_WHOLE_BUCKET
                                                                        : 0;
    entry->is_reference = true;
    if (!entry->extent)
        entry->key_in_extent =
            okv_store_key_goes_to_extent(table, entry->key_length, entry->value_length);
    if (!keeps_the_others(table, patch, okv_entry_size(entry, entry->version)))
        return OKV_STORE_WHOLE_BUCKET;
    if (entry->extent)
        return 0;
    return okv_store_entry_write_extent(entry, table) ? OKV_STORE_WHOLE_BUCKET : 0;
}

/* Bytes of the bucket's lines in which so many of entries are. */
static uint32_t lines_of(uint32_t used)
{
    uint32_t length = (uint32_t)sizeof(struct okv_wire_bucket) + used;

    return (length + OKV_BUCKET_LINE - 1) / OKV_BUCKET_LINE * OKV_BUCKET_LINE;
}

/* An overwrite, as most changes are, that okv_store_tally_item() would count alike before and
 * after. */
static bool counts_the_same(const struct okv_store_patch *patch, const struct okv_entry *entry,
                            uint32_t used_before)
{
    const struct okv_entry *there = &patch->there;

    return entry && patch->cursor.length && !entry->is_reference && !there->is_reference &&
           entry->value_length == there->value_length && !entry->expiry_ms == !there->expiry_ms &&
           okv_bucket_used(patch->image) == used_before;
}

/* The bytes of entries before and after, and of the item. */
static void count(struct okv_store *store, const struct okv_store_patch *patch,
                  const struct okv_entry *entry, uint32_t used_before)
{
    uint64_t version = okv_bucket_version(patch->image);

    if (counts_the_same(patch, entry, used_before))
        return;
    struct okv_store_tally before = {.entry_bytes = used_before};
    struct okv_store_tally after = {.entry_bytes = okv_bucket_used(patch->image)};

    if (patch->cursor.length)
        okv_store_tally_item(&before, &store->table, &patch->there, 0, version - 1);
    if (entry)
        okv_store_tally_item(&after, &store->table, entry, 0, version);
    okv_store_count_difference(store, &before, &after);
}

int okv_store_patch_commit(struct okv_store *store, struct okv_store_work *work,
                           const struct okv_entry *entry, uint64_t *version)
{
    const struct okv_table *table = &store->table;
    struct okv_store_patch *patch = &work->patch;
    const struct okv_bucket_cursor *cursor = &patch->cursor;
    uint32_t used = okv_bucket_used(patch->image);
    struct okv_entry settled = {.extent = 0};
    int rc = 0;

    if (entry) {
        settled = *entry;
        rc = settle_entry(table, patch, &settled);
    } else if (!keeps_the_others(table, patch, 0)) {
        rc = OKV_STORE_WHOLE_BUCKET;
    }
    if (rc)
        return rc;
    /* It fits: keeps_the_others() looked. */
    okv_bucket_replace(patch->image, table->bucket_size, cursor, entry ? &settled : NULL);
    uint32_t after = okv_bucket_used(patch->image);
    /* All lines in use before or after; those beyond hold nothing but zeros and are left alone. */
    uint32_t lines = lines_of(after > used ? after : used);
    okv_bucket_seal(patch->image, lines, table->boot_id, patch->number);
    okv_store_publish_image(patch->published, patch->image, lines);
    if (cursor->length && patch->there.extent && patch->there.extent != settled.extent)
        okv_heap_free(table->heap, patch->there.extent);
    count(store, patch, entry ? &settled : NULL, used);
    *version = okv_bucket_version(patch->image);
    return 0;
}
