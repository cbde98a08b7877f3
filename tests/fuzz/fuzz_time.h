/*
 * Time that costs nothing: the client under test is compiled with clock_gettime, poll,
 * sched_yield, nanosleep and getrandom named fuzz_... (CMakeLists.txt), and waits on this clock.
 * Each look at it takes ten microseconds, each wait as long as it asked for, at once.
 */
#ifndef OKV_TESTS_FUZZ_TIME_H
#define OKV_TESTS_FUZZ_TIME_H

#include <stdbool.h>
#include <stdint.h>

/* Back to the beginning; `is_ready` tells poll whether a descriptor is readable. */
void fuzz_time_reset(bool (*is_ready)(void *context), void *context);
uint64_t fuzz_time_ns(void);

#endif
