/*
 * A walk over all keys in steps of bounded work, which may continue much later.
 *
 * It meets them in the order of their positions: hashes with their bits reversed. A bucket has an
 * interval of positions at any depth. So a walk meets every key that is there from its beginning to
 * its end once, though buckets split and merge, and may stop within a bucket.
 */
#ifndef OKV_SERVER_STORE_ITERATE_H
#define OKV_SERVER_STORE_ITERATE_H

#include "server/store/state.h"

/* A position has enough bits for the bucket of the largest depth. */
#define OKV_STORE_POSITION_BITS 48

/* Work is counted as core/turn.h says. */
struct okv_store_walk {
    uint64_t position; /* of the next key; starts as 0, and is 0 after the last key */
    uint64_t limit;    /* of the work of this step */
    uint64_t spent;    /* by this step, to which `visit` may add */
    unsigned price;    /* work of `visit` for a byte of a key, at most */
    bool is_first;     /* no bucket of this step was visited: the next one is, whatever it takes */
    bool is_newest;    /* with what waits for the log (pending.h), else as it is published */
};

/*
 * Calls `visit` for the keys of one bucket from the walk's position on, as far as the
 * limit suffices, and moves the position. Keys of one position are visited together. The bucket is
 * locked while its keys are copied, and `visit` runs without a lock. OKV_EAGAIN: the bucket takes
 * more than what is left of the limit, and the position is the same; OKV_ENOMEM; OKV_ECORRUPT.
 */
typedef void okv_store_iterate_visit(void *user, const void *key, uint32_t key_length);
int okv_store_iterate(struct okv_store *store, struct okv_store_walk *walk,
                      okv_store_iterate_visit *visit, void *user);

/* The end of the interval of positions of the bucket of this depth that has this one; 0: it is the
 * last one. */
uint64_t okv_store_interval_end(uint64_t position, unsigned depth);

#endif
