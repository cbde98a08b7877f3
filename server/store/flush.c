#include "server/store/flush.h"

#include "server/store/bucket_image.h"
#include "server/store/bucket_transaction.h"
#include "server/store/locking.h"
#include "server/store/pending.h"
#include "server/store/resize.h"

/* Buckets emptied in one step of a flush, beside those that splits made since the last step. */
#define FLUSH_STEP 512
/* Pages taken apart in one step; the bucket with the last of them may have more. */
#define FLUSH_PAGES 100
/* Merges at the end of one step. */
#define FLUSH_MERGES 50

static int empty_bucket(struct okv_store *store, struct okv_store_work *work, uint64_t number)
{
    struct okv_store_record removals = {.kind = OKV_STORE_LOG_REMOVAL};
    struct okv_store_bucket *bucket = &work->bucket;

    okv_store_lock(store, number);
    int rc = okv_store_transaction_load(store, work, number);
    if (rc || bucket->published.items == 0)
        goto unlock;
    while (bucket->item_count > 0)
        okv_store_bucket_remove_logged(bucket, &bucket->items[bucket->item_count - 1]);
    rc = okv_store_transaction_commit_logged(store, work, &removals);
unlock:
    okv_store_unlock(store, number);
    return rc;
}

/* Whether a step that began at this number of loaded pages goes on: a batch of the log is one
 * frame, which has to fit memory and disk. */
static bool goes_on(const struct okv_store *store, const struct okv_store_work *work,
                    unsigned pages)
{
    return work->loaded_pages - pages < FLUSH_PAGES && !okv_store_is_throttled(&store->table);
}

/* Empties buckets below *next, down to `to`, as far as the step goes. *next is where it stopped. */
static int empty_downwards(struct okv_store *store, struct okv_store_work *work, uint64_t *next,
                           uint64_t to)
{
    unsigned pages = work->loaded_pages;
    int rc = 0;

    for (; *next > to && rc == 0 && goes_on(store, work, pages); *next -= rc == 0)
        rc = empty_bucket(store, work, *next - 1);
    return rc;
}

/* Empties buckets from *next on, up to `end`, likewise. */
static int empty_upwards(struct okv_store *store, struct okv_store_work *work, uint64_t *next,
                         uint64_t end)
{
    unsigned pages = work->loaded_pages;
    int rc = 0;

    for (; *next < end && rc == 0 && goes_on(store, work, pages); *next += rc == 0)
        rc = empty_bucket(store, work, *next);
    return rc;
}

/* Goes downwards. A merge moves items to a lower bucket, which a later step empties. A split moves
 * items to a higher bucket: after s splits, the s highest buckets are emptied first, upwards, so
 * that those of later splits follow. During a step there is no split. */
int okv_store_flush(struct okv_store *store, struct okv_store_work *work, uint64_t *next,
                    uint64_t *splits)
{
    pthread_mutex_lock(&store->resizing);
    uint64_t count = atomic_load(&store->bucket_count);
    uint64_t seen = atomic_load(&store->totals.splits);
    uint64_t since = *next ? seen - *splits : 0;
    uint64_t from = *next == 0 || *next > count ? count : *next;
    uint64_t to = from > FLUSH_STEP ? from - FLUSH_STEP : 0;
    uint64_t fresh = count - from > since ? count - since : from;
    int rc = empty_upwards(store, work, &fresh, count);

    if (!rc && fresh == count)
        rc = empty_downwards(store, work, &from, to);
    pthread_mutex_unlock(&store->resizing);
    if (rc)
        return rc;
    if (fresh == count)
        okv_store_shrink(store, work, FLUSH_MERGES);
    *next = from;
    *splits = seen - (count - fresh);
    return 0;
}
