#include "server/session/report.h"

#include "server/core/server.h"
#include "server/database/database.h"
#include "server/session/sessions.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* A nanosecond of a session's life accounts for this much of each figure: a terabyte a second. */
#define SHARE_PER_NS 1024u
/* It accounts for one timed get in so many: a handle times one of 64. */
#define NS_PER_TIMED_GET 1024u

static uint64_t sum_up_to(uint64_t sum, uint64_t increment, uint64_t most)
{
    if (sum >= most)
        return sum;
    return increment < most - sum ? sum + increment : most;
}

/* Other workers add to the same sum. */
static void add(atomic_uint_fast64_t *sum, uint64_t increment)
{
    if (increment == 0)
        return;
    uint64_t before = atomic_load_explicit(sum, memory_order_relaxed);

    while (!atomic_compare_exchange_weak_explicit(sum, &before,
                                                  sum_up_to(before, increment, UINT64_MAX),
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

/* Adds to a share, which takes at most `most`, and what it took to the sum. */
static void add_share(atomic_uint_fast64_t *share, atomic_uint_fast64_t *sum, uint64_t increment,
                      uint64_t most)
{
    uint64_t before = atomic_load_explicit(share, memory_order_relaxed);
    uint64_t after = sum_up_to(before, increment, most);

    atomic_store_explicit(share, after, memory_order_relaxed);
    add(sum, after - before);
}

/* Adds the times of gets, all or none of them. */
static void add_times(struct okv_report_share *share, struct okv_times *times,
                      const struct okv_report *report, uint64_t age_ns, uint64_t most)
{
    uint64_t timed = share->timed;

    for (unsigned i = 0; i < OKV_REPORT_CELLS; i++)
        timed += report->cells[i];
    if (timed > age_ns / NS_PER_TIMED_GET)
        return;
    share->timed = timed;
    add_share(&share->get_ns, &times->ns, report->get_ns, most);
    for (unsigned i = 0; i < OKV_REPORT_CELLS; i++)
        add(&times->cells[i], report->cells[i]);
}

int okv_session_report(struct okv_sessions *sessions, struct okv_session *session,
                       const uint8_t *bytes, size_t length)
{
    struct okv_database *database = &sessions->server->databases[session->common.database];
    struct okv_counts *counts = &database->counts;
    struct okv_report_share *share = &session->common.report;
    struct okv_report report;
    int rc = share->is_due ? okv_report_decode(bytes, length, &report) : OKV_EPROTO;

    if (rc)
        return rc;
    uint64_t age_ns = okv_clock_ns() - session->common.created_ns;
    uint64_t most = age_ns > UINT64_MAX / SHARE_PER_NS ? UINT64_MAX : age_ns * SHARE_PER_NS;
#define ADD(name) add_share(&share->name, &counts->client_##name, report.name, most);
    OKV_REPORT_LIST(ADD)
#undef ADD
    add_times(share, &database->client_times, &report, age_ns, most);
    OKV_STATS_ADD(counts, client_reports, 1);
    return 0;
}
