/* Driving a target in tests: one command, and results that are waited for. */
#ifndef OKV_TESTS_TARGET_STEPS_H
#define OKV_TESTS_TARGET_STEPS_H

#include "bench/targets/target.h"

struct okv_command on_key(enum okv_kind kind, const char *key);
/* Collects exactly `count` results, in the order in which they come; else fails the test. */
void collect(struct target *target, struct okv_result *results, int count);

#endif
