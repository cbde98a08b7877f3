/* Each command finds its item, decides, and commits once. */
#include "server/store/commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/core/turn.h"
#include "server/store/bucket_image.h"
#include "server/store/bucket_layout.h"
#include "server/store/bucket_transaction.h"
#include "server/store/evict.h"
#include "server/store/fullness.h"
#include "server/store/locking.h"
#include "server/store/long_value.h"
#include "server/store/pending.h"
#include "server/store/resize.h"
#include "server/store/room.h"
#include "server/store/update_in_place.h"
#include "shared/base/error.h"
#include "shared/base/number.h"

/* Characters of INT64_MIN, and a NUL. */
#define NUMBER_TEXT 21

/* The item that a command changes, or will make, in a locked bucket. */
struct target {
    uint64_t bucket;
    uint64_t clock_ms; /* decides what has expired, even if the clock moves on meanwhile */
    bool is_in_place;  /* work->update was begun; else work->bucket was loaded */
    const struct okv_entry *current; /* NULL: no such item */
    struct okv_store_item *item;     /* of work->bucket */
};

static int target_load(struct okv_store *store, struct okv_store_work *work,
                       const struct okv_store_write *write, struct target *target)
{
    int rc = okv_store_transaction_load_at(store, work, target->bucket, target->clock_ms);

    if (rc)
        return rc;
    target->is_in_place = false;
    target->item = okv_store_bucket_find(&work->bucket, write->key, write->key_length);
    target->current = target->item ? &target->item->entry : NULL;
    return 0;
}

/* Locks the bucket and finds the item. On failure the bucket is not locked. */
static int target_open(struct okv_store *store, struct okv_store_work *work,
                       const struct okv_store_write *write, struct okv_store_outcome *outcome,
                       struct target *target)
{
    int rc = 0;

    *outcome = (struct okv_store_outcome){0};
    if (write->key_length == 0 || write->key_length > OKV_KEY_MAX)
        return OKV_EKEYSIZE;
    uint64_t hash = okv_hash_key(write->key, write->key_length, store->table.hash_seed);
    target->bucket = okv_store_lock_hash(store, hash);
    target->clock_ms = atomic_load(&store->clock_ms);
    target->is_in_place =
        okv_store_update_begin(store, work, target->bucket, hash, target->clock_ms, write->key,
                               write->key_length) &&
        okv_store_update_read(store, work, write->key, write->key_length, &target->current);
    if (target->is_in_place)
        work->bytes += OKV_TURN_ITEM; /* a page */
    else
        rc = target_load(store, work, write, target);
    if (rc)
        okv_store_unlock(store, target->bucket);
    return rc;
}

static void target_close(struct okv_store *store, struct okv_store_work *work,
                         const struct target *target, int status)
{
    okv_store_unlock(store, target->bucket);
    if (status)
        return;
    atomic_fetch_add_explicit(&store->totals.changes, 1, memory_order_relaxed);
    okv_store_resize(store, work);
}

static int check_conditions(const struct okv_store_write *write, const struct target *target,
                            struct okv_store_outcome *outcome)
{
    const struct okv_entry *current = target->current;

    if (write->if_absent && current) {
        outcome->version = current->version;
        return OKV_EEXISTS;
    }
    if (write->if_version && !current)
        return OKV_ENOTFOUND;
    if (write->if_version && current->version != write->version) {
        outcome->version = current->version;
        return OKV_ECONFLICT;
    }
    return 0;
}

/* The clock counts whole milliseconds, and the current one may be nearly over. One more ensures
 * that at least ttl_ms pass. An expiry has 48 bits: only a clock beyond 2^47 needs more. */
static uint64_t expiry_of(const struct okv_store *store, uint64_t ttl_ms)
{
    uint64_t expiry_ms = atomic_load(&store->clock_ms) + ttl_ms + 1;

    return !ttl_ms ? 0 : expiry_ms < OKV_LE48_MAX ? expiry_ms : OKV_LE48_MAX;
}

/* In the loaded bucket. `insists`: as of okv_store_evict_in_bucket(). */
static int replace_in_bucket(struct okv_store *store, struct okv_store_work *work,
                             const struct target *target, const struct okv_entry *entry,
                             struct okv_store_record *record, bool insists)
{
    struct okv_store_bucket *bucket = &work->bucket;
    int rc = 0;

    if (entry) {
        rc = okv_store_bucket_put(bucket, &store->table, target->item, entry);
        if (!rc)
            okv_store_evict_in_bucket(store, bucket, insists);
    } else if (target->item) {
        okv_store_note_gone(&store->table, target->item);
        okv_store_bucket_remove(bucket, target->item);
    }
    return rc ? rc : okv_store_transaction_commit_logged(store, work, record);
}

/* Replaces the item by `entry`, or removes it if that is NULL, and commits. Sets the version of
 * `record`. */
static int replace_with(struct okv_store *store, struct okv_store_work *work,
                        const struct okv_store_write *write, struct target *target,
                        const struct okv_entry *entry, struct okv_store_record *record)
{
    int rc = OKV_STORE_WHOLE_BUCKET;

    if (target->is_in_place)
        rc = okv_store_update_commit(store, work, entry, record);
    if (rc != OKV_STORE_WHOLE_BUCKET)
        return rc;
    rc = target->is_in_place ? target_load(store, work, write, target) : 0;
    if (!rc)
        rc = replace_in_bucket(store, work, target, entry, record, false);
    if (rc == OKV_EFULL && store->table.heat) {
        rc = target_load(store, work, write, target);
        rc = rc ? rc : replace_in_bucket(store, work, target, entry, record, true);
    }
    return rc;
}

static int replace(struct okv_store *store, struct okv_store_work *work,
                   const struct okv_store_write *write, struct target *target,
                   const struct okv_entry *entry, uint64_t *version)
{
    struct okv_store_record record = {.kind = write->is_part ? OKV_STORE_LOG_PART
                                              : entry        ? OKV_STORE_LOG_CHANGE
                                                             : OKV_STORE_LOG_REMOVAL,
                                      .key = write->key,
                                      .key_length = write->key_length};
    int rc = okv_store_log_check(&store->table); /* which comes before a lack of room */

    if (rc)
        return rc;
    if (entry) {
        record.value = entry->value_length ? (const void *)entry->value : "";
        record.value_length = entry->value_length;
        record.expiry_ms = entry->expiry_ms;
        if (write->long_value && write->long_value->copy.number)
            record.copy = &write->long_value->copy;
        else if (store->table.pending)
            work->bytes += record.value_length;
        if (!entry->extent)
            work->bytes += entry->value_length;
    }
    rc = replace_with(store, work, write, target, entry, &record);
    if (rc == 0)
        *version = record.version;
    return rc;
}

static struct okv_entry entry_of_long_value(const struct okv_store *store,
                                            const struct okv_store_write *write)
{
    const struct okv_store_long_value *value = write->long_value;
    uint64_t hash = okv_hash_key(write->key, write->key_length, store->table.hash_seed);

    return (struct okv_entry){
        .tag = okv_hash_tag(hash),
        .key = write->key,
        .key_length = write->key_length,
        .value = store->table.base + okv_store_long_offset(value),
        .value_length = value->value_length,
        .extent = value->extent,
        .key_in_extent = value->key_length > 0,
        .checksum = okv_hash_stream_checksum(&value->checksum, store->table.boot_id),
    };
}

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

/* ---- the commands, each on its target ---- */

/* Decides about an open target and changes it. */
typedef int change(struct okv_store *store, struct okv_store_work *work,
                   const struct okv_store_write *write, struct target *target,
                   struct okv_store_outcome *outcome);

static int put(struct okv_store *store, struct okv_store_work *work,
               const struct okv_store_write *write, struct target *target,
               struct okv_store_outcome *outcome)
{
    struct okv_entry entry = write->long_value ? entry_of_long_value(store, write)
                                               : entry_of_value(write->key, write->key_length,
                                                                write->value, write->value_length);
    int rc = check_conditions(write, target, outcome);

    if (rc)
        return rc;
    entry.expiry_ms = write->keep_ttl && target->current ? target->current->expiry_ms
                                                         : expiry_of(store, write->ttl_ms);
    rc = replace(store, work, write, target, &entry, &outcome->version);
    if (rc == 0 && write->long_value)
        write->long_value->extent = 0;
    return rc;
}

static int erase(struct okv_store *store, struct okv_store_work *work,
                 const struct okv_store_write *write, struct target *target,
                 struct okv_store_outcome *outcome)
{
    uint64_t ignored;
    int rc = target->current ? check_conditions(write, target, outcome) : OKV_ENOTFOUND;

    return rc ? rc : replace(store, work, write, target, NULL, &ignored);
}

/* The current value becomes the source of the caller's long value, if there is one. */
static int take_source(struct okv_store *store, const struct okv_store_write *write,
                       const struct okv_entry *current)
{
    struct okv_store_long_value *value = write->long_value;

    if (!value)
        return OKV_STORE_LONG;
    if (!okv_heap_pin(&store->heap, current->extent, &value->source))
        return OKV_EAGAIN;
    value->before = current->value;
    value->before_length = current->value_length;
    return OKV_STORE_LONG;
}

/* Sets the complete long value. The item must have its source as value: no other can be in that
 * extent, which is pinned. */
static int replace_source(struct okv_store *store, struct okv_store_work *work,
                          const struct okv_store_write *write, struct target *target,
                          uint64_t expiry_ms, struct okv_store_outcome *outcome)
{
    struct okv_store_long_value *value = write->long_value;

    if (!target->current || target->current->extent != value->source.offset)
        return OKV_STORE_LONG;
    struct okv_entry entry = entry_of_long_value(store, write);
    entry.expiry_ms = expiry_ms;
    int rc = replace(store, work, write, target, &entry, &outcome->version);
    if (rc)
        return rc;
    outcome->length = value->value_length;
    value->extent = 0;
    return 0;
}

static int touch(struct okv_store *store, struct okv_store_work *work,
                 const struct okv_store_write *write, struct target *target,
                 struct okv_store_outcome *outcome)
{
    const struct okv_entry *current = target->current;

    if (!current)
        return OKV_ENOTFOUND;
    if (write->long_value && write->long_value->extent)
        return replace_source(store, work, write, target, expiry_of(store, write->ttl_ms), outcome);
    if (store->table.pending && current->extent && current->value_length >= OKV_STORE_LONG_LOGGED)
        return take_source(store, write, current);
    struct okv_entry entry = *current;
    uint32_t length = write->room ? entry.value_length : 0;
    if (length > write->room_size)
        return OKV_EVALUESIZE;
    if (length > 0)
        memcpy(write->room, entry.value, length);
    entry.expiry_ms = expiry_of(store, write->ttl_ms);
    int rc = replace(store, work, write, target, &entry, &outcome->version);
    outcome->length = rc ? 0 : length;
    return rc;
}

static int incr(struct okv_store *store, struct okv_store_work *work,
                const struct okv_store_write *write, struct target *target,
                struct okv_store_outcome *outcome)
{
    const struct okv_entry *current = target->current;
    char text[NUMBER_TEXT];
    int64_t number = 0;

    if (current && !okv_number_parse(current->value, current->value_length, &number))
        return OKV_ENUMBER;
    if (__builtin_add_overflow(number, write->delta, &number))
        return OKV_EOVERFLOW;
    uint32_t length = (uint32_t)snprintf(text, sizeof text, "%" PRId64, number);
    if (length > store->max_value)
        return OKV_EVALUESIZE;
    struct okv_entry entry = entry_of_value(write->key, write->key_length, text, length);
    entry.expiry_ms = current ? current->expiry_ms : expiry_of(store, write->ttl_ms);
    int rc = replace(store, work, write, target, &entry, &outcome->version);
    outcome->number = rc ? 0 : number;
    return rc;
}

/* Makes an extent with the current value, which is short, and the one appended to it. */
static int extent_of_both(struct okv_store *store, const struct okv_store_write *write,
                          const struct okv_entry *current, uint32_t length, struct okv_entry *entry)
{
    *entry = entry_of_value(write->key, write->key_length, NULL, length);
    entry->key_in_extent = okv_store_key_goes_to_extent(&store->table, write->key_length, length);
    entry->extent = okv_heap_alloc(&store->heap, okv_entry_extent_length(entry));
    if (!entry->extent)
        return OKV_EFULL;
    uint8_t *value =
        store->table.base + entry->extent + (entry->key_in_extent ? entry->key_length : 0);
    memcpy(value, current->value, current->value_length);
    if (write->value_length)
        memcpy(value + current->value_length, write->value, write->value_length);
    entry->value = value;
    okv_store_entry_seal_extent(entry, &store->table);
    return 0;
}

static int append_to_current(struct okv_store *store, struct okv_store_work *work,
                             const struct okv_store_write *write, struct target *target,
                             struct okv_store_outcome *outcome)
{
    const struct okv_entry *current = target->current;
    uint8_t both[OKV_BUCKET_SIZE_MAX];
    struct okv_entry entry;
    uint64_t length = (uint64_t)current->value_length + write->value_length;
    int rc = 0;

    if (length > store->max_value)
        return OKV_EVALUESIZE;
    if (length > sizeof both) {
        rc = extent_of_both(store, write, current, (uint32_t)length, &entry);
        work->bytes += length;
    } else {
        memcpy(both, current->value, current->value_length);
        if (write->value_length)
            memcpy(both + current->value_length, write->value, write->value_length);
        entry = entry_of_value(write->key, write->key_length, both, (uint32_t)length);
    }
    if (rc)
        return rc;
    entry.expiry_ms = current->expiry_ms;
    rc = replace(store, work, write, target, &entry, &outcome->version);
    if (rc && entry.extent)
        okv_heap_free(&store->heap, entry.extent);
    outcome->length = rc ? 0 : length;
    return rc;
}

static int append(struct okv_store *store, struct okv_store_work *work,
                  const struct okv_store_write *write, struct target *target,
                  struct okv_store_outcome *outcome)
{
    const struct okv_entry *current = target->current;

    if (write->long_value && write->long_value->extent)
        return replace_source(store, work, write, target, current ? current->expiry_ms : 0,
                              outcome);
    if (current && current->extent && current->value_length >= OKV_STORE_LONG_MIN)
        return (uint64_t)current->value_length + write->value_length > store->max_value
                   ? OKV_EVALUESIZE
                   : take_source(store, write, current);
    if (current)
        return append_to_current(store, work, write, target, outcome);
    const struct okv_entry entry =
        entry_of_value(write->key, write->key_length, write->value, write->value_length);
    int rc = replace(store, work, write, target, &entry, &outcome->version);
    outcome->length = rc ? 0 : write->value_length;
    return rc;
}

static int modify(struct okv_store *store, struct okv_store_work *work,
                  const struct okv_store_write *write, struct target *target,
                  struct okv_store_outcome *outcome)
{
    const struct okv_entry *current = target->current;
    struct okv_store_now now = {0};
    struct okv_store_next next = {0};
    uint64_t ignored;

    if (current)
        now = (struct okv_store_now){.value = current->value,
                                     .value_length = current->value_length,
                                     .version = current->version,
                                     .expiry_ms = current->expiry_ms,
                                     .extent = current->extent};
    int rc = write->decide(write->user, current ? &now : NULL, &next);
    if (rc == OKV_STORE_REMOVE) {
        rc = current ? replace(store, work, write, target, NULL, &ignored) : OKV_ENOTFOUND;
        outcome->is_removed = rc == 0;
        return rc;
    }
    if (rc)
        return rc;
    outcome->length = next.value_length;
    if (next.value_length > store->max_value)
        return OKV_EVALUESIZE;
    bool is_long =
        write->long_value && next.value == okv_store_long_bytes(store, write->long_value);
    struct okv_entry entry =
        is_long ? entry_of_long_value(store, write)
        : current && next.value == now.value
            ? *current
            : entry_of_value(write->key, write->key_length, next.value, next.value_length);
    entry.expiry_ms = next.expiry_ms;
    rc = replace(store, work, write, target, &entry, &outcome->version);
    if (rc == 0 && is_long)
        write->long_value->extent = 0;
    return rc;
}

/* ---- the calls ---- */

static int make_once(change *make, struct okv_store *store, struct okv_store_work *work,
                     const struct okv_store_write *write, struct okv_store_outcome *outcome)
{
    struct target target;
    int rc = target_open(store, work, write, outcome, &target);

    if (rc)
        return rc;
    rc = make(store, work, write, &target, outcome);
    target_close(store, work, &target, rc);
    return rc;
}

/* While a series of merges is under way, a change waits that can, and that does not insist. */
static int attempt(change *make, struct okv_store *store, struct okv_store_work *work,
                   const struct okv_store_write *write, struct okv_store_outcome *outcome,
                   bool insists)
{
    if (!okv_store_room_is_kept(store, work) || write->cannot_wait || insists)
        return make_once(make, store, work, write, outcome);
    outcome->length = 0;
    return OKV_EFULL;
}

/* Bytes of the item's extent, if it is not inline. */
static uint64_t extent_length(const struct okv_store *store, const struct okv_store_write *write,
                              const struct okv_store_outcome *outcome)
{
    uint64_t length = write->decide ? outcome->length : write->value_length;

    if (!okv_store_key_goes_to_extent(&store->table, write->key_length, (uint32_t)length))
        return length;
    return length + write->key_length;
}

/* Tries again after making room in the heap. Nothing makes room in a full bucket, and the attempt
 * would cost other clients time. */
static int make_with_room(change *make, struct okv_store *store, struct okv_store_work *work,
                          const struct okv_store_write *write, struct okv_store_outcome *outcome)
{
    struct okv_store_search search;
    int rc = attempt(make, store, work, write, outcome, false);
    uint64_t size = extent_length(store, write, outcome);

    if (rc == OKV_EFULL)
        okv_store_search_begin(&search, store, work,
                               &(struct okv_store_room_terms){
                                   .steps = write->steps,
                                   .cannot_wait = write->cannot_wait,
                                   .waits_for_log = okv_store_is_collecting(&store->table)});
    while (rc == OKV_EFULL) {
        rc = okv_store_search_room(store, work, size, &search);
        if (rc)
            return rc;
        rc = attempt(make, store, work, write, outcome, search.is_over);
    }
    if (rc == 0)
        okv_store_note_taken(store);
    return rc;
}

int okv_store_put(struct okv_store *store, struct okv_store_work *work,
                  const struct okv_store_write *write, struct okv_store_outcome *outcome)
{
    *outcome = (struct okv_store_outcome){0};
    if (write->value_length > store->max_value)
        return OKV_EVALUESIZE;
    return make_with_room(put, store, work, write, outcome);
}

int okv_store_append(struct okv_store *store, struct okv_store_work *work,
                     const struct okv_store_write *write, struct okv_store_outcome *outcome)
{
    *outcome = (struct okv_store_outcome){0};
    if (write->value_length > store->max_value)
        return OKV_EVALUESIZE;
    return make_with_room(append, store, work, write, outcome);
}

int okv_store_incr(struct okv_store *store, struct okv_store_work *work,
                   const struct okv_store_write *write, struct okv_store_outcome *outcome)
{
    return make_with_room(incr, store, work, write, outcome);
}

int okv_store_touch(struct okv_store *store, struct okv_store_work *work,
                    const struct okv_store_write *write, struct okv_store_outcome *outcome)
{
    return make_with_room(touch, store, work, write, outcome);
}

int okv_store_modify(struct okv_store *store, struct okv_store_work *work,
                     const struct okv_store_write *write, struct okv_store_outcome *outcome)
{
    int rc = make_with_room(modify, store, work, write, outcome);

    return rc == OKV_STORE_KEEP ? 0 : rc;
}

int okv_store_delete(struct okv_store *store, struct okv_store_work *work,
                     const struct okv_store_write *write, struct okv_store_outcome *outcome)
{
    return make_once(erase, store, work, write, outcome);
}
