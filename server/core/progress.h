/* A line on a terminal that says how far long work has come. */
#ifndef OKV_SERVER_CORE_PROGRESS_H
#define OKV_SERVER_CORE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct okv_progress {
    int fd;           /* a terminal; -1: nothing is shown */
    const char *what; /* borrowed */
    uint64_t total;   /* bytes */
    uint64_t begun_ns, shown_ns;
    bool is_shown;
};

/* `fd` stays the caller's; -1 shows nothing. `now_ns` is of a monotonic clock, here and below. */
void okv_progress_begin(struct okv_progress *progress, int fd, const char *what, uint64_t total,
                        uint64_t now_ns);
/* Shows how many of the bytes were read, and how many items they made: after the first second, and
 * then at most five times a second. One thread at a time. */
void okv_progress_show(struct okv_progress *progress, uint64_t bytes, uint64_t items,
                       uint64_t now_ns);
/* Takes the line away. */
void okv_progress_end(struct okv_progress *progress);

#endif
