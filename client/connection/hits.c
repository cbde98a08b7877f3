#include "client/connection/hits.h"

#include <stdlib.h>
#include <string.h>

#include "client/connection/report.h"
#include "shared/base/clock.h"
#include "shared/format/hits.h"

/* Free credits that a message needs: one stays for others. */
#define CREDITS 2u
/* Hashes that are remembered, one of those that share a place. */
#define FILTER 512u
/* Until the server's first answer. */
#define BATCH_FIRST 16u
#define INTERVAL_FIRST_MS 1000u

/* Of a connection to a database that evicts. */
struct hits {
    bool is_owed; /* the reply to a message: it holds a request slot until then */
    uint16_t request_slot;
    uint64_t sequence;
    struct okv_hits terms;
    uint64_t cleared_ns; /* the filter */
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
    *handle->hits = (struct hits){.terms = {INTERVAL_FIRST_MS, BATCH_FIRST}};
}

void hits_fini(okv *handle)
{
    free(handle->hits);
    handle->hits = NULL;
}

/* Beyond a batch hits are lost: the server has not answered the one before. */
void hits_note(okv *handle, uint64_t hash)
{
    struct hits *hits = handle->hits;
    uint64_t *place = &hits->filter[(hash >> 32) % FILTER];

    if (*place == hash || hits->count == hits->terms.batch)
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
}

void hits_send(okv *handle, uint64_t now)
{
    struct hits *hits = handle->hits;
    struct request_slots *slots = &handle->request_slots;

    if (!hits || hits->is_owed || hits->count == 0 || slots->count < CREDITS)
        return;
    uint8_t *bytes = handle->transport->send_buffer(handle->conn);
    if (!bytes)
        return;
    struct okv_request_message request = {
        .opcode = OKV_OP_HITS,
        .slot = slots->free[--slots->count],
        .sequence = handle->next_sequence++,
        .value = (const uint8_t *)hits->noted,
        .value_length = hits->count * OKV_HIT_SIZE,
    };
    hits->is_owed = true;
    hits->request_slot = request.slot;
    hits->sequence = request.sequence;
    hits->count = 0;
    uint32_t length = okv_request_encode(&request, bytes);
    if (handle->transport->post_send(handle->conn, length,
                                     okv_immediate(request.opcode, request.slot)))
        handle->lost = true; /* engine_flush() handles it */
    else
        handle->transport->flush(handle->conn);
    forget_old(hits, now);
}

bool hits_are_owed(const okv *handle)
{
    return handle->hits && handle->hits->is_owed;
}

bool hits_reply(okv *handle, const struct okv_reply_message *reply)
{
    struct hits *hits = handle->hits;
    struct request_slots *slots = &handle->request_slots;

    if (!hits_are_owed(handle) || reply->opcode != OKV_OP_HITS ||
        reply->slot != hits->request_slot || reply->sequence != hits->sequence ||
        reply->status != OKV_OK || okv_hits_decode(reply->value, reply->value_length, &hits->terms))
        return false;
    hits->is_owed = false;
    slots->answered[reply->slot] = reply->sequence;
    slots->free[slots->count++] = reply->slot;
    return true;
}
