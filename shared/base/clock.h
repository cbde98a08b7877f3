/* Time for deadlines and measurements: CLOCK_MONOTONIC in nanoseconds. */
#ifndef OKV_SHARED_BASE_CLOCK_H
#define OKV_SHARED_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t okv_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The same clock at the kernel's last tick, up to OKV_CLOCK_TICK_NS ago. Costs a load from memory;
 * okv_clock_ns() costs some 15 ns more, or a microsecond where a device provides the time, as in
 * many virtual machines. */
#define OKV_CLOCK_TICK_NS 10000000u /* 100 Hz, the lowest rate of a kernel */
static inline uint64_t okv_clock_coarse_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A counter for rough intervals, read in half the time of okv_clock_ns(). The time stamp counter of
 * x86-64 makes 1 to 5 steps per ns; elsewhere a step is 1 ns. The counters of two CPUs may differ,
 * and a read may happen some instructions early. */
static inline uint64_t okv_clock_steps(void)
{
#ifdef __x86_64__
    return __builtin_ia32_rdtsc();
#else
    return okv_clock_ns();
#endif
}

/* Wall clock in microseconds since 1970. */
static inline uint64_t okv_clock_wall_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

/* The same in milliseconds, for time stamps that a peer reads. */
static inline uint64_t okv_clock_wall_ms(void)
{
    return okv_clock_wall_us() / 1000u;
}

/* Milliseconds on a clock that cannot be set and that counts suspended time too. */
static inline uint64_t okv_clock_boot_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

/* The same clock in nanoseconds. */
static inline uint64_t okv_clock_boot_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Nanoseconds on a clock whose rate nobody adjusts. It stands still in suspend. */
static inline uint64_t okv_clock_raw_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A server's lease clock, us. */
static inline uint64_t okv_clock_lease_us(void)
{
    return okv_clock_raw_ns() / 1000;
}

/* Milliseconds from now until `deadline_ns`, rounded up; 0 when it has passed. */
static inline int okv_clock_ms_until(uint64_t deadline_ns)
{
    uint64_t now = okv_clock_ns();
    if (deadline_ns <= now)
        return 0;
    uint64_t ms = (deadline_ns - now + 999999u) / 1000000u;
    return ms > 86400000u ? 86400000 : (int)ms;
}

/* The shorter of two times to wait; -1 is for ever. */
static inline int okv_clock_sooner_ms(int a_ms, int b_ms)
{
    return a_ms < 0 || (b_ms >= 0 && b_ms < a_ms) ? b_ms : a_ms;
}

#endif
