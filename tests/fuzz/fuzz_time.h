/*
 * Time that costs nothing: the client or server under test is compiled with clock_gettime, poll,
 * sched_yield, nanosleep and getrandom named fuzz_... (CMakeLists.txt), and waits on this clock.
 * Each look at it takes ten microseconds, each wait as long as it asked for, at once.
 */
#ifndef OKV_TESTS_FUZZ_TIME_H
#define OKV_TESTS_FUZZ_TIME_H

#include <stdbool.h>
#include <stdint.h>

/* Whether a descriptor is readable. */
typedef bool fuzz_is_ready(void *context, int fd);

/* Back to the beginning; poll asks `is_ready`. */
void fuzz_time_reset(fuzz_is_ready *is_ready, void *context);
uint64_t fuzz_time_ns(void);
void fuzz_time_pass(uint64_t ns);

#endif
