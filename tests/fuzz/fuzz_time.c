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

/* The functions of libc have no context. */
static struct {
    uint64_t now_ns;
    uint64_t random;
    fuzz_is_ready *is_ready;
    void *context;
} world;

void fuzz_time_reset(fuzz_is_ready *is_ready, void *context)
{
    world.now_ns = BEGIN_NS;
    world.random = 1;
    world.is_ready = is_ready;
    world.context = context;
}

uint64_t fuzz_time_ns(void)
{
    return world.now_ns;
}

void fuzz_time_pass(uint64_t ns)
{
    world.now_ns += ns;
}

/* By their own names, which the compiler is told to replace. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    world.now_ns += LOOK_NS;
    *now = (struct timespec){.tv_sec = (time_t)(world.now_ns / 1000000000u),
                             .tv_nsec = (long)(world.now_ns % 1000000000u)};
    return 0;
}

int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    int ready = 0;

    for (nfds_t i = 0; i < count; i++) {
        bool is_ready = world.is_ready(world.context, fds[i].fd);
        fds[i].revents = is_ready ? POLLIN : 0;
        ready += is_ready;
    }
    FUZZ_CHECK(ready || timeout_ms >= 0); /* nothing may wait for ever */
    world.now_ns += ready ? LOOK_NS : (uint64_t)timeout_ms * 1000000u;
    return ready;
}

int sched_yield(void)
{
    world.now_ns += YIELD_NS;
    return 0;
}

int nanosleep(const struct timespec *asked, struct timespec *left)
{
    (void)left;
    world.now_ns += (uint64_t)asked->tv_sec * 1000000000u + (uint64_t)asked->tv_nsec;
    return 0;
}

ssize_t getrandom(void *out, size_t size, unsigned flags)
{
    (void)flags;
    for (size_t i = 0; i < size; i++) {
        world.random = world.random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        ((uint8_t *)out)[i] = (uint8_t)(world.random >> 33);
    }
    return (ssize_t)size;
}
