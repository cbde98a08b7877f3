/* Put, append, incr, touch and delete: each finds its item, decides, and commits once. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/bucket_layout.h"
#include "server/store/bucket_transaction.h"
#include "shared/base/error.h"

/* Characters of INT64_MIN, and one more. */
#define NUMBER_TEXT 21

/* Where an item is, or is to be, while its bucket is locked. */
struct place {
    uint64_t bucket;
    uint64_t clock_ms; /* what had expired then is not there, whatever the time is since */
    bool is_patch;     /* work->patch was begun; else work->bucket was loaded */
    const struct okv_entry *there; /* NULL: it is not there */
    struct okv_store_item *item;   /* of work->bucket */
};

static int place_load(struct okv_store *store, struct okv_store_work *work,
                      const struct okv_store_write *write, struct place *place)
{
    int rc = okv_store_change_load_at(store, work, place->bucket, place->clock_ms);

    if (rc)
        return rc;
    place->is_patch = false;
    place->item = okv_store_bucket_find(&work->bucket, write->key, write->key_length);
    place->there = place->item ? &place->item->entry : NULL;
    return 0;
}

/* Locks the bucket and finds out what is there. On failure the bucket is not locked. */
static int place_open(struct okv_store *store, struct okv_store_work *work,
                      const struct okv_store_write *write, struct okv_store_outcome *outcome,
                      struct place *place)
{
    int rc = 0;

    *outcome = (struct okv_store_outcome){0};
    if (write->key_length == 0 || write->key_length > OKV_KEY_MAX)
        return OKV_EKEYSIZE;
    uint64_t hash = okv_hash_key(write->key, write->key_length, store->table.hash_seed);
    place->bucket = okv_store_lock_hash(store, hash);
    place->clock_ms = atomic_load(&store->clock_ms);
    place->is_patch =
        okv_store_patch_begin(store, work, place->bucket, hash, place->clock_ms, write) &&
        okv_store_patch_read(store, work, write, &place->there);
    if (!place->is_patch)
        rc = place_load(store, work, write, place);
    if (rc)
        okv_store_unlock(store, place->bucket);
    return rc;
}

static void place_end(struct okv_store *store, struct okv_store_work *work,
                      const struct place *place, int status)
{
    okv_store_unlock(store, place->bucket);
    if (status)
        return;
    atomic_fetch_add_explicit(&store->totals.changes, 1, memory_order_relaxed);
    okv_store_resize(store, work);
}

static int check_conditions(const struct okv_store_write *write, const struct place *place,
                            struct okv_store_outcome *outcome)
{
    const struct okv_entry *there = place->there;

    if (write->if_absent && there) {
        outcome->version = there->version;
        return OKV_EEXISTS;
    }
    if (write->if_version && !there)
        return OKV_ENOTFOUND;
    if (write->if_version && there->version != write->version) {
        outcome->version = there->version;
        return OKV_ECONFLICT;
    }
    return 0;
}

/* The clock counts whole milliseconds: the present one may be all but over, and one is there as
 * soon as it begins. One more makes sure that ttl_ms have passed. */
static uint64_t expiry_of(const struct okv_store *store, uint64_t ttl_ms)
{
    return ttl_ms ? atomic_load(&store->clock_ms) + ttl_ms + 1 : 0;
}

/* Puts an entry in the item's place, or nothing where that is NULL, and commits. */
static int replace(struct okv_store *store, struct okv_store_work *work,
                   const struct okv_store_write *write, struct place *place,
                   const struct okv_entry *entry, uint64_t *version)
{
    int rc = OKV_STORE_WHOLE_BUCKET;

    if (place->is_patch)
        rc = okv_store_patch_commit(store, work, entry, version);
    if (rc != OKV_STORE_WHOLE_BUCKET)
        return rc;
    rc = place->is_patch ? place_load(store, work, write, place) : 0;
    if (!rc && entry)
        rc = okv_store_bucket_put(&work->bucket, place->item, entry);
    else if (!rc && place->item)
        okv_store_bucket_remove(&work->bucket, place->item);
    if (!rc)
        rc = okv_store_change_commit(store, work);
    if (!rc)
        *version = work->bucket.next_version;
    return rc;
}

/* ---- values in extents ---- */

static uint64_t reserve_once(struct okv_store *store, uint32_t key_length, uint32_t value_length,
                             uint64_t *value_offset)
{
    uint64_t before =
        okv_store_key_goes_to_extent(&store->table, key_length, value_length) ? key_length : 0;
    uint64_t extent = okv_heap_alloc(&store->heap, before + value_length);

    *value_offset = extent + before;
    return extent;
}

void okv_store_release(struct okv_store *store, uint64_t extent)
{
    okv_heap_free(&store->heap, extent);
}

/* The entry of an item whose value is in an extent that okv_store_reserve() gave. */
static struct okv_entry entry_of_extent(const struct okv_store *store, const void *key,
                                        uint32_t key_length, uint32_t value_length, uint64_t extent)
{
    struct okv_entry entry = {
        .key = key,
        .key_length = key_length,
        .value = store->table.base + extent,
        .value_length = value_length,
        .extent = extent,
        .key_in_extent = okv_store_key_goes_to_extent(&store->table, key_length, value_length),
    };

    if (entry.key_in_extent)
        entry.value += key_length;
    okv_store_entry_seal_extent(&entry, &store->table);
    return entry;
}

/* The entry of an item whose value is in the caller's memory. */
static struct okv_entry entry_of_value(const void *key, uint32_t key_length, const void *value,
                                       uint32_t value_length)
{
    return (struct okv_entry){
        .key = key,
        .key_length = key_length,
        .value = value,
        .value_length = value_length,
    };
}

/* ---- the operations ---- */

static int put_once(struct okv_store *store, struct okv_store_work *work,
                    const struct okv_store_write *write, struct okv_store_outcome *outcome)
{
    struct okv_entry entry = work->extent_entry;
    struct place place;
    int rc = place_open(store, work, write, outcome, &place);

    if (rc)
        return rc;
    rc = check_conditions(write, &place, outcome);
    if (!rc) {
        if (!write->extent)
            entry =
                entry_of_value(write->key, write->key_length, write->value, write->value_length);
        entry.expiry_ms = expiry_of(store, write->ttl_ms);
        rc = replace(store, work, write, &place, &entry, &outcome->version);
    }
    place_end(store, work, &place, rc);
    return rc;
}

int okv_store_delete(struct okv_store *store, struct okv_store_work *work,
                     const struct okv_store_write *write, struct okv_store_outcome *outcome)
{
    struct place place;
    uint64_t ignored;
    int rc = place_open(store, work, write, outcome, &place);

    if (rc)
        return rc;
    rc = place.there ? check_conditions(write, &place, outcome) : OKV_ENOTFOUND;
    if (!rc)
        rc = replace(store, work, write, &place, NULL, &ignored);
    place_end(store, work, &place, rc);
    return rc;
}

static int touch_once(struct okv_store *store, struct okv_store_work *work,
                      const struct okv_store_write *write, struct okv_store_outcome *outcome)
{
    struct place place;
    int rc = place_open(store, work, write, outcome, &place);

    if (rc)
        return rc;
    if (place.there) {
        struct okv_entry entry = *place.there;
        entry.expiry_ms = expiry_of(store, write->ttl_ms);
        rc = replace(store, work, write, &place, &entry, &outcome->version);
    } else {
        rc = OKV_ENOTFOUND;
    }
    place_end(store, work, &place, rc);
    return rc;
}

/* An optional '-' and 1 to 19 digits, within 64 bits. */
static bool number_parse(const uint8_t *text, uint32_t length, int64_t *number)
{
    char copy[NUMBER_TEXT];
    uint32_t digits = length > 0 && text[0] == '-' ? length - 1 : length;

    if (digits == 0 || digits > 19)
        return false;
    for (uint32_t i = length - digits; i < length; i++)
        if (text[i] < '0' || text[i] > '9')
            return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    errno = 0;
    *number = strtoll(copy, NULL, 10);
    return errno == 0;
}

static int incr_once(struct okv_store *store, struct okv_store_work *work,
                     const struct okv_store_write *write, struct okv_store_outcome *outcome)
{
    struct place place;
    char text[NUMBER_TEXT];
    int64_t number = 0;
    int rc = place_open(store, work, write, outcome, &place);

    if (rc)
        return rc;
    const struct okv_entry *there = place.there;
    if (there && !number_parse(there->value, there->value_length, &number)) {
        rc = OKV_ENUMBER;
    } else if (__builtin_add_overflow(number, write->delta, &number)) {
        rc = OKV_EOVERFLOW;
    } else {
        uint32_t length = (uint32_t)snprintf(text, sizeof text, "%" PRId64, number);
        struct okv_entry entry = entry_of_value(write->key, write->key_length, text, length);
        entry.expiry_ms = there ? there->expiry_ms : 0;
        rc = length > store->max_value
                 ? OKV_EVALUESIZE
                 : replace(store, work, write, &place, &entry, &outcome->version);
        outcome->number = rc ? 0 : number;
    }
    place_end(store, work, &place, rc);
    return rc;
}

/* An extent with the value that is there and what is appended to it. */
static int extent_of_both(struct okv_store *store, const struct okv_store_write *write,
                          const struct okv_entry *there, uint32_t length, struct okv_entry *entry)
{
    uint64_t offset;
    uint64_t extent = reserve_once(store, write->key_length, length, &offset);

    if (!extent)
        return OKV_EFULL;
    uint8_t *value = store->table.base + offset;
    memcpy(value, there->value, there->value_length);
    if (write->value_length)
        memcpy(value + there->value_length, write->value, write->value_length);
    *entry = entry_of_extent(store, write->key, write->key_length, length, extent);
    return 0;
}

/* Appends to an item that is there. */
static int append_to(struct okv_store *store, struct okv_store_work *work, struct place *place,
                     const struct okv_store_write *write, struct okv_store_outcome *outcome)
{
    const struct okv_entry *there = place->there;
    uint8_t both[OKV_BUCKET_SIZE_MAX];
    struct okv_entry entry;
    uint64_t length = (uint64_t)there->value_length + write->value_length;
    int rc = 0;

    if (length > store->max_value)
        return OKV_EVALUESIZE;
    if (length > sizeof both) {
        rc = extent_of_both(store, write, there, (uint32_t)length, &entry);
    } else {
        memcpy(both, there->value, there->value_length);
        if (write->value_length)
            memcpy(both + there->value_length, write->value, write->value_length);
        entry = entry_of_value(write->key, write->key_length, both, (uint32_t)length);
    }
    if (rc)
        return rc;
    entry.expiry_ms = there->expiry_ms;
    rc = replace(store, work, write, place, &entry, &outcome->version);
    if (rc && entry.extent)
        okv_store_release(store, entry.extent);
    outcome->length = rc ? 0 : length;
    return rc;
}

static int append_once(struct okv_store *store, struct okv_store_work *work,
                       const struct okv_store_write *write, struct okv_store_outcome *outcome)
{
    struct place place;

    *outcome = (struct okv_store_outcome){0};
    if (write->value_length > store->max_value)
        return OKV_EVALUESIZE;
    int rc = place_open(store, work, write, outcome, &place);
    if (rc)
        return rc;
    if (place.there) {
        rc = append_to(store, work, &place, write, outcome);
    } else {
        const struct okv_entry entry =
            entry_of_value(write->key, write->key_length, write->value, write->value_length);
        rc = replace(store, work, write, &place, &entry, &outcome->version);
        outcome->length = rc ? 0 : write->value_length;
    }
    place_end(store, work, &place, rc);
    return rc;
}

/* ---- again, after room was made ---- */

typedef int change(struct okv_store *store, struct okv_store_work *work,
                   const struct okv_store_write *write, struct okv_store_outcome *outcome);

static int try_with_room(change *once, struct okv_store *store, struct okv_store_work *work,
                         const struct okv_store_write *write, struct okv_store_outcome *outcome)
{
    struct okv_store_effort effort = OKV_STORE_EFFORT;
    uint64_t size = (uint64_t)write->key_length + write->value_length;
    int rc = once(store, work, write, outcome);

    while (rc == OKV_EFULL && okv_store_find_room(store, work, size, &effort))
        rc = once(store, work, write, outcome);
    return rc;
}

int okv_store_put(struct okv_store *store, struct okv_store_work *work,
                  const struct okv_store_write *write, struct okv_store_outcome *outcome)
{
    *outcome = (struct okv_store_outcome){0};
    if (write->value_length > store->max_value)
        return OKV_EVALUESIZE;
    if (write->extent) /* outside of the lock: the checksum of 64 MiB takes its time */
        work->extent_entry = entry_of_extent(store, write->key, write->key_length,
                                             write->value_length, write->extent);
    return try_with_room(put_once, store, work, write, outcome);
}

int okv_store_append(struct okv_store *store, struct okv_store_work *work,
                     const struct okv_store_write *write, struct okv_store_outcome *outcome)
{
    return try_with_room(append_once, store, work, write, outcome);
}

int okv_store_incr(struct okv_store *store, struct okv_store_work *work,
                   const struct okv_store_write *write, struct okv_store_outcome *outcome)
{
    return try_with_room(incr_once, store, work, write, outcome);
}

int okv_store_touch(struct okv_store *store, struct okv_store_work *work,
                    const struct okv_store_write *write, struct okv_store_outcome *outcome)
{
    return try_with_room(touch_once, store, work, write, outcome);
}

uint64_t okv_store_reserve(struct okv_store *store, struct okv_store_work *work,
                           uint32_t key_length, uint32_t value_length, uint64_t *value_offset)
{
    struct okv_store_effort effort = OKV_STORE_EFFORT;
    uint64_t size = (uint64_t)key_length + value_length;
    uint64_t extent = reserve_once(store, key_length, value_length, value_offset);

    while (!extent && okv_store_find_room(store, work, size, &effort))
        extent = reserve_once(store, key_length, value_length, value_offset);
    return extent;
}
