/*
 * The client's estimate of the server's clock, on two clocks of the test's own, which
 * begin anywhere in a millisecond and run apart by up to 200 ppm. The client reads its own in whole
 * milliseconds and is told the server's in whole milliseconds; what it concludes is never ahead of
 * the server's clock.
 */
#include <time.h>

#include "tests/support/test.h"

#include "client/connection/clock_sync.h"
#include "tests/support/random.h"

#define MS UINT64_C(1000000)
#define SERVER_BEGIN_NS (UINT64_C(777000000) * MS)
#define ROUNDS 20000u
#define SEED 20u

static uint64_t client_ns; /* the client's clock */

int __wrap_clock_gettime(clockid_t id, struct timespec *time);

int __wrap_clock_gettime(clockid_t id, struct timespec *time)
{
    (void)id;
    *time = (struct timespec){.tv_sec = (time_t)(client_ns / 1000000000u),
                              .tv_nsec = (long)(client_ns % 1000000000u)};
    return 0;
}

/* The server's clock when the client's says `at_ns`; it said SERVER_BEGIN_NS at `from_ns`. */
static uint64_t server_ns(uint64_t from_ns, uint64_t at_ns, int64_t ppm)
{
    int64_t passed = (int64_t)(at_ns - from_ns);

    return SERVER_BEGIN_NS + (uint64_t)(passed + passed * ppm / 1000000);
}

/* A fresh client that got a sample with no delay at `from_ns`. */
static void sample_at(okv *handle, uint64_t from_ns)
{
    handle->clock = (struct clock_sync){.taken = 0};
    client_ns = from_ns;
    clock_sample(handle, SERVER_BEGIN_NS / MS);
}

static int set_up(void **state)
{
    *state = calloc(1, sizeof(okv));
    return *state ? 0 : -1;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

TEST_WITH(the_clock_is_never_ahead_of_the_servers, set_up, tear_down)
{
    static const int64_t ppm[] = {0, -200, 200};
    okv *handle = *state;
    uint64_t random = SEED;

    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t from_ns = 1000000 * MS + random_next(&random) % (20 * MS);
        uint64_t until_ns = from_ns + random_next(&random) % (i % 2 ? 3 * MS : 100000 * MS);
        sample_at(handle, from_ns);
        client_ns = until_ns;
        uint64_t server_is_ns = server_ns(from_ns, until_ns, ppm[i % 3]);
        uint64_t told_ns = clock_now_ms(handle) * MS;
        assert_true(told_ns <= server_is_ns);
        /* Nor is it far behind: 200 ppm both ways, and what rounding takes. */
        uint64_t behind_ns = (until_ns - from_ns) / 2500 + 4 * MS;
        assert_true(told_ns + behind_ns >= server_is_ns);
    }
}

/* What is left to live is never told to be less than it is. */
TEST_WITH(the_time_to_live_is_never_too_short, set_up, tear_down)
{
    okv *handle = *state;
    uint64_t expiry_ms = SERVER_BEGIN_NS / MS + 100;

    for (uint64_t phase_ns = 0; phase_ns < MS; phase_ns += 10007) {
        uint64_t from_ns = 1000000 * MS + phase_ns;
        for (uint64_t passed_ns = 0; passed_ns < 100 * MS; passed_ns += 300007) {
            sample_at(handle, from_ns);
            client_ns = from_ns + passed_ns;
            uint64_t left_ns = expiry_ms * MS - server_ns(from_ns, client_ns, -200);
            int64_t ttl_ms = clock_ttl_ms(handle, expiry_ms);
            assert_true(ttl_ms > 0);
            assert_true((uint64_t)ttl_ms * MS >= left_ns);
        }
    }
}
