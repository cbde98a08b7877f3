/*
 * Clients written straight on the connection manager, in a process of their own: chaos_crowd
 * KIND URI COUNT SECONDS.
 *
 *   half-open  asks to be connected and never confirms the answer
 *   silent     connects, says a good hello and then nothing
 *   storm      the same, all at once; leaves as soon as it has its answer
 *
 * It prints "asked N answered N refused N failed N in S s" when each has been answered or
 * GUARD seconds went by, and ends after SECONDS more.
 */
#ifndef OKV_TESTS_CROWD_H
#define OKV_TESTS_CROWD_H

#include <stdbool.h>
#include <sys/types.h>

struct crowd_result {
    unsigned asked, answered, refused, failed;
    double seconds;
};

struct crowd_process {
    pid_t pid;
    int out;
};

/* False: no process. */
bool crowd_start(struct crowd_process *process, const char *kind, const char *uri, unsigned count,
                 double seconds);
/* Waits for its line. False: it ended without. */
bool crowd_read(struct crowd_process *process, struct crowd_result *result);
/* Kills it with -9, if it lives. */
void crowd_end(struct crowd_process *process);

#endif
