/*
 * The client's bound of the server's lease clock, on clocks of the test's own. The server's and the
 * client's run apart by up to 500 ppm each, the client's second clock is slewed by up to a tenth.
 * The server's clock is never ahead of the bound, and below a lease's end before the deadline.
 */
#include "tests/support/test.h"

#include "client/connection/lease_clock.h"
#include "tests/support/random.h"

#define US UINT64_C(1000)
#define MS (1000 * US)
#define SECOND (1000 * MS)
#define BEGIN_US UINT64_C(777000000000)
#define ROUNDS 20000u
#define SEED 20u

/* Rates, in ppm of true time. */
struct rates {
    int64_t server, raw, boot;
};

static const struct rates all_rates[] = {
    {0, 0, 0}, {500, -500, 0}, {500, -500, -100000}, {500, 0, 100000}, {-500, 500, 100000},
};

static uint64_t at_rate(uint64_t true_ns, int64_t ppm)
{
    return (uint64_t)((int64_t)true_ns + (int64_t)true_ns / 1000000 * ppm);
}

static struct lease_time client_at(const struct rates *rates, uint64_t true_ns)
{
    return (struct lease_time){.raw_ns = SECOND + at_rate(true_ns, rates->raw),
                               .boot_ns = 9 * SECOND + at_rate(true_ns, rates->boot)};
}

static uint64_t server_at(const struct rates *rates, uint64_t true_ns)
{
    return BEGIN_US + at_rate(true_ns, rates->server) / 1000;
}

/* A request that was posted at `true_ns` and took `way_ns` to the server. */
static void sample(struct lease_clock *clock, const struct rates *rates, uint64_t true_ns,
                   uint64_t way_ns)
{
    struct lease_time posted = client_at(rates, true_ns);
    struct lease_time now = client_at(rates, true_ns + 2 * way_ns);

    lease_clock_sample(clock, &posted, server_at(rates, true_ns + way_ns), &now);
}

TEST(the_servers_clock_is_never_ahead)
{
    uint64_t random = SEED;

    for (unsigned i = 0; i < ROUNDS; i++) {
        const struct rates *rates = &all_rates[i % 5];
        struct lease_clock clock = {.taken = 0};
        uint64_t true_ns = random_next(&random) % (100 * SECOND);
        uint64_t way_ns = random_next(&random) % (50 * MS), age_ns = 0;
        for (unsigned k = 0; k < 1 + i % 6; k++) {
            true_ns += random_next(&random) % (30 * SECOND);
            sample(&clock, rates, true_ns, way_ns);
        }
        age_ns = 2 * way_ns + random_next(&random) % (60 * SECOND);
        struct lease_time now = client_at(rates, true_ns + age_ns);
        uint64_t upper_us = lease_clock_upper_us(&clock, &now);
        uint64_t server_us = server_at(rates, true_ns + age_ns);
        assert_true(server_us < upper_us);
        /* Nor is the bound far ahead: the way, the drift, and what a clock is slewed. */
        uint64_t slew_ns = rates->boot > 0 ? age_ns / 9 : 0;
        assert_true(upper_us <= server_us + (way_ns + age_ns / 300 + slew_ns) / 1000 + 3);
    }
}

/* At the deadline the server's clock has not come to the end, neither when the deadline lies ahead
 * nor when it has passed. */
TEST(a_deadline_is_before_the_end)
{
    uint64_t random = SEED;

    for (unsigned i = 0; i < ROUNDS; i++) {
        const struct rates *rates = &all_rates[i % 5];
        struct lease_clock clock = {.taken = 0};
        sample(&clock, rates, 0, 10 * US);
        uint64_t status_ns = 5 * SECOND + random_next(&random) % SECOND;
        struct lease_time now = client_at(rates, status_ns);
        uint64_t end_us = server_at(rates, 4500 * MS + random_next(&random) % (2 * SECOND));
        uint64_t deadline_ns = lease_deadline_ns(&clock, end_us, &now);
        uint64_t seen_ns = 4 * SECOND + random_next(&random) % (3 * SECOND);
        if (client_at(rates, seen_ns).boot_ns < deadline_ns)
            assert_true(server_at(rates, seen_ns) < end_us);
        if (i % 5 == 0 && end_us > server_at(rates, status_ns) + 20000)
            assert_true(deadline_ns > now.boot_ns); /* it is of use */
    }
}

TEST(the_lowest_of_the_last_four_counts)
{
    const struct rates *rates = &all_rates[0];
    struct lease_clock clock = {.taken = 0};

    sample(&clock, rates, 0, US);
    for (unsigned i = 1; i <= 3; i++)
        sample(&clock, rates, i * SECOND, 100 * MS);
    struct lease_time now = client_at(rates, 4 * SECOND);
    assert_in_range(lease_clock_upper_us(&clock, &now) - server_at(rates, 4 * SECOND), 1, 6100);
    sample(&clock, rates, 4 * SECOND, 100 * MS); /* the first one is gone */
    now = client_at(rates, 5 * SECOND);
    assert_in_range(lease_clock_upper_us(&clock, &now) - server_at(rates, 5 * SECOND), 100000,
                    103000);
}

/* CLOCK_BOOTTIME goes on in suspend, the other one does not. */
TEST(suspend_counts)
{
    const struct rates *rates = &all_rates[0];
    struct lease_clock clock = {.taken = 0};

    sample(&clock, rates, 0, US);
    struct lease_time now = client_at(rates, SECOND);
    now.boot_ns += 3600 * SECOND;
    assert_true(lease_clock_upper_us(&clock, &now) > server_at(rates, 3601 * SECOND));
}

/* Both clocks of a virtual machine may stand still with it. A later sample tells. */
TEST(a_sample_that_contradicts_drops_the_others)
{
    const struct rates *rates = &all_rates[0];
    struct lease_clock clock = {.taken = 0};

    sample(&clock, rates, 0, US);
    struct lease_time now = client_at(rates, SECOND);
    lease_clock_sample(&clock, &now, server_at(rates, 5 * SECOND), &now);
    assert_int_equal(clock.taken, 1);
    assert_true(lease_clock_upper_us(&clock, &now) > server_at(rates, 5 * SECOND));
}

TEST(without_a_sample_there_is_no_deadline)
{
    struct lease_clock clock = {.taken = 0};
    struct lease_time now = client_at(&all_rates[0], SECOND);

    assert_int_equal(lease_clock_upper_us(&clock, &now), LEASE_CLOCK_UNKNOWN);
    assert_int_equal(lease_deadline_ns(&clock, UINT64_MAX, &now), 0);
}

/* Whatever a server says, nothing wraps around. */
TEST(extremes)
{
    static const uint64_t ends_us[] = {0, 1, BEGIN_US, UINT64_MAX - 1, UINT64_MAX};
    static const uint64_t clocks_us[] = {0, BEGIN_US, UINT64_MAX - 3, UINT64_MAX};

    for (unsigned i = 0; i < 5 * 4; i++) {
        struct lease_clock clock = {.taken = 0};
        struct lease_time now = client_at(&all_rates[0], SECOND);
        uint64_t end_us = ends_us[i % 5], clock_us = clocks_us[i / 5];
        lease_clock_sample(&clock, &now, clock_us, &now);
        uint64_t deadline_ns = lease_deadline_ns(&clock, end_us, &now);
        if (end_us <= clock_us || clock_us == UINT64_MAX)
            assert_true(deadline_ns < now.boot_ns);
        else
            assert_true(deadline_ns + 2 * US >= now.boot_ns);
    }
}
