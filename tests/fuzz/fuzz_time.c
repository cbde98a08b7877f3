#include "tests/fuzz/fuzz_time.h"

#include <poll.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/types.h>
#include <time.h>

#include "tests/fuzz/fuzz_input.h"

#define BEGIN_NS UINT64_C(1000000000000)
#define LOOK_NS 10000
#define YIELD_NS 20000

/* The functions of libc have no context. Only the thread that runs the input is in this world: the
 * fuzzer has threads of its own. */
static _Thread_local struct {
    bool active;
    uint64_t now_ns;
    uint64_t random;
    fuzz_is_ready *is_ready;
    void *context;
} world;

void fuzz_time_begin(fuzz_is_ready *is_ready, void *context)
{
    world.active = true;
    world.now_ns = BEGIN_NS;
    world.random = 1;
    world.is_ready = is_ready;
    world.context = context;
}

void fuzz_time_end(void)
{
    world.active = false;
}

bool fuzz_time_is_active(void)
{
    return world.active;
}

uint64_t fuzz_time_ns(void)
{
    return world.now_ns;
}

void fuzz_time_pass(uint64_t ns)
{
    world.now_ns += ns;
}

/* ---- in the place of libc's, by the linker (--wrap) ---- */

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __real_nanosleep(const struct timespec *asked, struct timespec *left);
int __wrap_nanosleep(const struct timespec *asked, struct timespec *left);
ssize_t __real_getrandom(void *out, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *out, size_t size, unsigned flags);

/* The time of day is the real one: by it the fuzzer notices an input that hangs, in a signal. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!world.active || clock == CLOCK_REALTIME)
        return __real_clock_gettime(clock, now);
    world.now_ns += LOOK_NS;
    *now = (struct timespec){.tv_sec = (time_t)(world.now_ns / 1000000000u),
                             .tv_nsec = (long)(world.now_ns % 1000000000u)};
    return 0;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    int ready = 0;

    if (!world.active)
        return __real_poll(fds, count, timeout_ms);
    for (nfds_t i = 0; i < count; i++) {
        bool is_ready = world.is_ready(world.context, fds[i].fd);
        fds[i].revents = is_ready ? POLLIN : 0;
        ready += is_ready;
    }
    FUZZ_CHECK(ready || timeout_ms >= 0); /* nothing may wait for ever */
    world.now_ns += ready ? LOOK_NS : (uint64_t)timeout_ms * 1000000u;
    return ready;
}

int __wrap_sched_yield(void)
{
    if (!world.active)
        return __real_sched_yield();
    world.now_ns += YIELD_NS;
    return 0;
}

int __wrap_nanosleep(const struct timespec *asked, struct timespec *left)
{
    if (!world.active)
        return __real_nanosleep(asked, left);
    world.now_ns += (uint64_t)asked->tv_sec * 1000000000u + (uint64_t)asked->tv_nsec;
    return 0;
}

ssize_t __wrap_getrandom(void *out, size_t size, unsigned flags)
{
    if (!world.active)
        return __real_getrandom(out, size, flags);
    for (size_t i = 0; i < size; i++) {
        world.random = world.random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        ((uint8_t *)out)[i] = (uint8_t)(world.random >> 33);
    }
    return (ssize_t)size;
}
