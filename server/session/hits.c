#include "server/session/hits.h"

#include "server/clients/admission.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/session/sessions.h"
#include "server/store/ages.h"
#include "shared/base/error.h"
#include "shared/format/hits.h"

/* Of the age at which new items are evicted, after which a client reports an item again: about a
 * quarter of the time in which as many bytes are put as the region has. */
#define INTERVAL_PERCENT 150u
#define INTERVAL_MIN_MS 100u
#define INTERVAL_MAX_MS 60000u
/* Of the items, what all clients together may hold back. */
#define HELD_BACK_PERCENT 5u
#define BATCH_MIN 16u
/* What a mark costs in a table of 50 million items; less in smaller ones. */
#define MARK_NS 25u

static uint32_t clamp(uint64_t value, uint32_t least, uint32_t most)
{
    return value < least ? least : value > most ? most : (uint32_t)value;
}

/* Of the server, about: workers have as many each. */
static uint64_t clients_of(const struct okv_sessions *sessions)
{
    uint64_t clients = 0;

    for (unsigned i = 0; i < OKV_LISTENERS_MAX; i++)
        clients += atomic_load_explicit(&sessions->clients[i], memory_order_relaxed);
    return clients * sessions->server->config.workers;
}

static uint64_t held_back(const struct okv_store *store)
{
    return atomic_load_explicit(&store->totals.items, memory_order_relaxed) * HELD_BACK_PERCENT /
           100;
}

static void advise(const struct okv_sessions *sessions, const struct okv_store *store,
                   struct okv_hits *out)
{
    uint64_t clients = clients_of(sessions);
    uint64_t age_ms = okv_ages_mean_ms(store->table.ages, true);

    *out = (struct okv_hits){
        .interval_ms = clamp(age_ms * INTERVAL_PERCENT / 100, INTERVAL_MIN_MS, INTERVAL_MAX_MS),
        .batch = clamp(held_back(store) / (clients ? clients : 1), BATCH_MIN, OKV_HITS_MAX),
    };
}

/* How many of these hits the client may report. */
static uint32_t allowed(struct okv_sessions *sessions, const struct okv_session *session,
                        uint32_t hits, struct okv_hits *terms)
{
    struct okv_server *server = sessions->server;
    struct okv_database *database = &server->databases[session->common.database];
    const struct okv_store_eviction *eviction = &database->store.eviction;
    const struct okv_allowance_request request = {
        .party = okv_admission_party(server->admission, session->place),
        .hits = hits,
        .now_ns = sessions->now_ns,
        .period_ns = terms->interval_ms * UINT64_C(1000000),
        .evicted = atomic_load(&eviction->evicted_new) + atomic_load(&eviction->evicted_main),
        .pair_ns = UINT64_C(2) * MARK_NS * 100 / server->config.report_percent,
        .saved = clamp(held_back(&database->store), OKV_HITS_MAX, UINT32_MAX),
    };

    return okv_allowance_take(&database->allowance, &request, &terms->thinning);
}

int okv_session_hits(struct okv_sessions *sessions, struct okv_session *session,
                     const uint8_t *bytes, size_t length, struct okv_hits *out)
{
    struct okv_database *database = &sessions->server->databases[session->common.database];
    size_t count = length / OKV_HIT_SIZE;

    if (!session->common.reports_hits || length % OKV_HIT_SIZE != 0 || count == 0 ||
        count > OKV_HITS_MAX)
        return OKV_EPROTO;
    advise(sessions, &database->store, out);
    uint32_t marks = allowed(sessions, session, (uint32_t)count, out);
    okv_store_mark(&database->store, bytes, marks);
    OKV_STATS_ADD(&database->counts, client_marks, count);
    if (marks < count) {
        OKV_STATS_ADD(&database->counts, reports_over, count - marks);
        okv_session_add(&session->common.hits_over, count - marks);
    }
    return 0;
}
