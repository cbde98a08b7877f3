/*
 * The work of a turn. A worker serves its clients in turns, and a turn ends when it has done
 * OKV_TURN_WORK. Work is counted, not timed, so that a slow machine serves as fairly as a fast one:
 *
 *   1       a byte that is compared, copied, hashed or encoded
 *   1,000   a command, a page of a bucket, an allocation
 *   1,000   a page of memory that is filled for the first time: the kernel clears it
 *     300   a page of memory that is unmapped
 *
 * 1,000 units stand for 1 us. What cannot be interrupted is a step of at most OKV_TURN_STEP_MAX,
 * with exceptions that docs/threads.md lists. The last step of a turn may exceed OKV_TURN_WORK.
 */
#ifndef OKV_SERVER_CORE_TURN_H
#define OKV_SERVER_CORE_TURN_H

#include <stdbool.h>
#include <stdint.h>

#define OKV_TURN_WORK 200000u
#define OKV_TURN_STEP_MAX 300000u
/* Price of a command, of a page of a bucket, of an allocation. */
#define OKV_TURN_ITEM 1000u
#define OKV_TURN_FILLED_PAGE 1000u
#define OKV_TURN_UNMAPPED_PAGE 300u
#define OKV_TURN_PAGE 4096u /* bytes */

/* Of one worker; starts as zeros. */
struct okv_turn {
    uint64_t spent;      /* in this turn */
    uint64_t step_begin; /* `spent` when the step began */
    uint64_t longest;    /* work of the longest step so far */
    uint64_t alone;      /* the same of commands that run alone (command/exclusive.h) */
};

static inline void okv_turn_begin(struct okv_turn *turn)
{
    turn->spent = turn->step_begin = 0;
}

static inline void okv_turn_spend(struct okv_turn *turn, uint64_t work)
{
    turn->spent += work;
}

/* Others may be served between two steps. */
static inline void okv_turn_end_step(struct okv_turn *turn)
{
    uint64_t step = turn->spent - turn->step_begin;

    turn->longest = step > turn->longest ? step : turn->longest;
    turn->step_begin = turn->spent;
}

/* The same of a command that ran alone. */
static inline void okv_turn_end_alone(struct okv_turn *turn)
{
    uint64_t alone = turn->spent - turn->step_begin;

    turn->alone = alone > turn->alone ? alone : turn->alone;
    turn->step_begin = turn->spent;
}

static inline uint64_t okv_turn_left(const struct okv_turn *turn)
{
    return turn->spent < OKV_TURN_WORK ? OKV_TURN_WORK - turn->spent : 0;
}

/* What one request may still spend on making room in a full heap (server/store/room.h). What takes
 * steps next continues where these ended. */
struct okv_effort {
    unsigned merges; /* each of one bucket */
    unsigned sweeps, compactions;
    unsigned evictions;      /* steps of them */
    uint64_t batch, evicted; /* in the log's open batch: its number, and bytes */
    bool in_parts;           /* the room is for several items, all at once */
    bool has_begun;
};
#define OKV_EFFORT                                                      \
    {                                                                   \
        .merges = 1024, .sweeps = 4, .compactions = 4, .evictions = 256 \
    }

#endif
