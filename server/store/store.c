#include "server/store/store.h"

#include <stdlib.h>
#include <string.h>

#include "server/core/turn.h"
#include "server/store/bucket_image.h"
#include "server/store/clear.h"
#include "server/store/evict_item.h"
#include "server/store/heap_range.h"
#include "server/store/locking.h"
#include "server/store/pending.h"
#include "server/store/resize.h"
#include "server/store/status.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

#define PAGE 4096u

int okv_store_work_init(struct okv_store_work *work, uint32_t bucket_size)
{
    int rc = okv_store_bucket_init(&work->bucket, bucket_size);

    if (rc)
        return rc;
    rc = okv_store_bucket_init(&work->sibling, bucket_size);
    if (rc)
        goto fini_bucket;
    work->update = (struct okv_store_update){.image = malloc(bucket_size)};
    work->loaded_pages = 0;
    work->bytes = 0;
    work->room_steps = 0;
    work->in_steps = false;
    work->effort = NULL;
    if (work->update.image)
        return 0;
    rc = OKV_ENOMEM;
    okv_store_bucket_fini(&work->sibling);
fini_bucket:
    okv_store_bucket_fini(&work->bucket);
    return rc;
}

void okv_store_work_fini(struct okv_store_work *work)
{
    free(work->update.image);
    okv_store_bucket_fini(&work->sibling);
    okv_store_bucket_fini(&work->bucket);
}

uint64_t okv_store_work_take(struct okv_store_work *work)
{
    uint64_t spent = (uint64_t)work->loaded_pages * OKV_TURN_ITEM + work->bytes;

    work->loaded_pages = 0;
    work->bytes = 0;
    return spent;
}

/* ---- the empty table ---- */

static uint32_t choose_inline_max(const struct okv_store_params *params)
{
    uint32_t room = okv_bucket_room(params->bucket_size);

    if (params->inline_max == 0)
        return room / 3;
    return params->inline_max < room ? params->inline_max : room;
}

/* The shortest segments with which the directory covers the whole region. */
static uint32_t choose_segment_buckets(const struct okv_store_params *params)
{
    uint32_t buckets = OKV_SEGMENT_BUCKETS_MIN;

    while (buckets < OKV_SEGMENT_BUCKETS_MAX &&
           (uint64_t)buckets * params->bucket_size * OKV_DIRECTORY_ENTRIES < params->length)
        buckets *= 2;
    return buckets;
}

static uint64_t choose_buckets_max(const struct okv_store_params *params, uint32_t segment_buckets)
{
    uint64_t percent = params->index_percent ? params->index_percent : OKV_INDEX_PERCENT_DEFAULT;
    uint64_t most = params->length / 100 * percent / params->bucket_size;
    uint64_t named = (uint64_t)segment_buckets * OKV_DIRECTORY_ENTRIES;

    if (most < OKV_STORE_BUCKETS_MIN)
        most = OKV_STORE_BUCKETS_MIN;
    return most < named ? most : named;
}

static bool params_valid(const struct okv_store_params *params)
{
    return params->base && (uintptr_t)params->base % PAGE == 0 && params->length % PAGE == 0 &&
           params->length >= OKV_HEAP_OFFSET + PAGE && okv_bucket_size_valid(params->bucket_size) &&
           params->boot_id != 0 && params->max_value <= OKV_VALUE_MAX &&
           params->extra_reads <= 1000 && params->index_percent <= 100;
}

static void write_superblock(const struct okv_store *store)
{
    const struct okv_table *table = &store->table;
    const struct okv_superblock block = {
        .boot_id = table->boot_id,
        .hash_seed = store->table.hash_seed,
        .region_length = store->length,
        .directory_offset = OKV_DIRECTORY_OFFSET,
        .directory_entries = OKV_DIRECTORY_ENTRIES,
        .segment_buckets = table->segment_buckets,
        .boot_wall_ms = okv_clock_wall_ms(),
        .bucket_size = table->bucket_size,
    };

    okv_superblock_encode(&block, (struct okv_wire_superblock *)table->base);
}

uint64_t okv_store_hash_seed(struct okv_store *store)
{
    pthread_mutex_lock(&store->publishing);
    uint64_t hash_seed = store->table.hash_seed;
    pthread_mutex_unlock(&store->publishing);
    return hash_seed;
}

void okv_store_set_hash_seed(struct okv_store *store, uint64_t hash_seed)
{
    pthread_mutex_lock(&store->publishing);
    store->table.hash_seed = hash_seed;
    write_superblock(store);
    pthread_mutex_unlock(&store->publishing);
}

static void locks_init(struct okv_store *store)
{
    pthread_mutex_init(&store->resizing, NULL);
    pthread_mutex_init(&store->publishing, NULL);
    for (unsigned i = 0; i < OKV_STORE_LOCKS; i++)
        pthread_mutex_init(&store->locks[i], NULL);
}

int okv_store_init(struct okv_store *store, const struct okv_store_params *params)
{
    if (!params_valid(params))
        return OKV_EINVAL;
    uint32_t segment_buckets = choose_segment_buckets(params);
    *store = (struct okv_store){
        .table =
            {
                .base = params->base,
                .heap = &store->heap,
                .boot_id = params->boot_id,
                .hash_seed = params->hash_seed,
                .bucket_size = params->bucket_size,
                .inline_max = choose_inline_max(params),
                .segment_buckets = segment_buckets,
            },
        .length = params->length,
        .buckets_max = choose_buckets_max(params, segment_buckets),
        .max_value = params->max_value,
        .extra_reads = params->extra_reads,
        .clock_ms = 1,
        .valid_until_us = OKV_STORE_ALONE,
    };
    int rc = okv_heap_init(&store->heap, params->base, OKV_HEAP_OFFSET, params->length);
    if (rc)
        return rc;
    store->heap.wipes = params->wipe;
    locks_init(store);
    if (params->full != OKV_STORE_REFUSE) {
        store->table.heat = okv_heat_create(store->buckets_max, params->bucket_size);
        store->eviction.mode = params->full;
        store->table.evicts_expiring = params->full == OKV_STORE_EVICT_EXPIRING;
        store->eviction.clearing = okv_store_clearing_create();
        store->table.ages = okv_ages_create(&store->clock_ms, &store->totals.items);
        rc = store->table.heat && store->eviction.clearing && store->table.ages
                 ? okv_heap_keep_owners(&store->heap)
                 : OKV_ENOMEM;
    }
    if (!rc)
        rc = okv_store_index_create(store);
    if (rc) {
        okv_store_fini(store);
        return rc;
    }
    write_superblock(store);
    okv_store_publish_status(store);
    return 0;
}

void okv_store_fini(struct okv_store *store)
{
    for (unsigned i = 0; i < OKV_STORE_LOCKS; i++)
        pthread_mutex_destroy(&store->locks[i]);
    pthread_mutex_destroy(&store->publishing);
    pthread_mutex_destroy(&store->resizing);
    okv_store_clearing_destroy(store->eviction.clearing);
    free(store->table.ages);
    okv_heat_destroy(store->table.heat);
    okv_heap_fini(&store->heap);
}

void okv_store_set_clock(struct okv_store *store, uint64_t clock_ms, bool publish)
{
    uint64_t before = atomic_load(&store->clock_ms);

    while (before < clock_ms && !atomic_compare_exchange_weak(&store->clock_ms, &before, clock_ms))
        ;
    if (publish)
        okv_store_publish_status(store);
}

uint64_t okv_store_clock_wall_ms(const struct okv_store *store)
{
    uint64_t wall_ms = okv_clock_wall_ms(), clock_ms = atomic_load(&store->clock_ms);
    uint64_t origin_ms = atomic_load(&store->clock_origin_ms);
    uint64_t exact_ms = okv_clock_boot_ms() - origin_ms;

    if (origin_ms == 0 || exact_ms < clock_ms || exact_ms - clock_ms > wall_ms)
        return wall_ms;
    return wall_ms - (exact_ms - clock_ms);
}

/* The waits for memory overlap: else each of them would take longer than all else. */
void okv_store_mark(struct okv_store *store, const uint8_t *hashes, size_t count)
{
    const struct okv_heat *heat = store->table.heat;
    uint64_t buckets = atomic_load(&store->bucket_count);

    for (size_t i = 0; i < count; i++)
        okv_heat_prefetch(heat, okv_linear_bucket(okv_get_u64(hashes + 8 * i), buckets));
    for (size_t i = 0; i < count; i++) {
        uint64_t hash = okv_get_u64(hashes + 8 * i);
        okv_store_note_use(&store->table, okv_linear_bucket(hash, buckets), hash);
    }
}

uint64_t okv_store_index_length(const struct okv_store *store)
{
    uint64_t segment = (uint64_t)store->table.segment_buckets * store->table.bucket_size;

    return atomic_load(&store->index_length) +
           (atomic_load(&store->reserve) ? okv_heap_size(segment) : 0);
}

uint64_t okv_store_overflow_length(const struct okv_store *store)
{
    return atomic_load(&store->totals.overflow_pages) * okv_heap_size(store->table.bucket_size);
}

/* ---- reading ---- */

/* Finds a key in the published pages, or in the newest ones. Adds those that it searched to
 * `*pages`. The bucket is locked. */
static int find(const struct okv_table *table, uint64_t bucket, uint64_t hash, const void *key,
                uint32_t key_length, bool newest, struct okv_entry *out, unsigned *pages)
{
    uint64_t offset = okv_table_bucket_offset(table, bucket);

    for (unsigned page = 0; offset; page++) {
        const uint8_t *image =
            newest ? okv_store_current_image(table, bucket, page, offset) : table->base + offset;
        uint32_t position = 0;
        int rc;
        (*pages)++;
        while ((rc = okv_bucket_find(image, hash, key, key_length, &position, out)) == 1) {
            if (!out->is_reference)
                return 0;
            out->value = table->base + out->extent;
            if (!out->key_in_extent)
                return 0;
            if (memcmp(out->value, key, key_length) == 0) {
                out->value += key_length;
                return 0;
            }
        }
        if (rc)
            return rc;
        offset = okv_bucket_chain(image);
    }
    return OKV_ENOTFOUND;
}

/* How many are known, which a use does not ask for. */
static uint8_t uses_of(const struct okv_heat *heat, uint64_t bucket, uint64_t hash, bool is_use)
{
    return heat && !is_use
               ? (uint8_t)okv_heat_counter_of(okv_heat_of(heat, bucket, okv_hash_tag(hash)))
               : 0;
}

int okv_store_look(struct okv_store *store, struct okv_store_work *work, const void *key,
                   uint32_t key_length, const struct okv_store_view *view, okv_store_visit *visit,
                   void *user)
{
    if (key_length == 0 || key_length > OKV_KEY_MAX)
        return OKV_EKEYSIZE;

    uint64_t hash = okv_hash_key(key, key_length, store->table.hash_seed);
    struct okv_entry entry;
    unsigned pages = 0;
    uint64_t bucket = okv_store_lock_hash(store, hash);
    int rc = find(&store->table, bucket, hash, key, key_length, view->newest, &entry, &pages);
    if (!rc && okv_entry_is_expired(&entry, view->clock_ms ? view->clock_ms
                                                           : atomic_load(&store->clock_ms)))
        rc = OKV_ENOTFOUND;
    if (!rc) {
        const struct okv_store_now now = {entry.value,
                                          entry.value_length,
                                          entry.version,
                                          entry.expiry_ms,
                                          entry.is_reference ? entry.extent : 0,
                                          uses_of(store->table.heat, bucket, hash, view->is_use)};
        rc = visit(user, &now);
        if (rc >= 0 && view->is_use && store->table.heat)
            okv_store_note_use(&store->table, bucket, hash);
    }
    okv_store_unlock(store, bucket);
    if (work)
        work->loaded_pages += pages;
    return rc;
}

struct copy {
    void *buffer;
    uint32_t size;
    uint32_t *length;
    uint64_t *version;
};

static int copy_value(void *user, const struct okv_store_now *now)
{
    const struct copy *copy = user;

    *copy->length = now->value_length;
    *copy->version = now->version;
    if (now->value_length > copy->size)
        return OKV_ETOOSMALL;
    if (now->value_length)
        memcpy(copy->buffer, now->value, now->value_length);
    return 0;
}

int okv_store_get(struct okv_store *store, struct okv_store_work *work, const void *key,
                  uint32_t key_length, void *buffer, uint32_t size, uint32_t *length,
                  uint64_t *version)
{
    struct copy copy = {buffer, size, length, version};
    int rc = okv_store_look(store, work, key, key_length, &(struct okv_store_view){.is_use = true},
                            copy_value, &copy);

    if (work && rc == 0)
        work->bytes += *length;
    return rc;
}
