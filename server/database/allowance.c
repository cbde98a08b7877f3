#include "server/database/allowance.h"

#include <stdlib.h>

#include "shared/base/error.h"
#include "shared/format/hits.h"

int okv_allowance_init(struct okv_allowance *allowance, uint32_t parties)
{
    *allowance = (struct okv_allowance){.parties = calloc(parties, sizeof *allowance->parties)};
    if (!allowance->parties)
        return OKV_ENOMEM;
    pthread_mutex_init(&allowance->lock, NULL);
    return 0;
}

void okv_allowance_fini(struct okv_allowance *allowance)
{
    if (!allowance->parties)
        return;
    pthread_mutex_destroy(&allowance->lock);
    free(allowance->parties);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Workers read clock and counters at different times. */
static uint64_t advance(uint64_t *last, uint64_t now)
{
    uint64_t passed = now > *last ? now - *last : 0;

    *last += passed;
    return passed;
}

/* Until the first eviction nothing depends on hits yet, and time alone limits them. */
static void earn(struct okv_allowance *allowance, const struct okv_allowance_request *request)
{
    uint64_t saved = request->saved;
    uint64_t time_ns = allowance->time_ns + advance(&allowance->now_ns, request->now_ns);
    uint64_t evictions = allowance->evictions + advance(&allowance->evicted, request->evicted);

    time_ns = least(time_ns, saved * request->pair_ns);
    evictions = request->evicted == 0 ? saved : least(evictions, saved);
    uint64_t pairs = least(time_ns / request->pair_ns, evictions);
    allowance->time_ns = time_ns - pairs * request->pair_ns;
    allowance->evictions = evictions - pairs;
    allowance->earned += pairs;
    allowance->shared = least(saved, allowance->shared + pairs);
}

static void begin_period(struct okv_allowance *allowance,
                         const struct okv_allowance_request *request)
{
    if (allowance->period && request->now_ns < allowance->begun_ns + request->period_ns)
        return;
    allowance->period++;
    allowance->begun_ns = request->now_ns;
    allowance->reporters_before = allowance->reporters;
    allowance->reporters = 0;
}

/* Between twice what it may and what leaves half of its shares a party's thinning stays. */
static void begin_turn(struct okv_allowance *allowance, struct okv_allowance_party *party)
{
    if (party->reported > 2 * party->granted && party->thinning < OKV_HITS_THINNING_MAX)
        party->thinning++;
    else if (party->reported < party->own && party->thinning > 0)
        party->thinning--;
    party->period = allowance->period;
    party->reported = party->granted = 0;
    allowance->reporters++;
}

/* Those of the period before are expected again. More than a message is not kept. */
static void divide(const struct okv_allowance *allowance, struct okv_allowance_party *party)
{
    uint32_t reporters = allowance->reporters > allowance->reporters_before
                             ? allowance->reporters
                             : allowance->reporters_before;
    uint64_t share = (allowance->earned - party->earned) / reporters;

    party->earned += share * reporters;
    party->own = least(party->own + share, OKV_HITS_MAX);
}

static uint32_t take(struct okv_allowance *allowance, struct okv_allowance_party *party,
                     uint32_t hits)
{
    uint64_t own = least(hits, party->own);
    uint64_t shared = least(hits - own, allowance->shared);

    party->own -= own;
    allowance->shared -= shared;
    party->reported += hits;
    party->granted += own + shared;
    return (uint32_t)(own + shared);
}

uint32_t okv_allowance_take(struct okv_allowance *allowance,
                            const struct okv_allowance_request *request, unsigned *thinning)
{
    struct okv_allowance_party *party = &allowance->parties[request->party];

    pthread_mutex_lock(&allowance->lock);
    earn(allowance, request);
    begin_period(allowance, request);
    if (party->period != allowance->period)
        begin_turn(allowance, party);
    divide(allowance, party);
    uint32_t granted = take(allowance, party, request->hits);
    *thinning = party->thinning;
    pthread_mutex_unlock(&allowance->lock);
    return granted;
}
