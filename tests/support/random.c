#include "tests/support/random.h"

#include <stdlib.h>
#include <sys/random.h>

#include "shared/base/clock.h"

uint64_t random_seed(void)
{
    const char *given = getenv("OKV_TEST_SEED");
    uint64_t seed;

    if (given)
        return strtoull(given, NULL, 0);
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = okv_clock_ns();
    return seed;
}
