/*
 * How old the items are that a cache evicts: of a sample of its items, when each was put or used
 * last.
 *
 * Items have no times of their own. The sample is of those whose hash has some bits that are zero,
 * as many as leave a thousand items or two. It is told of each put and use; what is not in it costs
 * a comparison.
 *
 * Threads. Calls may be called from any thread; an age that two
 * change at once may be lost.
 */
#ifndef OKV_SERVER_STORE_AGES_H
#define OKV_SERVER_STORE_AGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* An item has a place in one row, which its hash chooses. */
#define OKV_AGES_ROWS 512u
#define OKV_AGES_ROW 8u

struct okv_ages {
    const atomic_uint_fast64_t *clock_ms, *items; /* of the store: now, and how many there are */
    atomic_uint thinning;                         /* one of 2^this items is in the sample */
    /* Each: the upper 32 bits of the hash, and the time of the last use. 0: none. */
    _Atomic uint64_t place[OKV_AGES_ROWS][OKV_AGES_ROW];
    struct okv_ages_mean {
        atomic_uint_fast64_t fine_ms; /* of those that were evicted last, in parts of a ms */
        atomic_uint count;            /* of those, up to as many as it is a mean of */
    } of_new, of_main;
};

/* Both pointers are kept. free() ends it. NULL: there is no memory. */
struct okv_ages *okv_ages_create(const atomic_uint_fast64_t *clock_ms,
                                 const atomic_uint_fast64_t *items);

/* Whether the sample has an item. Bits of the hash that choose no row, and those that are 0 first,
 * which are in a place. */
static inline bool okv_ages_is_left(uint64_t hash, unsigned thinning)
{
    return (hash >> 32 & ((UINT64_C(1) << thinning) - 1)) == 0;
}

/* The calls below get the hash of the item's key, and accept NULL for `ages`. */

static inline bool okv_ages_has(const struct okv_ages *ages, uint64_t hash)
{
    return ages &&
           okv_ages_is_left(hash, atomic_load_explicit(&ages->thinning, memory_order_relaxed));
}

void okv_ages_note_put(struct okv_ages *ages, uint64_t hash);
void okv_ages_note_use(struct okv_ages *ages, uint64_t hash);
/* It is gone otherwise than by eviction. */
void okv_ages_note_gone(struct okv_ages *ages, uint64_t hash);
void okv_ages_note_eviction(struct okv_ages *ages, uint64_t hash, bool is_new);

/* Ms; 0: none was evicted. */
uint64_t okv_ages_mean_ms(const struct okv_ages *ages, bool is_new);

#endif
