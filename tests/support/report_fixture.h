/* Reports of kv-bench with targets and rounds that never were. */
#ifndef OKV_TEST_REPORT_FIXTURE_H
#define OKV_TEST_REPORT_FIXTURE_H

#include <stdio.h>

#include "bench/report/report.h"

#define ROUNDS 3

struct fixture {
    struct options options;
    struct report report;
    char *text; /* what was written last */
    size_t text_length;
};

/* Of cmocka: *state is a struct fixture. */
int report_fixture_setup(void **state);
int report_fixture_teardown(void **state);

/* A round of gets that take this long each, one after the other. */
void round_of(struct phase *phase, uint64_t gets, uint64_t get_ns);
/* A target of okv without rounds. */
struct report_target *target_of(struct fixture *fixture, uint32_t index, const char *name);
/* With a round for each of ROUNDS times of a get, in ns. */
struct report_target *run_of(struct fixture *fixture, uint32_t index, const char *name,
                             const uint64_t *get_ns);

/* A stream into the fixture's text; it is there once the caller has closed the stream. */
FILE *text_begin(struct fixture *fixture);

#endif
