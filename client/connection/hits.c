#include "client/connection/hits.h"

#include <stdlib.h>
#include <string.h>

#include "client/connection/notice.h"
#include "shared/base/clock.h"
#include "shared/format/hits.h"

/* Hashes that are remembered, one of those that share a place. */
#define FILTER 512u
/* Bits of a hash that thin reports out: others than those that choose a place. */
#define THINNED_BY 41u
/* Until the server's first answer. */
#define BATCH_FIRST 16u
#define INTERVAL_FIRST_MS 1000u

/* Of a connection to a database that evicts. */
struct hits {
    struct notice notice;
    struct okv_hits terms;
    uint64_t cleared_ns; /* the filter */
    uint64_t intervals;  /* that have passed */
    uint32_t count;
    okv_le64 noted[OKV_HITS_MAX];
    uint64_t filter[FILTER]; /* of what was noted in this interval */
};

void hits_link_up(okv *handle)
{
    if (!(handle->table.features & OKV_FEATURE_HEAT)) {
        hits_fini(handle);
        return;
    }
    if (!handle->hits)
        handle->hits = calloc(1, sizeof *handle->hits);
    if (!handle->hits)
        return;
    *handle->hits =
        (struct hits){.terms = {.interval_ms = INTERVAL_FIRST_MS, .batch = BATCH_FIRST}};
}

void hits_fini(okv *handle)
{
    free(handle->hits);
    handle->hits = NULL;
}

/* The server asks for fewer reports. In each interval it gets those of other items. */
static bool is_thinned_out(const struct hits *hits, uint64_t hash)
{
    uint64_t mask = (UINT64_C(1) << hits->terms.thinning) - 1;

    return ((hash >> THINNED_BY) + hits->intervals) & mask;
}

/* Beyond a batch hits are lost: the server has not answered the one before. */
void hits_note(okv *handle, uint64_t hash)
{
    struct hits *hits = handle->hits;
    uint64_t *place = &hits->filter[(hash >> 32) % FILTER];

    if (is_thinned_out(hits, hash) || *place == hash || hits->count == hits->terms.batch)
        return;
    *place = hash;
    hits->noted[hits->count++] = okv_le64_of(hash);
    if (hits->count == hits->terms.batch)
        handle->reporting.due_ns = 0; /* the next call that reads the clock sends them */
}

static void forget_old(struct hits *hits, uint64_t now)
{
    if (now - hits->cleared_ns < hits->terms.interval_ms * UINT64_C(1000000))
        return;
    memset(hits->filter, 0, sizeof hits->filter);
    hits->cleared_ns = now;
    hits->intervals++;
}

void hits_send(okv *handle, uint64_t now)
{
    struct hits *hits = handle->hits;

    if (!hits)
        return;
    forget_old(hits, now);
    if (hits->count == 0)
        return;
    uint8_t *room = notice_room(handle, &hits->notice, 1);
    if (!room)
        return;
    notice_post(handle, &hits->notice, room, OKV_OP_HITS, hits->noted, hits->count * OKV_HIT_SIZE);
    hits->count = 0;
}

bool hits_are_owed(const okv *handle)
{
    return handle->hits && handle->hits->notice.is_owed;
}

bool hits_reply(okv *handle, const struct okv_reply_message *reply)
{
    struct hits *hits = handle->hits;

    return hits && notice_reply(handle, &hits->notice, OKV_OP_HITS, reply) &&
           okv_hits_decode(reply->value, reply->value_length, &hits->terms) == 0;
}
