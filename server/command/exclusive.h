/*
 * Commands that run alone: EXEC, MSET, MSETNX, RENAME, COPY and scripts that have to. While one
 * runs, no other worker runs a command of a RESP client or makes a change for a native client. Only
 * RESP clients give such commands, so a server without a listener for them has no lock: calls of
 * share and unshare then pass NULL.
 *
 * Commands run alone for a fifth of the time at most: after a time t, none does for 4 t. Short ones
 * may follow each other until they add up to OKV_EXCLUSIVE_BURST_NS.
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
/* Time that commands may take alone before the others have their four times as much. */
#define OKV_EXCLUSIVE_BURST_NS UINT64_C(200000)

struct okv_exclusive {
    pthread_rwlock_t lock;
    atomic_uint_fast64_t ended;   /* exclusive commands so far */
    atomic_uint_fast64_t rest_ns; /* okv_clock_ns() until which others have their time */
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
/* Whether an exclusive command may begin now, as others had their time. */
bool okv_exclusive_may_begin(const struct okv_exclusive *exclusive, uint64_t now_ns);
/*
 * Around an exclusive command of a thread that shares the lock. Both release the lock before they
 * acquire it in the other mode: others may change items in between. Begin blocks while other
 * workers end their turns; false: one of them ran a command alone meanwhile, so that others have
 * their time now, and the thread shares the lock again. End blocks while a command of another
 * worker runs alone. The command ran for `took_ns`.
 */
bool okv_exclusive_begin(struct okv_exclusive *exclusive, uint64_t now_ns);
void okv_exclusive_end(struct okv_exclusive *exclusive, uint64_t now_ns, uint64_t took_ns);

#endif
