/*
 * The load of the cluster's tests (support/cluster_load.h) on a cluster that somebody else runs, at
 * OKV_TEST_URI, until standard input ends: what was acknowledged is there, once. Without
 * OKV_TEST_URI it is left out.
 */
#include <unistd.h>

#include "tests/support/test.h"

#include "tests/support/cluster_load.h"
#include "tests/support/patient_open.h"

static struct cluster_load load;

static int require_uri(void **state)
{
    (void)state;
    assert_non_null(getenv("OKV_TEST_URI"));
    return 0;
}

TEST_PROGRAM(require_uri, NULL)

TEST(what_is_acknowledged_is_there_once)
{
    const char *uri = getenv("OKV_TEST_URI");
    char byte, why[320];
    okv *handle;

    cluster_load_start(&load, uri);
    cluster_load_await(&load);
    fprintf(stderr, "the load runs\n");
    while (read(STDIN_FILENO, &byte, 1) > 0)
        continue;
    cluster_load_await(&load);
    cluster_load_stop(&load);
    if (patient_open(uri, NULL, &handle, why, sizeof why))
        fail_msg("%s: %s", uri, why);
    cluster_load_check(&load, handle);
    okv_close(&handle);
}
