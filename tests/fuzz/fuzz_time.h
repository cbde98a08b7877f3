/*
 * Time that costs nothing: the linker gives the client or server under test a clock_gettime, poll,
 * sched_yield, nanosleep and getrandom of this clock (CMakeLists.txt). Each look at it takes ten
 * microseconds, each wait as long as it asked for, at once. Outside of an input and in the fuzzer's
 * own threads these functions are libc's.
 */
#ifndef OKV_TESTS_FUZZ_TIME_H
#define OKV_TESTS_FUZZ_TIME_H

#include <stdbool.h>
#include <stdint.h>

/* Whether a descriptor is readable. */
typedef bool fuzz_is_ready(void *context, int fd);

/* Around an input. The clock is back at the beginning; poll asks `is_ready`. */
void fuzz_time_begin(fuzz_is_ready *is_ready, void *context);
void fuzz_time_end(void);
bool fuzz_time_is_active(void);
uint64_t fuzz_time_ns(void);
void fuzz_time_pass(uint64_t ns);

#endif
