/*
 * Time in tests: red means broken, never slow.
 *
 * What must come is waited for until PACE_GUARD_MS: a test that passes never sits that out, and
 * one that does hangs. A time that a test has to sit out, such as a deadline that is to pass, is
 * pace_ms(): short on a fast machine, long on a slow or a busy one. Where a time is the promise, a
 * test asserts "not before", or drives the clock, or asserts an order of events; where something
 * must be done within a time, an attempt that took longer says nothing and is made again with
 * more.
 */
#ifndef OKV_TESTS_PACE_H
#define OKV_TESTS_PACE_H

#include <stdint.h>

#define PACE_GUARD_MS 120000
#define PACE_GUARD_NS (PACE_GUARD_MS * UINT64_C(1000000))

/* `ms` times how many times slower than a fast idle machine this one is at the first call: 1 to
 * 10. */
uint32_t pace_ms(uint32_t ms);

/* When the guard is over that begins now, on okv_clock_ns(). */
uint64_t pace_guard_end(void);

/* At least that long. */
void pace_sleep_ms(uint32_t ms);

#endif
