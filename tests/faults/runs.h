/* Runs, each in a child of its own. */
#ifndef OKV_TESTS_RUNS_H
#define OKV_TESTS_RUNS_H

#include <stdbool.h>

#include "tests/faults/inject.h"

struct runs {
    const char *name;
    bool verbose;                  /* a line for each */
    void (*run)(const void *user); /* in a child; ends by exit(0) when all is well */
    const void *user;
    unsigned count;
    unsigned wrong;
};

/* Once, before the first. */
void runs_init(void);

/* Does one with the plan's point failing. False, with what it printed and where the failure was,
 * when it ended in any other way than well, after too long, or with a leak. */
bool runs_do(struct runs *runs, const struct inject_plan *plan);
/* So many were wrong that the rest is left: runs_do() does nothing more. */
bool runs_are_enough(const struct runs *runs);

/* In the child: descriptors that are open. */
unsigned runs_count_descriptors(void);
/* In the child: complains when there are more than `before` and those that libraries keep. */
void runs_check_descriptors(unsigned before);
/* What clean runs left open so far is what libraries keep. */
void runs_accept_descriptors(void);

#endif
