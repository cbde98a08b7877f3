#include "server/session/timed_writes.h"

#include "server/core/server.h"
#include "server/database/database.h"
#include "server/session/sessions.h"
#include "shared/base/clock.h"

void okv_timed_write_begin(struct okv_session *session, unsigned opcode, uint16_t request_slot)
{
    uint64_t number =
        session->common.id + atomic_load_explicit(&session->common.requests, memory_order_relaxed);

    if (number % OKV_TIMED_WRITES_ONE_IN || session->timed.begun_ns || !okv_opcode_is_write(opcode))
        return;
    session->timed.begun_ns = okv_clock_ns();
    session->timed.request_slot = request_slot;
}

void okv_timed_write_end(struct okv_sessions *sessions, struct okv_session *session,
                         uint16_t request_slot, bool is_done)
{
    uint64_t begun_ns = session->timed.begun_ns;

    if (!begun_ns || session->timed.request_slot != request_slot)
        return;
    session->timed.begun_ns = 0;
    if (is_done)
        okv_times_add(&sessions->server->databases[session->common.database].write_times,
                      okv_clock_ns() - begun_ns);
}
