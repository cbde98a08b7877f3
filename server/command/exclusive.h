/*
 * Commands that run alone: EXEC, MSET, MSETNX, RENAME and COPY. While one runs, no other
 * worker runs a command of a RESP client or makes a change for a native client. Only RESP clients
 * give such commands, so a server without a listener for them has no lock: calls of share and
 * unshare then pass NULL.
 *
 * Order of locks: this one first, then the batch lock of a log (change.h).
 */
#ifndef OKV_SERVER_COMMAND_EXCLUSIVE_H
#define OKV_SERVER_COMMAND_EXCLUSIVE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Exclusive commands that may run before a thread that failed to share the lock waits for it. */
#define OKV_EXCLUSIVE_BATCH 16u

struct okv_exclusive {
    pthread_rwlock_t lock;
    atomic_uint_fast64_t ended; /* exclusive commands so far */
};

void okv_exclusive_init(struct okv_exclusive *exclusive);
void okv_exclusive_fini(struct okv_exclusive *exclusive);

/*
 * Keeps exclusive commands out until okv_exclusive_unshare(). False: one runs or waits to run,
 * which may take long; try again. Once OKV_EXCLUSIVE_BATCH of them have run since the first
 * failure, the call blocks instead. *ticket remembers that failure: it starts as 0, and callers
 * that use the same ticket wait as one.
 */
bool okv_exclusive_share(struct okv_exclusive *exclusive, uint64_t *ticket);
void okv_exclusive_unshare(struct okv_exclusive *exclusive);
/* Around an exclusive command of a thread that shares the lock. Both block, and both release the
 * lock before they acquire it in the other mode: others may change items in between. */
void okv_exclusive_begin(struct okv_exclusive *exclusive);
void okv_exclusive_end(struct okv_exclusive *exclusive);

#endif
