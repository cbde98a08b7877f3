#include "server/store/bucket_transaction.h"

#include <stdlib.h>

#include "server/store/bucket_image.h"
#include "server/store/evict_item.h"
#include "shared/base/error.h"

int okv_store_transaction_load_at(struct okv_store *store, struct okv_store_work *work,
                                  uint64_t number, uint64_t clock_ms)
{
    int rc = okv_store_bucket_load(&work->bucket, &store->table, number);

    if (rc)
        return rc;
    work->loaded_pages += work->bucket.published_pages;
    okv_store_bucket_expire(&work->bucket, clock_ms);
    for (unsigned i = 0; i < work->bucket.expired; i++)
        okv_store_note_gone(&store->table, &work->bucket.items[work->bucket.item_count + i]);
    return 0;
}

int okv_store_transaction_load(struct okv_store *store, struct okv_store_work *work,
                               uint64_t number)
{
    return okv_store_transaction_load_at(store, work, number, atomic_load(&store->clock_ms));
}

static void add_change(atomic_uint_fast64_t *total, uint64_t before, uint64_t after)
{
    if (before != after) /* unsigned arithmetic wraps, so a decrease works too */
        atomic_fetch_add_explicit(total, after - before, memory_order_relaxed);
}

void okv_store_count_difference(struct okv_store *store, const struct okv_store_tally *before,
                                const struct okv_store_tally *after)
{
    struct okv_store_totals *totals = &store->totals;

    add_change(&totals->items, before->items, after->items);
    add_change(&totals->user_bytes, before->user_bytes, after->user_bytes);
    add_change(&totals->entry_bytes, before->entry_bytes, after->entry_bytes);
    add_change(&totals->references, before->references, after->references);
    add_change(&totals->extra_reads, before->extra_reads, after->extra_reads);
    add_change(&totals->expiring, before->expiring, after->expiring);
    add_change(&totals->overflow_pages, before->overflow_pages, after->overflow_pages);
    add_change(&totals->heat_bytes, before->heat_bytes, after->heat_bytes);
    add_change(&totals->new_bytes, before->new_bytes, after->new_bytes);
}

void okv_store_count_evicted(struct okv_store *store, const struct okv_store_evicted *evicted)
{
    struct okv_store_eviction *eviction = &store->eviction;

    add_change(&eviction->evicted_new, 0, evicted->of_new);
    add_change(&eviction->evicted_main, 0, evicted->of_main);
    add_change(&eviction->evicted_in_bucket, 0, evicted->in_bucket);
    add_change(&eviction->evicted_bytes, 0, evicted->bytes);
    add_change(&eviction->puts_of_evicted, 0, evicted->came_back);
    okv_store_count_crowding(store, evicted);
}

void okv_store_count_change(struct okv_store *store, const struct okv_store_bucket *bucket)
{
    okv_store_count_difference(store, &bucket->published, &bucket->changed);
    add_change(&store->totals.expired, 0, bucket->expired);
    okv_store_count_evicted(store, &bucket->evicted);
}

static int log_change(const struct okv_store *store, const struct okv_store_bucket *bucket,
                      struct okv_store_record *record)
{
    size_t count = bucket->gone + (record->key != NULL);

    record->version = bucket->next_version;
    if (!store->table.pending || count == 0)
        return 0;
    if (bucket->gone == 0)
        return okv_store_log_add(&store->table, record, 1);
    struct okv_store_record *records = malloc(count * sizeof *records);
    if (!records)
        return OKV_ENOMEM;
    records[count - 1] = *record;
    okv_store_bucket_gone(bucket, record->key ? OKV_STORE_LOG_EVICTION : record->kind, records);
    int rc = okv_store_log_add(&store->table, records, count);
    free(records);
    return rc;
}

int okv_store_transaction_commit(struct okv_store *store, struct okv_store_work *work)
{
    struct okv_store_record none = {.key = NULL};

    return okv_store_transaction_commit_logged(store, work, &none);
}

int okv_store_transaction_commit_logged(struct okv_store *store, struct okv_store_work *work,
                                        struct okv_store_record *record)
{
    int rc = okv_store_bucket_prepare(&work->bucket, &store->table);

    if (rc)
        return rc;
    rc = log_change(store, &work->bucket, record);
    if (rc) {
        okv_store_bucket_cancel(&work->bucket, &store->table);
        return rc;
    }
    okv_store_bucket_publish(&work->bucket, &store->table);
    okv_store_bucket_finish(&work->bucket, &store->table);
    okv_store_count_change(store, &work->bucket);
    return 0;
}
