/*
 * Records that a run inserts. Their numbers continue those of the load, and all threads share them.
 * A thread gets a number before its put; others may use the record once its put and all earlier
 * ones have ended.
 */
#ifndef OKV_BENCH_LOAD_INSERTS_H
#define OKV_BENCH_LOAD_INSERTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How far `next` may be ahead of `ended`. */
#define INSERTS_WINDOW 65536u

struct inserts {
    atomic_uint_fast64_t next;                   /* the next number */
    atomic_uint_fast64_t window[INSERTS_WINDOW]; /* at a number that has ended: the number + 1 */
    /* All numbers below it have ended. The window keeps it off the cache line of `next`. */
    atomic_uint_fast64_t ended;
};

/* The table has `records` already. */
void inserts_init(struct inserts *inserts, uint64_t records);
/* Assigns the next number; false when the window is full. */
bool inserts_take(struct inserts *inserts, uint64_t *record);
/* Marks the put of this number as ended, successfully or not. */
void inserts_end(struct inserts *inserts, uint64_t record);

/* Records that every thread may read: all below this number were put. */
static inline uint64_t inserts_visible(const struct inserts *inserts)
{
    return atomic_load_explicit(&inserts->ended, memory_order_acquire);
}

#endif
