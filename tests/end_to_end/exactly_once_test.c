/*
 * Writes whose request or reply is lost with the connection, and which the client sends
 * again: each is applied once. Chaos over the client's transport loses them, at a real server.
 *
 * First part: one write at a time meets one fault, and at the very moment of the break another
 * client writes the same key. What both were told and what the key holds then must fit the one
 * order in which that can have happened; a lost reply was that of a write that came first.
 *
 * Second part: many writes at once, breaks at any moment. Every sum of a counter was told to
 * exactly one increment, every record stands in its log once, where its append was told.
 *
 * OKV_OPERATIONS: writes of the first part, and four times as many of the second; OKV_LONG=1 is
 * enough of them for 10,000 lost replies.
 */
#include <pthread.h>

#include "tests/support/test.h"
#include <okv.h>

#include "tests/support/chaos_transport.h"
#include "tests/support/exactly_once.h"
#include "tests/support/random.h"
#include "tests/support/server_process.h"

#define PAIRS_LOCAL 96u
#define PAIRS_FABRIC 16u /* some handles take 45 MiB and threads of their own */
#define OPERATIONS_LOCAL 2400u
#define OPERATIONS_RDMA 240u
#define OPERATIONS_LONG 20000u

static unsigned operations(void)
{
    const char *text = getenv("OKV_OPERATIONS");

    if (text)
        return (unsigned)strtoul(text, NULL, 10);
    if (getenv("OKV_LONG"))
        return OPERATIONS_LONG;
    return server_is_slow() ? OPERATIONS_RDMA : OPERATIONS_LOCAL;
}

static void open_pairs(struct pair *pairs, unsigned count, const struct server_process *server,
                       uint64_t seed)
{
    /* The reply that is lost is to be that of the write, not of a report before it. */
    static const struct okv_options options = {.depth = STORM_DEPTH * 2,
                                               .report_ms = OKV_REPORT_NONE};
    static const struct okv_options once = {.depth = 1};

    for (unsigned i = 0; i < count; i++) {
        struct pair *pair = &pairs[i];
        pair->number = i;
        pair->random = random_mix(seed + 2 * i);
        chaos_init(&pair->chaos, random_mix(seed + 2 * i + 1));
        chaos_use(&pair->chaos);
        pair->broken = server_connect(server, &options);
        chaos_use(NULL);
        pair->plain = server_connect(server, &once);
    }
}

static void close_pairs(struct pair *pairs, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        chaos_use(&pairs[i].chaos);
        okv_close(&pairs[i].broken);
        chaos_use(NULL);
        okv_close(&pairs[i].plain);
        chaos_fini(&pairs[i].chaos);
        pair_fini(&pairs[i]);
    }
}

static void run_pairs(struct pair *pairs, unsigned count, void *(*run)(void *))
{
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(pthread_create(&pairs[i].thread, NULL, run, &pairs[i]), 0);
    for (unsigned i = 0; i < count; i++)
        pthread_join(pairs[i].thread, NULL);
    for (unsigned i = 0; i < count; i++) {
        if (pairs[i].failure[0] != '\0')
            fail_msg("pair %u: %s", i, pairs[i].failure);
    }
}

static void report(const struct pair *pairs, unsigned count, uint64_t seed)
{
    uint64_t injected[CHAOS_FAULTS] = {0};
    uint64_t writes = 0, breaks = 0, failed = 0;
    char text[512] = "";
    size_t length = 0;

    for (unsigned i = 0; i < count; i++) {
        writes += pairs[i].writes;
        breaks += pairs[i].chaos.breaks;
        for (unsigned k = 0; k < CHAOS_CALLS; k++)
            failed += pairs[i].chaos.failed[k];
        for (unsigned k = 0; k < CHAOS_FAULTS; k++)
            injected[k] += pairs[i].chaos.injected[k];
    }
    for (unsigned k = 1; k < CHAOS_FAULTS; k++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%llu %s, ",
                                   (unsigned long long)injected[k], chaos_fault_name(k));
    printf("exactly once: %llu writes of %u clients over %llu broken connections (%s%llu failed "
           "calls); each was applied once, none undid a competitor's; seed %llu\n",
           (unsigned long long)writes, count, (unsigned long long)breaks, text,
           (unsigned long long)failed, (unsigned long long)seed);
    assert_true(injected[CHAOS_LOSE_REPLY] > 0 && injected[CHAOS_LOSE_REQUEST] > 0);
}

TEST(writes_are_applied_once)
{
    static const char *const arguments[] = {"--max-clients", "400", "--max-clients-per-address",
                                            "0", NULL};
    unsigned count = server_is_local() ? PAIRS_LOCAL : PAIRS_FABRIC;
    unsigned rounds = (operations() + count - 1) / count;
    uint64_t seed = random_seed();
    struct pair *pairs = test_calloc(count, sizeof *pairs);
    struct server_process server;

    server_start(&server, arguments);
    open_pairs(pairs, count, &server, seed);
    for (unsigned i = 0; i < count; i++)
        pairs[i].rounds = rounds;
    run_pairs(pairs, count, pair_run_rounds);
    run_pairs(pairs, count, pair_run_storm);
    const char *failure = storm_check(pairs, count);
    if (failure)
        fail_msg("%s", failure);
    report(pairs, count, seed);
    close_pairs(pairs, count);
    assert_int_equal(server_stop(&server), 0);
    test_free(pairs);
}
