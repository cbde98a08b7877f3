#include "server/command/exclusive.h"

/* The others have this many times as long. */
#define REST 4u

void okv_exclusive_init(struct okv_exclusive *exclusive)
{
    pthread_rwlockattr_t attributes;

    atomic_init(&exclusive->ended, 0);
    atomic_init(&exclusive->rest_ns, 0);
    pthread_rwlockattr_init(&attributes);
    /* An exclusive command would otherwise wait for ever while sharers come and go. */
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&exclusive->lock, &attributes);
    pthread_rwlockattr_destroy(&attributes);
}

void okv_exclusive_fini(struct okv_exclusive *exclusive)
{
    pthread_rwlock_destroy(&exclusive->lock);
}

bool okv_exclusive_share(struct okv_exclusive *exclusive, uint64_t *ticket)
{
    if (exclusive && pthread_rwlock_tryrdlock(&exclusive->lock)) {
        uint64_t now = atomic_load(&exclusive->ended) + 1; /* 0: no ticket */
        *ticket = *ticket ? *ticket : now;
        if (now - *ticket < OKV_EXCLUSIVE_BATCH)
            return false;
        pthread_rwlock_rdlock(&exclusive->lock);
    }
    *ticket = 0;
    return true;
}

void okv_exclusive_unshare(struct okv_exclusive *exclusive)
{
    if (exclusive)
        pthread_rwlock_unlock(&exclusive->lock);
}

bool okv_exclusive_may_begin(const struct okv_exclusive *exclusive, uint64_t now_ns)
{
    return atomic_load(&exclusive->rest_ns) <= now_ns + REST * OKV_EXCLUSIVE_BURST_NS;
}

/* The thread had the lock exclusively. */
static void share_again(struct okv_exclusive *exclusive)
{
    pthread_rwlock_unlock(&exclusive->lock);
    pthread_rwlock_rdlock(&exclusive->lock);
}

bool okv_exclusive_begin(struct okv_exclusive *exclusive, uint64_t now_ns)
{
    pthread_rwlock_unlock(&exclusive->lock);
    pthread_rwlock_wrlock(&exclusive->lock);
    if (okv_exclusive_may_begin(exclusive, now_ns))
        return true;
    share_again(exclusive);
    return false;
}

void okv_exclusive_end(struct okv_exclusive *exclusive, uint64_t now_ns, uint64_t took_ns)
{
    uint64_t rest_ns = atomic_load(&exclusive->rest_ns);

    atomic_store(&exclusive->rest_ns, (rest_ns > now_ns ? rest_ns : now_ns) + REST * took_ns);
    atomic_fetch_add(&exclusive->ended, 1);
    share_again(exclusive);
}
