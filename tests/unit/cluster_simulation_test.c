/*
 * Schedules of the simulated world (support/cluster_world.h). OKV_SCHEDULES sets how many; a
 * schedule that fails prints its number, is run again, and prints what happened in it.
 */
#include <inttypes.h>

#include "tests/support/cluster_world.h"
#include "tests/support/random.h"
#include "tests/support/test.h"

#define SCHEDULES 20000
#define RHO_PPM 500
/* A suspicion comes 100 ms after the lease, which covers 5 % of error of both clocks. */
#define BEYOND_PPM 80000

static struct world world;

static uint64_t schedules(void)
{
    const char *given = getenv("OKV_SCHEDULES");

    return given ? strtoull(given, NULL, 0) : SCHEDULES;
}

/* A get of a deposed server's memory counts in this schedule, since clocks are too wrong. */
#define BEYOND_SEED 40
#define BEYOND_SCHEDULES 2000 /* from there, should the world have changed */
#define BEYOND_TEXT "began after"

static void run(uint64_t seed, int64_t ppm, bool is_calm)
{
    struct world_options options = {.seed = seed, .ppm = ppm, .is_calm = is_calm};

    if (world_run(&world, &options))
        return;
    options.is_traced = true;
    fprintf(stderr, "schedule OKV_TEST_SEED=%" PRIu64 " OKV_SCHEDULES=1: %s\n", seed,
            world.failure);
    world_run(&world, &options);
    fail_msg("%s", world.failure);
}

TEST(copies_agree_and_gets_are_linearizable)
{
    uint64_t seed = random_seed(), count = schedules();
    uint64_t puts = 0, gets = 0, take_overs = 0, snapshots = 0, stale = 0, hand_overs = 0;

    for (uint64_t i = 0; i < count; i++) {
        run(seed + i, RHO_PPM, false);
        puts += world.puts;
        gets += world.gets;
        stale += world.stale;
        take_overs += world.take_overs;
        snapshots += world.snapshots;
        hand_overs += world.hand_overs;
    }
    fprintf(stderr,
            "%" PRIu64 " schedules: %" PRIu64 " puts, %" PRIu64 " gets, %" PRIu64
            " READs without a lease, %" PRIu64 " epochs, %" PRIu64 " hand-overs, %" PRIu64
            " snapshots\n",
            count, puts, gets, stale, take_overs, hand_overs, snapshots);
    assert_true(count < SCHEDULES ||
                (take_overs > count && hand_overs > count / 10 && snapshots > count / 10));
}

TEST(clocks_beyond_the_bound_are_found)
{
    struct world_options options = {.seed = BEYOND_SEED, .ppm = BEYOND_PPM};

    while ((world_run(&world, &options) || !strstr(world.failure, BEYOND_TEXT)) &&
           options.seed < BEYOND_SEED + BEYOND_SCHEDULES)
        options.seed++;
    fprintf(stderr, "schedule %" PRIu64 ": %s\n", options.seed, world.failure);
    assert_non_null(strstr(world.failure, BEYOND_TEXT));
}
