/*
 * An update in place adds, replaces or removes one entry of a bucket and leaves the others as they
 * are. It copies the published image, bumps all ages and exchanges the entry's bytes. That is a
 * tenth of the work of a transaction (bucket_transaction.c), which lays the whole bucket out again.
 *
 * Both give the same image when
 *   - the bucket has one page, and its entries still fit it after the update,
 *   - no item in it has expired,
 *   - no small item in an extent would get room to return inline (bucket_layout.h), and
 *   - where items are evicted, it replaces an item.
 * In all other cases the update is refused with OKV_STORE_WHOLE_BUCKET.
 */
#include "server/store/update_in_place.h"

#include <string.h>

#include "server/store/bucket_image.h"
#include "server/store/bucket_layout.h"
#include "server/store/bucket_transaction.h"
#include "server/store/evict_item.h"
#include "server/store/pending.h"
#include "server/store/publish.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"

/* An entry whose key is in its extent matched by a tag of the hash only. */
static bool is_of_key(const struct okv_entry *entry, const void *key, uint32_t key_length)
{
    return !entry->key_in_extent || memcmp(entry->key, key, key_length) == 0;
}

bool okv_store_update_begin(struct okv_store *store, struct okv_store_work *work, uint64_t number,
                            uint64_t hash, uint64_t clock_ms, const void *key, uint32_t key_length)
{
    const struct okv_table *table = &store->table;
    struct okv_store_update *update = &work->update;

    update->number = number;
    update->hash = hash;
    update->offset = okv_table_bucket_offset(table, number);
    if (okv_store_pending_reserve(table, number, 1))
        return false;
    update->published = okv_store_current_image(table, number, 0, update->offset);
    return !okv_bucket_chain(update->published) &&
           okv_bucket_bump_ages(update->image, update->published, table->bucket_size,
                                table->inline_max, hash, key, key_length, &update->cursor) &&
           update->cursor.earliest_expiry > clock_ms;
}

bool okv_store_update_read(struct okv_store *store, struct okv_store_work *work, const void *key,
                           uint32_t key_length, const struct okv_entry **current)
{
    struct okv_store_update *update = &work->update;

    *current = NULL;
    if (update->cursor.length == 0)
        return true;
    if (!okv_bucket_cursor_read(update->published, &update->cursor, &update->current))
        return false;
    okv_store_entry_complete(&update->current, &store->table);
    *current = &update->current;
    return is_of_key(*current, key, key_length);
}

/* Whether an entry of this length fits with the others, and leaves no room for one that moved to an
 * extent to return inline. */
static bool layout_stays_valid(const struct okv_table *table, const struct okv_store_update *update,
                               uint32_t length)
{
    uint32_t others = okv_bucket_used(update->image) - update->cursor.length;
    uint32_t room = okv_bucket_room(table->bucket_size) - others;

    return length <= room && update->cursor.inline_need > room - length;
}

/* Decides whether the entry is inline or a reference, and allocates the extent of a reference. */
static int choose_form(const struct okv_table *table, const struct okv_store_update *update,
                       struct okv_entry *entry)
{
    entry->version = okv_bucket_version(update->image);
    entry->is_reference = false;
    uint32_t length = okv_entry_size(entry, entry->version);
    if (length <= table->inline_max)
        return entry->extent || !layout_stays_valid(table, update, length) ? OKV_STORE_WHOLE_BUCKET
                                                                           : 0;
    entry->is_reference = true;
    if (!entry->extent)
        entry->key_in_extent =
            okv_store_key_goes_to_extent(table, entry->key_length, entry->value_length);
    if (!layout_stays_valid(table, update, okv_entry_size(entry, entry->version)))
        return OKV_STORE_WHOLE_BUCKET;
    if (entry->extent)
        return 0;
    return okv_store_entry_write_extent(entry, table) ? OKV_STORE_WHOLE_BUCKET : 0;
}

/* Bytes of the cache lines that hold the header and `used` bytes of entries. */
static uint32_t lines_of(uint32_t used)
{
    uint32_t length = (uint32_t)sizeof(struct okv_wire_bucket) + used;

    return (length + OKV_BUCKET_LINE - 1) / OKV_BUCKET_LINE * OKV_BUCKET_LINE;
}

/* Whether okv_store_tally_item() counts the same before and after. True for most overwrites. */
static bool tally_is_unchanged(const struct okv_store_update *update, const struct okv_entry *entry,
                               uint32_t used_before)
{
    const struct okv_entry *current = &update->current;

    return entry && update->cursor.length && !entry->is_reference && !current->is_reference &&
           entry->value_length == current->value_length &&
           !entry->expiry_ms == !current->expiry_ms &&
           okv_bucket_used(update->image) == used_before;
}

static void tally_update(struct okv_store *store, const struct okv_store_update *update,
                         const struct okv_entry *entry, uint32_t used_before)
{
    uint64_t version = okv_bucket_version(update->image);

    if (tally_is_unchanged(update, entry, used_before))
        return;
    struct okv_store_tally before = {.entry_bytes = used_before};
    struct okv_store_tally after = {.entry_bytes = okv_bucket_used(update->image)};

    uint8_t heat = store->table.heat
                       ? okv_heat_of(store->table.heat, update->number, okv_hash_tag(update->hash))
                       : 0;

    if (update->cursor.length) {
        okv_store_tally_item(&before, &store->table, &update->current, 0, version - 1);
        okv_store_tally_heat(&before, &store->table, &update->current, heat);
    }
    if (entry) {
        okv_store_tally_item(&after, &store->table, entry, 0, version);
        okv_store_tally_heat(&after, &store->table, entry, heat);
    }
    okv_store_count_difference(store, &before, &after);
}

int okv_store_update_commit(struct okv_store *store, struct okv_store_work *work,
                            const struct okv_entry *entry, struct okv_store_record *record)
{
    const struct okv_table *table = &store->table;
    struct okv_store_update *update = &work->update;
    const struct okv_bucket_cursor *cursor = &update->cursor;
    uint32_t used = okv_bucket_used(update->image);
    struct okv_entry chosen = {.extent = 0};
    int rc = 0;

    if (table->heat && (!entry || !cursor->length)) /* cells come and go with items */
        return OKV_STORE_WHOLE_BUCKET;
    if (entry) {
        chosen = *entry;
        chosen.is_quiet = table->heat && update->current.is_quiet;
        rc = choose_form(table, update, &chosen);
    } else if (!layout_stays_valid(table, update, 0)) {
        rc = OKV_STORE_WHOLE_BUCKET;
    }
    if (rc)
        return rc;
    record->version = okv_bucket_version(update->image);
    rc = okv_store_log_add(table, record, 1);
    if (rc) {
        if (entry && chosen.extent != entry->extent)
            okv_heap_free(table->heap, chosen.extent);
        return rc;
    }
    /* It fits: layout_stays_valid() checked. */
    okv_bucket_replace(update->image, table->bucket_size, cursor, entry ? &chosen : NULL);
    uint32_t after = okv_bucket_used(update->image);
    /* All lines in use before or after; the lines beyond are zeros in both images. What waits for
     * the log is a whole image. */
    const struct okv_store_images images = {
        .number = update->number,
        .pages = 1,
        .bytes = update->image,
        .offset = &update->offset,
        .primary_lines = okv_store_is_collecting(table) ? table->bucket_size
                                                        : lines_of(after > used ? after : used),
    };
    okv_bucket_seal(update->image, images.primary_lines, table->boot_id, update->number);
    okv_store_publish_or_stage(table, &images);
    if (cursor->length && update->current.extent && update->current.extent != chosen.extent)
        okv_store_free(table, update->current.extent);
    tally_update(store, update, entry ? &chosen : NULL, used);
    if (table->heat)
        okv_store_note_use(table, update->number, update->hash);
    return 0;
}
