#include "tests/support/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "shared/base/clock.h"

/* Every run makes the same choices, so that one that fails has met a fault of the sources. */
#define USUAL_SEED 1

static uint64_t choose(void)
{
    const char *given = getenv("OKV_TEST_SEED");
    const char *is_long = getenv("OKV_LONG");
    uint64_t seed;

    if (given)
        return strtoull(given, NULL, 0);
    if (!is_long || strcmp(is_long, "1") != 0)
        return USUAL_SEED;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = okv_clock_ns();
    return seed;
}

uint64_t random_seed(void)
{
    uint64_t seed = choose();

    fprintf(stderr, "OKV_TEST_SEED=%" PRIu64 "\n", seed);
    return seed;
}
