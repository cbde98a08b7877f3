/* Which calls fail, in the runs of one side. */
#ifndef OKV_TESTS_PLAN_H
#define OKV_TESTS_PLAN_H

#include "tests/faults/runs.h"

/* Clean runs, from which the sites are known. */
#define PLAN_CLEAN 3

/* Prints the seed of the random choices: random_seed(). */
void plan_choose_seed(void);
/* PLAN_CLEAN runs in which nothing fails. Each of these: false when a run was wrong. */
bool plan_clean(struct runs *runs);
/* Every point, until runs come to their end without having met it. */
bool plan_every_point(struct runs *runs, enum inject_side side);
/* Every site of the clean runs in each of its ways, at a random one of its calls; or only those
 * that did not fail so far. */
bool plan_every_site(struct runs *runs, enum inject_side side, bool missed_only);
/* One line, and one for each site of the clean runs that never failed. False when such a site
 * was met by all clean runs of a plan: what fewer met depends on timing, and may never come again.
 */
bool plan_summarize(const struct runs *runs, enum inject_side side);

#endif
