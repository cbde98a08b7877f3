/* A process that can open nothing more: what it has open stays. */
#ifndef OKV_TESTS_NO_DESCRIPTORS_H
#define OKV_TESTS_NO_DESCRIPTORS_H

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/test.h"

/* Leaves room for `spare` descriptors. Returns the limit to give back. */
static inline struct rlimit no_descriptors_begin(unsigned spare)
{
    struct rlimit before, low;
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);

    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    low.rlim_cur = (rlim_t)next + spare;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    return before;
}

static inline void no_descriptors_end(struct rlimit before)
{
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* Whether a thread that waits for it within `ms` has something to do. */
static inline bool is_readable(int fd, int ms)
{
    struct pollfd entry = {.fd = fd, .events = POLLIN};

    return poll(&entry, 1, ms) == 1;
}

#endif
