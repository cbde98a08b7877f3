#include "server/store/pending.h"

#include <stdlib.h>
#include <string.h>

#include "server/store/locking.h"
#include "server/store/publish.h"
#include "shared/base/error.h"

struct okv_store_pending_bucket {
    struct okv_store_pending_bucket *next;
    struct okv_store_pending_bucket *replaced; /* by this larger one, until it is staged */
    uint64_t number;
    unsigned pages;    /* 0: reserved, and nothing was put */
    unsigned capacity; /* pages */
    uint64_t offset[OKV_BUCKET_PAGES_MAX];
    uint8_t images[];
};

static struct okv_store_pending_bucket **find(const struct okv_table *table, uint64_t number)
{
    struct okv_store_pending_bucket **link = &table->pending->buckets[number % OKV_STORE_LOCKS];

    while (*link && (*link)->number != number)
        link = &(*link)->next;
    return link;
}

const uint8_t *okv_store_current_image(const struct okv_table *table, uint64_t number,
                                       unsigned page, uint64_t offset)
{
    const struct okv_store_pending_bucket *bucket =
        okv_store_is_collecting(table) ? *find(table, number) : NULL;

    if (bucket && page < bucket->pages)
        return bucket->images + (size_t)page * table->bucket_size;
    return table->base + offset;
}

int okv_store_pending_reserve(const struct okv_table *table, uint64_t number, unsigned pages)
{
    if (!okv_store_is_collecting(table))
        return 0;
    struct okv_store_pending_bucket **link = find(table, number), *bucket = *link;
    if (bucket && bucket->capacity >= pages)
        return 0;
    struct okv_store_pending_bucket *larger =
        malloc(sizeof *larger + (size_t)pages * table->bucket_size);
    if (!larger)
        return OKV_ENOMEM;
    *larger = (struct okv_store_pending_bucket){.number = number};
    if (bucket) {
        memcpy(larger, bucket, sizeof *bucket + (size_t)bucket->pages * table->bucket_size);
        larger->replaced = bucket;
    }
    larger->capacity = pages;
    *link = larger;
    return 0;
}

static void free_replaced(struct okv_store_pending_bucket *bucket)
{
    struct okv_store_pending_bucket *replaced;

    while ((replaced = bucket->replaced)) {
        bucket->replaced = replaced->replaced;
        free(replaced);
    }
}

static void stage(const struct okv_table *table, const struct okv_store_images *images)
{
    struct okv_store_pending_bucket *bucket = *find(table, images->number);

    bucket->pages = images->pages;
    memcpy(bucket->offset, images->offset, images->pages * sizeof *images->offset);
    memcpy(bucket->images, images->bytes, (size_t)images->pages * table->bucket_size);
    free_replaced(bucket);
}

void okv_store_publish_or_stage(const struct okv_table *table,
                                const struct okv_store_images *images)
{
    if (okv_store_is_collecting(table)) {
        stage(table, images);
        return;
    }
    okv_store_before_change(table, images->number);
    okv_store_publish(table, images);
}

void okv_store_free(const struct okv_table *table, uint64_t offset)
{
    struct okv_store_pending *pending = table->pending;

    if (!okv_store_is_collecting(table)) {
        okv_heap_free(table->heap, offset);
        return;
    }
    pthread_mutex_lock(&pending->lock);
    if (pending->freed_count == pending->freed_capacity) {
        size_t capacity = pending->freed_capacity ? 2 * pending->freed_capacity : 256;
        uint64_t *larger = realloc(pending->freed, capacity * sizeof *larger);
        if (larger) {
            pending->freed = larger;
            pending->freed_capacity = capacity;
        }
    }
    /* Without memory for the list this one is lost until the next start. */
    if (pending->freed_count < pending->freed_capacity) {
        pending->freed[pending->freed_count++] = offset;
        atomic_fetch_add(&pending->freed_size, okv_heap_size_at(table->heap, offset));
    }
    pthread_mutex_unlock(&pending->lock);
}

/* ---- a batch ---- */

static void publish_bucket(const struct okv_table *table,
                           const struct okv_store_pending_bucket *bucket)
{
    const struct okv_store_images images = {.number = bucket->number,
                                            .pages = bucket->pages,
                                            .bytes = bucket->images,
                                            .offset = bucket->offset,
                                            .primary_lines = table->bucket_size};

    if (bucket->pages > 0)
        okv_store_publish(table, &images);
}

void okv_store_pending_each(struct okv_store *store, void (*each)(void *user, uint64_t number),
                            void *user)
{
    for (unsigned lock = 0; lock < OKV_STORE_LOCKS; lock++)
        for (const struct okv_store_pending_bucket *bucket = store->table.pending->buckets[lock];
             bucket; bucket = bucket->next)
            if (bucket->pages > 0)
                each(user, bucket->number);
}

static void empty(struct okv_store *store, bool is_published)
{
    struct okv_store_pending *pending = store->table.pending;
    struct okv_store_pending_bucket *bucket;

    for (uint64_t lock = 0; lock < OKV_STORE_LOCKS; lock++) {
        okv_store_lock(store, lock);
        while ((bucket = pending->buckets[lock])) {
            if (is_published)
                publish_bucket(&store->table, bucket);
            pending->buckets[lock] = bucket->next;
            free_replaced(bucket);
            free(bucket);
        }
        okv_store_unlock(store, lock);
    }
}

void okv_store_pending_publish(struct okv_store *store)
{
    struct okv_store_pending *pending = store->table.pending;

    empty(store, true);
    for (size_t i = 0; i < pending->freed_count; i++)
        okv_heap_free(&store->heap, pending->freed[i]);
    pending->freed_count = 0;
    atomic_store(&pending->freed_size, 0);
    atomic_fetch_add(&pending->batches, 1);
}

void okv_store_pending_discard(struct okv_store *store)
{
    empty(store, false);
    store->table.pending->freed_count = 0;
    atomic_store(&store->table.pending->freed_size, 0);
}

/* ---- the slack, and room for a change ---- */

static uint64_t slack_piece(const struct okv_store *store)
{
    return store->length / OKV_STORE_SLACK_SHARE / OKV_STORE_SLACK_PIECES;
}

void okv_store_take_slack(struct okv_store *store)
{
    struct okv_store_pending *pending = store->table.pending;
    unsigned count = atomic_load(&pending->slack_count);
    uint64_t offset;

    while (count < OKV_STORE_SLACK_PIECES &&
           (offset = okv_heap_alloc(&store->heap, slack_piece(store)))) {
        pending->slack[count++] = offset;
        atomic_store(&pending->slack_count, count);
    }
}

void okv_store_release_slack(struct okv_store *store)
{
    struct okv_store_pending *pending = store->table.pending;

    for (unsigned i = atomic_exchange(&pending->slack_count, 0); i-- > 0;)
        okv_heap_free_unwritten(&store->heap, pending->slack[i]);
}

void okv_store_pending_follow(struct okv_store *store, bool follows)
{
    atomic_store(&store->eviction.is_of_another, follows);
}

uint64_t okv_store_slack_length(const struct okv_store *store)
{
    struct okv_store_pending *pending = store->table.pending;

    return pending ? atomic_load(&pending->slack_count) * okv_heap_size(slack_piece(store)) : 0;
}

bool okv_store_pending_waits_for_room(struct okv_store *store, uint64_t size)
{
    struct okv_store_pending *pending = store->table.pending;

    pthread_mutex_lock(&pending->lock);
    bool frees = pending->freed_count > 0;
    pthread_mutex_unlock(&pending->lock);
    if (!frees && !okv_heap_frees_later(&store->heap, size) && atomic_load(&pending->is_exhausted))
        return false;
    atomic_store(&pending->wants_room, size);
    pending->log.wake(pending->log.user);
    return true;
}

void okv_store_pending_set_direct(struct okv_store *store, bool is_direct)
{
    store->table.pending->is_direct = store->table.pending->is_direct_at_rest = is_direct;
}

int okv_store_pending_begin(struct okv_store *store, const struct okv_store_log *log)
{
    struct okv_store_pending *pending = calloc(1, sizeof *pending);

    if (!pending)
        return OKV_ENOMEM;
    pending->log = *log;
    pthread_mutex_init(&pending->lock, NULL);
    store->table.pending = pending;
    return 0;
}

void okv_store_pending_end(struct okv_store *store)
{
    struct okv_store_pending *pending = store->table.pending;

    if (!pending)
        return;
    empty(store, false);
    okv_store_release_slack(store);
    pthread_mutex_destroy(&pending->lock);
    free(pending->freed);
    free(pending);
    store->table.pending = NULL;
}
