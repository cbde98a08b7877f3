/*
 * Preloaded into a server (LD_PRELOAD), has its lease clock, CLOCK_MONOTONIC_RAW, run
 * $OKV_TEST_CLOCK_PPM millionths fast, or slow if that is negative.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS INT64_C(1000000000)

static int64_t ppm, begin_ns;

static int64_t ns_of(const struct timespec *time)
{
    return time->tv_sec * SECOND_NS + time->tv_nsec;
}

__attribute__((constructor)) static void begin(void)
{
    const char *given = getenv("OKV_TEST_CLOCK_PPM");
    struct timespec now;

    syscall(SYS_clock_gettime, CLOCK_MONOTONIC_RAW, &now);
    begin_ns = ns_of(&now);
    ppm = given ? strtoll(given, NULL, 10) : 0;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *out)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, out);

    if (rc || clock != CLOCK_MONOTONIC_RAW)
        return rc;
    int64_t ns = ns_of(out);
    ns += (ns - begin_ns) / 1000 * ppm / 1000;
    out->tv_sec = ns / SECOND_NS;
    out->tv_nsec = ns % SECOND_NS;
    return 0;
}
