/* okv_open() for tests: nobody who waits for an answer is to be told that this machine is slow. */
#ifndef OKV_TESTS_PATIENT_OPEN_H
#define OKV_TESTS_PATIENT_OPEN_H

#include <okv.h>
#include <stdbool.h>
#include <stdlib.h>

#include "shared/base/clock.h"
#include "tests/support/pace.h"

/* With deadlines that only a hang meets, for those that `options` (may be NULL) leaves at 0. */
static inline int patient_open(const char *uri, const struct okv_options *options, okv **out,
                               char *why, size_t why_size)
{
    struct okv_options all = options ? *options : (struct okv_options){.timeout_ms = 0};
    bool is_impatient = all.connect_timeout_ms != 0;
    uint64_t end = pace_guard_end();
    int rc;

    all.timeout_ms = all.timeout_ms ? all.timeout_ms : PACE_GUARD_MS;
    all.connect_timeout_ms = is_impatient ? all.connect_timeout_ms : PACE_GUARD_MS;
    /* The connection manager gives up after seconds, whatever it was told. They pass where a
     * guest's emulated processors get no time from the machine. With OKV_TEST_CUTS the network is
     * cut now and then. */
    do {
        rc = okv_open(uri, &all, out, why, why_size);
    } while ((rc == OKV_ETIMEDOUT || (rc && getenv("OKV_TEST_CUTS"))) && !is_impatient &&
             okv_clock_ns() < end);
    return rc;
}

#endif
