#include "tests/support/recorded_crowd.h"

#include <inttypes.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/linearizability.h"
#include "tests/support/pace.h"

#define READERS 3 /* one that writes soon waits for that, and READs no more */
#define PAUSE_MS 4
#define RECONNECT_EVERY 5000 /* operations of a client, of which some are unknown then */
#define PROGRESS 1000
#define WRITES 100 /* among them */

void recorded_crowd_await(struct recorded_crowd *crowd)
{
    struct recorded_load *load = &crowd->load;
    uint64_t wanted = atomic_load(&load->begun) + PROGRESS, end_ns = pace_guard_end();
    uint64_t wanted_writes = atomic_load(&load->written) + WRITES;

    while (atomic_load(&load->begun) < wanted || atomic_load(&load->written) < wanted_writes) {
        if (atomic_load(&load->failure))
            fail_msg("a client failed: %s", okv_errname(atomic_load(&load->failure)));
        if (okv_clock_ns() > end_ns)
            fail_msg("clients are not answered");
        pace_sleep_ms(1);
    }
}

void recorded_crowd_add(struct recorded_crowd *crowd)
{
    unsigned i = crowd->started;

    assert_true(i < RECORDED_CROWD_MAX);
    assert_true(recorded_client_start(&crowd->clients[i], &crowd->load, i));
    crowd->started++;
}

void recorded_crowd_start(struct recorded_crowd *crowd, const char *uri, uint64_t seed)
{
    crowd->load = (struct recorded_load){
        .uri = uri,
        .seed = seed,
        .reconnect_every = RECONNECT_EVERY,
        .and_until = &crowd->is_over,
        .pause_ms = PAUSE_MS,
        .readers = READERS,
    };
    recorded_load_init(&crowd->load);
    atomic_store(&crowd->is_over, false);
    while (crowd->started < RECORDED_CROWD_BEGIN)
        recorded_crowd_add(crowd);
    recorded_crowd_await(crowd);
}

void recorded_crowd_stop(struct recorded_crowd *crowd)
{
    atomic_store(&crowd->is_over, true);
    for (unsigned i = 0; i < crowd->started; i++)
        recorded_client_join(&crowd->clients[i]);
}

static void merge(struct recorded_crowd *crowd, struct history *history)
{
    struct history_log logs[RECORDED_CROWD_MAX];
    uint64_t unknown = 0, failed = 0;

    for (unsigned i = 0; i < crowd->started; i++) {
        if (crowd->clients[i].broken_text[0])
            print_message("%s\n", crowd->clients[i].broken_text);
        unknown += crowd->clients[i].unknown;
        failed += crowd->clients[i].failed;
        logs[i] = crowd->clients[i].log;
    }
    assert_true(history_merge(history, logs, crowd->started));
    for (unsigned i = 0; i < crowd->started; i++)
        crowd->clients[i].log = logs[i];
    print_message("%zu operations, %" PRIu64 " unknown, %" PRIu64 " failed\n", history->length,
                  unknown, failed);
}

void recorded_crowd_check(struct recorded_crowd *crowd)
{
    struct linearizability_report report;
    struct history history;
    char text[200];

    merge(crowd, &history);
    size_t heads = recorded_heads_resolve(&history, text, sizeof text);
    enum linearizability_verdict verdict = linearizability_check(&history, NULL, &report);
    history_fini(&history);
    if (heads)
        fail_msg("a head is wrong: %s", text);
    if (verdict != LINEARIZABILITY_HOLDS)
        fail_msg("key %u: %s: %s", report.key, linearizability_verdict_text(verdict), report.text);
    if (atomic_load(&crowd->load.failure))
        fail_msg("a client failed: %s", okv_errname(atomic_load(&crowd->load.failure)));
    assert_int_equal(atomic_load(&crowd->load.broken), 0);
}

void recorded_crowd_fini(struct recorded_crowd *crowd)
{
    if (!atomic_load(&crowd->is_over))
        recorded_crowd_stop(crowd);
    for (; crowd->started > 0; crowd->started--)
        history_log_fini(&crowd->clients[crowd->started - 1].log);
}
