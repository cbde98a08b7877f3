/*
 * How many hits of a database its clients may report: each costs time of the server, and false ones
 * keep items that nobody uses.
 *
 * Each eviction earns two hits, if the server has time for them: the first party that reports takes
 * one, the other is divided evenly among all parties that report. Honest clients report about one.
 * With many more, all items look alike to the next eviction. A party is a user, or a client of
 * a server without users. One that reports twice what it may is told to report the hits of half as
 * many items.
 */
#ifndef OKV_SERVER_DATABASE_ALLOWANCE_H
#define OKV_SERVER_DATABASE_ALLOWANCE_H

#include <pthread.h>
#include <stdint.h>

/* Of a party. */
struct okv_allowance_party {
    uint64_t earned; /* of all pairs, those of which it has its share */
    uint64_t own;    /* hits that are left of its shares */
    uint64_t period; /* in which it last reported */
    uint64_t reported, granted;
    unsigned thinning;
};

/* Of a database. */
struct okv_allowance {
    pthread_mutex_t lock;
    uint64_t now_ns, evicted;    /* at the last report */
    uint64_t time_ns, evictions; /* since then and before, that have earned nothing yet */
    uint64_t earned;             /* pairs of hits, since ever */
    uint64_t shared;             /* hits that are left for the first report */
    uint64_t period, begun_ns;
    uint32_t reporters, reporters_before; /* parties, in this period and in the one before */
    struct okv_allowance_party *parties;
};

/* OKV_ENOMEM. Parties have numbers below `parties`. */
int okv_allowance_init(struct okv_allowance *allowance, uint32_t parties);
void okv_allowance_fini(struct okv_allowance *allowance);

struct okv_allowance_request {
    uint32_t party;
    uint32_t hits;
    uint64_t now_ns, period_ns;
    uint64_t evicted; /* items, since ever */
    uint64_t pair_ns; /* in which there is time for two hits */
    uint64_t saved;   /* pairs, and shared hits, that are kept for later */
};

/* Returns how many of the hits may be counted, and sets the thinning of the party. Any thread. */
uint32_t okv_allowance_take(struct okv_allowance *allowance,
                            const struct okv_allowance_request *request, unsigned *thinning);

#endif
