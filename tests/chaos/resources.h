/* What a server holds: memory, descriptors, and what its device keeps for it. */
#ifndef OKV_TESTS_RESOURCES_H
#define OKV_TESTS_RESOURCES_H

#include <stdint.h>
#include <sys/types.h>

#include "tests/chaos/battery.h"

struct resources {
    uint64_t rss_kib;
    uint64_t descriptors;
    uint64_t queue_pairs, regions, connections; /* as `rdma resource` counts them */
};

void resources_read(struct battery *battery, pid_t pid, struct resources *out);
/*
 * Waits until all are no more than `before`: the same numbers, and memory within 1 % or
 * `slack_kib`. Fails the test when they are not after `seconds`; returns how long it took.
 */
double resources_await(struct battery *battery, pid_t pid, const struct resources *before,
                       uint64_t slack_kib, double seconds);
/* "rss 48000 KiB, 17 descriptors, ..." */
const char *resources_text(const struct resources *resources, char text[160]);

#endif
