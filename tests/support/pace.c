#include "tests/support/pace.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "shared/base/clock.h"
#include "tests/support/random.h"

/* Work of about FAST_NS on a fast idle machine. A yield gives the processor to whoever wants it, so
 * that other load counts as well. */
#define ROUNDS 50
#define STEPS 100000
#define FAST_NS 20000000u
#define FACTOR_MAX 10.0

static double factor = 1;

static void measure(void)
{
    uint64_t begun = okv_clock_ns();
    volatile uint64_t sink = 0;

    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t number = i;
        for (unsigned step = 0; step < STEPS; step++)
            number = random_mix(number);
        sink = sink + number;
        sched_yield();
    }
    factor = (double)(okv_clock_ns() - begun) / FAST_NS;
    factor = factor < 1 ? 1 : factor > FACTOR_MAX ? FACTOR_MAX : factor;
    fprintf(stderr, "pace: this machine is %.1f times slower than a fast idle one\n", factor);
}

uint32_t pace_ms(uint32_t ms)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, measure);
    return (uint32_t)(ms * factor);
}

uint64_t pace_guard_end(void)
{
    return okv_clock_ns() + PACE_GUARD_NS;
}

void pace_sleep_ms(uint32_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}
