/*
 * All that can happen to two servers, or three, within small bounds (support/cluster_small.h). What
 * fails is printed event by event, by the shortest way to it.
 *
 * OKV_SEARCH_TICKS=1 lets time go by that much longer, and OKV_SEARCH_STATES limits the states of
 * a search, which is cut off then.
 */
#include <inttypes.h>

#include "tests/support/cluster_search.h"
#include "tests/support/test.h"

#define STATES 500000

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *given = getenv(name);

    return given ? strtoull(given, NULL, 0) : otherwise;
}

static void print(const struct cluster_search_result *result)
{
    fprintf(stderr, "%" PRIu64 " states, up to %u events; %s; %" PRIu64 " events left the bounds\n",
            result->states, result->depth,
            result->is_complete ? "all within the bounds" : "cut off", result->outside);
}

static void search(struct small_options options)
{
    struct cluster_search_result result;
    uint64_t longer = number_of("OKV_SEARCH_TICKS", 0);
    uint64_t states = number_of("OKV_SEARCH_STATES", longer > 0 ? UINT32_MAX : STATES);

    options.bounds.ticks = (uint8_t)(options.bounds.ticks + longer);
    result = cluster_search(&options, states, true);
    print(&result);
    if (result.has_failed)
        fail_msg("%s", result.failure);
    assert_true(result.is_complete || states < STATES || longer > 0);
}

/* What a client does wrong is found. */
static void expect_a_failure(const struct small_options *options)
{
    struct cluster_search_result result = cluster_search(options, STATES, false);

    print(&result);
    fprintf(stderr, "%s\n", result.failure);
    assert_true(result.has_failed);
}

/* ---- what a copy may do by itself ---- */

/* A suspicion comes before the end of the lease, so the copy has to wait. */
#define EARLY (SMALL_TERM - 1)

TEST(a_copy_takes_over)
{
    search((struct small_options){
        .bounds = {.servers = 2, .under_way = 1, .ticks = 3, .puts = 1},
        .suspect_us = EARLY,
    });
}

TEST(two_messages_are_under_way)
{
    search((struct small_options){
        .bounds = {.servers = 2, .under_way = 2, .ticks = 3},
        .suspect_us = EARLY,
    });
}

TEST(three_servers)
{
    search((struct small_options){
        .bounds = {.servers = 3, .under_way = 1, .ticks = 1},
        .suspect_us = EARLY,
    });
}

/* ---- changes of the set ---- */

TEST(a_copy_is_added)
{
    search((struct small_options){
        .bounds = {.servers = 2, .under_way = 2, .ticks = 2, .puts = 1},
        .start = SMALL_JOINED,
        .suspect_us = EARLY,
    });
}

TEST(an_answer_of_etcd_is_lost)
{
    search((struct small_options){
        .bounds = {.servers = 2, .under_way = 1, .ticks = 3, .unknowns = 1},
        .start = SMALL_ALONE,
        .suspect_us = EARLY,
    });
}

TEST(a_primary_hands_over)
{
    search((struct small_options){
        .bounds = {.servers = 2, .under_way = 2, .ticks = 2, .hand_overs = 1},
        .suspect_us = EARLY,
    });
}

/* ---- crashes ---- */

TEST(a_crash_loses_the_log)
{
    search((struct small_options){
        .bounds = {.servers = 2, .under_way = 1, .ticks = 2, .crashes = 1},
        .suspect_us = EARLY,
        .loses_log = true,
    });
}

/* No suspicion comes before the end of the lease here: a primary that was deposed before may have
 * to give up its log while clients still READ it. */
TEST(a_crash_loses_what_is_not_durable)
{
    search((struct small_options){
        .bounds = {.servers = 2, .under_way = 2, .ticks = 3, .crashes = 1},
        .start = SMALL_ALONE,
        .suspect_us = SMALL_TERM,
        .acks_disk = true,
    });
}

/* ---- clients that break the rules ---- */

TEST(a_client_that_does_not_look_at_the_clock_is_found)
{
    expect_a_failure(&(struct small_options){
        .bounds = {.servers = 2, .under_way = 1, .ticks = 3, .puts = 1},
        .suspect_us = EARLY,
        .is_blind = true,
    });
}

TEST(a_client_that_does_not_know_the_epoch_is_found)
{
    expect_a_failure(&(struct small_options){
        .bounds = {.servers = 2, .under_way = 1, .ticks = 3, .puts = 1},
        .suspect_us = EARLY,
        .is_careless = true,
    });
}
