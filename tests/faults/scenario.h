/* What one client does in a run: every sort of call, each result checked. */
#ifndef OKV_TESTS_SCENARIO_H
#define OKV_TESTS_SCENARIO_H

#include "tests/faults/model.h"

/* Runs until the end, or until the server has ended. A result that the manual of the call
 * does not allow, or that the model does not, ends the process. */
void scenario_run(const char *uri, struct model *model);
/* Another client, with nothing failing any more, reads every key and compares. */
void scenario_verify(const char *uri, const struct model *model);

#endif
