#include "tests/support/target_steps.h"

#include "tests/support/test.h"

#define WAIT_MS 1000

struct okv_command on_key(enum okv_kind kind, const char *key)
{
    return (struct okv_command){.kind = kind, .key = key, .key_length = strlen(key)};
}

void collect(struct target *target, struct okv_result *results, int count)
{
    for (int got = 0; got < count;) {
        int rc = target->ops->poll(target, results + got, count - got);
        if (rc < 0)
            fail_msg("poll: %d, %s", rc, target->ops->why(target));
        if (rc == 0)
            target->ops->wait(target, WAIT_MS);
        got += rc;
    }
}
