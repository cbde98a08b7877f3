/*
 * The records that are put while a run is under way: their numbers go on from those that were
 * loaded, and threads share them. A number is handed out before its record is there; others may
 * count on the record when it and all before it have ended.
 */
#ifndef OKV_BENCH_LOAD_INSERTS_H
#define OKV_BENCH_LOAD_INSERTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How far numbers that were handed out may be ahead of those that have ended. */
#define INSERTS_WINDOW 65536u

struct inserts {
    atomic_uint_fast64_t next;                   /* to be handed out */
    atomic_uint_fast64_t window[INSERTS_WINDOW]; /* of a number that ended: it and 1 */
    atomic_uint_fast64_t ended;                  /* all before it have; far from `next` */
};

/* `records` are there. */
void inserts_init(struct inserts *inserts, uint64_t records);
/* Hands out the next number; false when the window is full. */
bool inserts_take(struct inserts *inserts, uint64_t *record);
/* Says that a number that was handed out has ended, well or not. */
void inserts_end(struct inserts *inserts, uint64_t record);

/* How many records can be counted on. */
static inline uint64_t inserts_there(const struct inserts *inserts)
{
    return atomic_load_explicit(&inserts->ended, memory_order_acquire);
}

#endif
