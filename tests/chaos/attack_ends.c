#include "tests/chaos/attack_ends.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <okv_admin.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"

#define SESSIONS_MAX 1024
#define ANSWER_SIZE (64u << 10)

struct sessions {
    uint64_t ids[SESSIONS_MAX];
    unsigned count;
};

static double ms_since(uint64_t begin_ns)
{
    return (double)(okv_clock_ns() - begin_ns) / 1e6;
}

/* Adds those of `user` among the lines of an answer. Returns the last id; 0: there were no lines.
 */
static uint64_t add_lines(struct sessions *sessions, char *answer, const char *user)
{
    char name[128], *save;
    uint64_t id = 0;

    for (char *line = strtok_r(answer, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        assert_int_equal(sscanf(line, "%" SCNx64 " %127s", &id, name), 2);
        if (strcmp(name, user) == 0 && sessions->count < SESSIONS_MAX)
            sessions->ids[sessions->count++] = id;
    }
    return id;
}

/* Returns 0 or what okv_admin() has. */
static int list(okv *admin, const char *user, struct sessions *sessions)
{
    static char answer[ANSWER_SIZE];
    uint64_t after = 0;
    char command[64];
    size_t length;

    sessions->count = 0;
    for (;;) {
        snprintf(command, sizeof command, "sessions %" PRIx64, after);
        int rc = okv_admin(admin, command, answer, sizeof answer, &length);
        if (rc)
            return rc;
        uint64_t last = add_lines(sessions, answer, user);
        if (last == 0)
            return 0;
        after = last;
    }
}

static unsigned count_common(const struct sessions *killed, const struct sessions *present)
{
    unsigned count = 0;

    for (unsigned i = 0; i < killed->count; i++)
        for (unsigned k = 0; k < present->count; k++)
            count += killed->ids[i] == present->ids[k];
    return count;
}

/* One that has left by itself is not found. */
static void kill_each(okv *admin, const struct sessions *sessions)
{
    char command[64], answer[64];
    size_t length;

    for (unsigned i = 0; i < sessions->count; i++) {
        snprintf(command, sizeof command, "kill %" PRIx64, sessions->ids[i]);
        okv_admin(admin, command, answer, sizeof answer, &length);
    }
}

double attack_ends_kill(okv *admin, const char *user)
{
    static struct sessions killed, present;
    uint64_t guard = pace_guard_end();

    if (list(admin, user, &killed) || killed.count == 0)
        return -1;
    uint64_t begin = okv_clock_ns();
    kill_each(admin, &killed);
    while (list(admin, user, &present) || count_common(&killed, &present) > 0)
        if (okv_clock_ns() > guard)
            fail_msg("a session of %s is left that was killed", user);
    return ms_since(begin);
}

double attack_ends_stop(struct server_process *server, int *status)
{
    uint64_t begin = okv_clock_ns();

    *status = server_stop(server);
    return ms_since(begin);
}
