#include "server/store/locking.h"

static pthread_mutex_t *lock_of(struct okv_store *store, uint64_t bucket)
{
    return &store->locks[bucket % OKV_STORE_LOCKS];
}

void okv_store_lock(struct okv_store *store, uint64_t bucket)
{
    pthread_mutex_lock(lock_of(store, bucket));
}

void okv_store_unlock(struct okv_store *store, uint64_t bucket)
{
    pthread_mutex_unlock(lock_of(store, bucket));
}

/* A resize that moves this hash to another bucket holds the one lock of both, so the number stays
 * right while the lock is held. */
uint64_t okv_store_lock_hash(struct okv_store *store, uint64_t hash)
{
    for (;;) {
        uint64_t count = atomic_load(&store->bucket_count);
        uint64_t bucket = okv_linear_bucket(hash, count);
        okv_store_lock(store, bucket);
        uint64_t locked_count = atomic_load(&store->bucket_count);
        if (locked_count == count || okv_linear_bucket(hash, locked_count) == bucket)
            return bucket;
        okv_store_unlock(store, bucket);
    }
}
