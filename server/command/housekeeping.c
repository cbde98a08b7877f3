#include "server/command/housekeeping.h"

#include "server/command/change.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/database/reply_cache.h"
#include "server/store/expire.h"
#include "server/store/pending.h"
#include "shared/base/clock.h"

/* With a sleep of SWEEP_MS, readers see a clock that is at most about 100 ms old. */
#define PUBLISH_MS 50
#define SWEEP_MS 100
#define FORGET_MS 1000
/* A sweep takes steps until it has passed all buckets or used up its time, which the databases
 * share.
 */
#define SWEEP_STEP 64
#define SWEEP_NS UINT64_C(500000)

static bool has_expiring(const struct okv_database *database)
{
    return atomic_load_explicit(&database->store.totals.expiring, memory_order_relaxed) > 0;
}

bool okv_housekeeping_is_due(struct okv_server *server)
{
    for (unsigned i = 0; i < server->database_count; i++)
        if (has_expiring(&server->databases[i]))
            return true;
    return false;
}

void okv_housekeeping_update_clock(struct okv_housekeeping *housekeeping, struct okv_server *server)
{
    uint64_t clock_ms = okv_server_clock_ms(server);

    if (clock_ms == housekeeping->clock_ms)
        return;
    housekeeping->clock_ms = clock_ms;
    for (unsigned i = 0; i < server->database_count; i++)
        okv_store_set_clock(&server->databases[i].store, clock_ms, false);
}

static void sweep(struct okv_store *store, struct okv_store_work *work, uint64_t time_ns)
{
    uint64_t count = atomic_load(&store->bucket_count);
    uint64_t until = okv_clock_ns() + time_ns;

    for (uint64_t done = 0;
         done < count && okv_clock_ns() < until && !okv_store_is_throttled(&store->table);
         done += SWEEP_STEP)
        okv_store_sweep(store, work, SWEEP_STEP);
}

static void run_database(struct okv_housekeeping *housekeeping, struct okv_server *server,
                         unsigned index, struct okv_store_work *work)
{
    struct okv_database *database = &server->databases[index];
    struct okv_store *store = &database->store;
    uint64_t now = housekeeping->clock_ms;
    struct okv_change change;

    if (now - housekeeping->databases[index].published_ms >= PUBLISH_MS) {
        okv_store_set_clock(store, now, true);
        housekeeping->databases[index].published_ms = now;
    }
    if (now - housekeeping->databases[index].swept_ms >= SWEEP_MS &&
        okv_change_begin_batch(&change, database)) {
        sweep(store, work, SWEEP_NS / server->database_count);
        housekeeping->databases[index].swept_ms = now;
        okv_change_end(&change, true); /* what was removed waits to be published */
    }
}

/* Old reply caches wake no sleeping housekeeper: they are few, and nothing finds them.
 *
 * While no item expires, clock and sweep become overdue. So the clock is published as soon as there
 * is an item that expires. */
void okv_housekeeping_run(struct okv_housekeeping *housekeeping, struct okv_server *server,
                          struct okv_store_work *works)
{
    uint64_t now = housekeeping->clock_ms;

    if (now - housekeeping->forgot_ms >= FORGET_MS) {
        for (unsigned i = 0; i < server->database_count; i++)
            okv_reply_caches_expire(server->databases[i].reply_caches, now);
        housekeeping->forgot_ms = now;
    }
    for (unsigned i = 0; i < server->database_count; i++)
        if (has_expiring(&server->databases[i]))
            run_database(housekeeping, server, i, &works[i]);
}

int okv_housekeeping_sleep_ms(struct okv_server *server, int longest)
{
    return okv_housekeeping_is_due(server) && (longest < 0 || longest > SWEEP_MS) ? SWEEP_MS
                                                                                  : longest;
}
