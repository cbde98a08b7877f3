#include "server/session/session.h"

#include <stdlib.h>

#include "server/session/long_write.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

#define REQUEST_SLOTS_PER_WORD 64u

struct okv_session *okv_session_create(uint64_t id, unsigned listener, uint32_t request_slots)
{
    struct okv_session *session = malloc(sizeof *session);

    if (!session)
        return NULL;
    *session = (struct okv_session){
        .common = {.id = id,
                   .kind = OKV_CLIENT_NATIVE,
                   .request_slots = request_slots,
                   .transport = "-",
                   .how = "",
                   .created_ns = okv_clock_ns()},
        .listener = listener,
    };
    session->common.active_ns = session->common.created_ns;
    session->slots_in_use =
        calloc((request_slots + REQUEST_SLOTS_PER_WORD - 1) / REQUEST_SLOTS_PER_WORD,
               sizeof *session->slots_in_use);
    session->sequences = calloc(request_slots, sizeof *session->sequences);
    session->deferred = calloc(request_slots, sizeof *session->deferred);
    session->pending = calloc(request_slots, sizeof *session->pending);
    session->long_writes = calloc(OKV_LONG_WRITES_MAX, sizeof *session->long_writes);
    if (!session->slots_in_use || !session->sequences || !session->deferred || !session->pending ||
        !session->long_writes) {
        okv_session_destroy(session);
        return NULL;
    }
    return session;
}

void okv_session_destroy(struct okv_session *session)
{
    if (!session)
        return;
    free(session->long_writes);
    free(session->pending);
    free(session->deferred);
    free(session->sequences);
    free(session->slots_in_use);
    free(session);
}

bool okv_session_is_repeated(struct okv_session *session, uint16_t request_slot, uint64_t sequence)
{
    if (request_slot >= session->common.request_slots || sequence == 0)
        return false;
    if (sequence <= session->sequences[request_slot])
        return true;
    session->sequences[request_slot] = sequence;
    return false;
}

int okv_session_slot_acquire(struct okv_session *session, uint16_t request_slot)
{
    uint64_t bit = UINT64_C(1) << request_slot % REQUEST_SLOTS_PER_WORD;

    if (request_slot >= session->common.request_slots ||
        session->slots_in_use[request_slot / REQUEST_SLOTS_PER_WORD] & bit)
        return OKV_ECREDIT;
    session->slots_in_use[request_slot / REQUEST_SLOTS_PER_WORD] |= bit;
    return 0;
}

void okv_session_slot_release(struct okv_session *session, uint16_t request_slot)
{
    session->slots_in_use[request_slot / REQUEST_SLOTS_PER_WORD] &=
        ~(UINT64_C(1) << request_slot % REQUEST_SLOTS_PER_WORD);
}

void okv_session_defer(struct okv_session *session, const struct okv_event *request)
{
    uint32_t at =
        (session->deferred_first + session->deferred_count) % session->common.request_slots;

    session->deferred[at] = *request;
    session->deferred_count++;
}

const struct okv_event *okv_session_oldest(const struct okv_session *session)
{
    return session->deferred_count ? &session->deferred[session->deferred_first] : NULL;
}

void okv_session_drop_oldest(struct okv_session *session)
{
    session->deferred_first = (session->deferred_first + 1) % session->common.request_slots;
    session->deferred_count--;
}
