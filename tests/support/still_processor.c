#include "tests/support/still_processor.h"

#include <time.h>

uint64_t processor_each_look_ns;

int __real_clock_gettime(clockid_t id, struct timespec *time);
int __wrap_clock_gettime(clockid_t id, struct timespec *time);

int __wrap_clock_gettime(clockid_t id, struct timespec *time)
{
    static _Thread_local uint64_t cpu_ns;

    if (id != CLOCK_THREAD_CPUTIME_ID)
        return __real_clock_gettime(id, time);
    cpu_ns += processor_each_look_ns;
    *time = (struct timespec){.tv_sec = (time_t)(cpu_ns / 1000000000u),
                              .tv_nsec = (long)(cpu_ns % 1000000000u)};
    return 0;
}
