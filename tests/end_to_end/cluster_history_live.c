/*
 * Recorded clients (support/recorded_crowd.h) on a cluster that somebody else runs and breaks, at
 * OKV_TEST_URI, until standard input ends. For each line of it "progress" is printed once they have
 * made some from then on. Without OKV_TEST_URI it is left out.
 */
#include <unistd.h>

#include "tests/support/test.h"

#include "tests/support/random.h"
#include "tests/support/recorded_crowd.h"

static struct recorded_crowd crowd;

static int require_uri(void **state)
{
    (void)state;
    assert_non_null(getenv("OKV_TEST_URI"));
    return 0;
}

static int end(void **state)
{
    (void)state;
    recorded_crowd_fini(&crowd);
    return 0;
}

TEST_PROGRAM(require_uri, NULL)

static void say(const char *text)
{
    fprintf(stderr, "%s\n", text);
}

TEST_WITH(one_order_explains_all, NULL, end)
{
    char byte;

    recorded_crowd_start(&crowd, getenv("OKV_TEST_URI"), random_seed());
    say("the clients run");
    while (read(STDIN_FILENO, &byte, 1) > 0) {
        recorded_crowd_await(&crowd);
        say("progress");
    }
    recorded_crowd_stop(&crowd);
    recorded_crowd_check(&crowd);
}
