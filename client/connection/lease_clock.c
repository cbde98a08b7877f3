/*
 * A sample says what the server's clock showed at some moment after we posted a request. So at any
 * later moment it shows at most that and the time since the post, on clocks that run apart by a
 * bounded rate. The request's way to the server makes a bound too high, never too low; the lowest
 * of the latest few counts.
 *
 * The time since a sample is the larger one of two clocks: CLOCK_MONOTONIC_RAW stands still in
 * suspend, CLOCK_BOOTTIME is slewed while somebody adjusts the time. A deadline lies on
 * CLOCK_BOOTTIME alone, so that a get reads one clock: it allows for any slewing since then.
 */
#include "client/connection/lease_clock.h"

#include "shared/base/clock.h"

/* One clock of a host is off by at most 500 ppm. Time on ours, three times that, covers both. */
#define DRIFT_ONE_IN 666
/* The kernel slews a clock by about a tenth at most. */
#define SLEW_ONE_IN 8
/* No lease is longer: keeps sums in range, whatever a server says. */
#define FAR_US UINT64_C(100000000000)

struct lease_time lease_time_now(void)
{
    return (struct lease_time){.raw_ns = okv_clock_raw_ns(), .boot_ns = okv_clock_boot_ns()};
}

static uint64_t elapsed_ns(const struct lease_time *from, const struct lease_time *now)
{
    uint64_t raw_ns = now->raw_ns - from->raw_ns;
    uint64_t boot_ns = now->boot_ns - from->boot_ns;

    return raw_ns > boot_ns ? raw_ns : boot_ns;
}

static uint64_t bound_us(const struct lease_sample *sample, const struct lease_time *now)
{
    uint64_t elapsed = elapsed_ns(&sample->posted, now);
    uint64_t passed_us = (elapsed + elapsed / DRIFT_ONE_IN) / 1000 + 2; /* both are rounded down */

    if (sample->server_us > LEASE_CLOCK_UNKNOWN - passed_us)
        return LEASE_CLOCK_UNKNOWN;
    return sample->server_us + passed_us;
}

uint64_t lease_clock_upper_us(const struct lease_clock *clock, const struct lease_time *now)
{
    uint64_t lowest = LEASE_CLOCK_UNKNOWN;

    for (unsigned i = 0; i < LEASE_SAMPLES && i < clock->taken; i++) {
        uint64_t bound = bound_us(&clock->samples[i], now);
        if (bound < lowest)
            lowest = bound;
    }
    return lowest;
}

void lease_clock_sample(struct lease_clock *clock, const struct lease_time *posted,
                        uint64_t server_us, const struct lease_time *now)
{
    if (server_us > lease_clock_upper_us(clock, now))
        clock->taken = 0; /* our clocks stood still */
    clock->samples[clock->taken++ % LEASE_SAMPLES] =
        (struct lease_sample){.posted = *posted, .server_us = server_us};
}

uint64_t lease_deadline_ns(const struct lease_clock *clock, uint64_t valid_until_us,
                           const struct lease_time *now)
{
    uint64_t upper = lease_clock_upper_us(clock, now);
    bool is_ahead = valid_until_us > upper;
    uint64_t distance = is_ahead ? valid_until_us - upper : upper - valid_until_us;

    if (upper == LEASE_CLOCK_UNKNOWN)
        return 0;
    uint64_t ns = (distance < FAR_US ? distance : FAR_US) * 1000;
    if (is_ahead)
        return now->boot_ns + ns - ns / SLEW_ONE_IN;
    ns += ns / SLEW_ONE_IN;
    return ns < now->boot_ns ? now->boot_ns - ns : 0;
}
