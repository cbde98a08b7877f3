#include "server/housekeeping.h"

#include "server/store/expire.h"
#include "shared/base/clock.h"

/* With a sleep of SWEEP_MS, readers see a clock that is at most about 100 ms old. */
#define PUBLISH_MS 50
#define SWEEP_MS 100
#define FORGET_MS 1000
/* A sweep takes steps until it has passed all buckets or used up its time. */
#define SWEEP_STEP 64
#define SWEEP_NS UINT64_C(500000)

bool okv_housekeeping_is_due(struct okv_server *server)
{
    return atomic_load_explicit(&server->store.totals.expiring, memory_order_relaxed) > 0;
}

void okv_housekeeping_update_clock(struct okv_housekeeping *housekeeping, struct okv_server *server)
{
    uint64_t clock_ms = okv_server_clock_ms(server);

    if (clock_ms == housekeeping->clock_ms)
        return;
    housekeeping->clock_ms = clock_ms;
    okv_store_set_clock(&server->store, clock_ms, false);
}

static void sweep(struct okv_server *server, struct okv_store_work *work)
{
    struct okv_store *store = &server->store;
    uint64_t count = atomic_load(&store->bucket_count);
    uint64_t until = okv_clock_ns() + SWEEP_NS;

    for (uint64_t done = 0; done < count && okv_clock_ns() < until; done += SWEEP_STEP)
        okv_store_sweep(store, work, SWEEP_STEP);
}

/* Old reply caches wake no sleeping housekeeper: they are few, and nothing finds them.
 *
 * While no item expires, clock and sweep become overdue. So the clock is published as soon as there
 * is an item that expires. */
void okv_housekeeping_run(struct okv_housekeeping *housekeeping, struct okv_server *server,
                          struct okv_store_work *work)
{
    uint64_t now = housekeeping->clock_ms;

    if (now - housekeeping->forgot_ms >= FORGET_MS) {
        okv_reply_caches_expire(&server->reply_caches, now);
        housekeeping->forgot_ms = now;
    }
    if (!okv_housekeeping_is_due(server))
        return;
    if (now - housekeeping->published_ms >= PUBLISH_MS) {
        okv_store_set_clock(&server->store, now, true);
        housekeeping->published_ms = now;
    }
    if (now - housekeeping->swept_ms >= SWEEP_MS) {
        sweep(server, work);
        housekeeping->swept_ms = now;
    }
}

int okv_housekeeping_sleep_ms(struct okv_server *server, int longest)
{
    return okv_housekeeping_is_due(server) && (longest < 0 || longest > SWEEP_MS) ? SWEEP_MS
                                                                                  : longest;
}
