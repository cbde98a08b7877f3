/*
 * A server that is started before the one before it is gone: it says that it waits, and serves when
 * the address is free.
 */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "tests/support/server_process.h"

/* Reads what the follower says on its standard error, and kills the predecessor when it is waited
 * for, not before. */
struct watcher {
    FILE *said;
    struct server_process *predecessor;
    bool killed;
};

static void *kill_when_waited_for(void *user)
{
    struct watcher *watcher = user;
    char line[512];

    while (fgets(line, sizeof line, watcher->said)) {
        fputs(line, stdout);
        if (watcher->killed || !strstr(line, " is in use: waiting"))
            continue;
        server_signal(watcher->predecessor, SIGKILL);
        watcher->killed = true;
    }
    return NULL;
}

/* Starts a server at the address of another, with its standard error in the pipe. */
static void start_at(struct server_process *follower, const struct server_process *there, int said)
{
    static const char *const arguments[] = {"--memory", "16M", NULL};
    int kept = dup(STDERR_FILENO);

    assert_true(kept >= 0);
    dup2(said, STDERR_FILENO);
    server_start_after(follower, there, arguments);
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(said);
}

TEST(the_address_of_a_server_that_ends_is_waited_for)
{
    static const char *const arguments[] = {"--memory", "16M", NULL};
    struct server_process predecessor, follower;
    struct watcher watcher = {.predecessor = &predecessor};
    pthread_t thread;
    int said[2];

    server_start(&predecessor, arguments);
    assert_int_equal(pipe(said), 0);
    watcher.said = fdopen(said[0], "r");
    assert_non_null(watcher.said);
    assert_int_equal(pthread_create(&thread, NULL, kill_when_waited_for, &watcher), 0);
    start_at(&follower, &predecessor, said[1]);
    okv *handle = server_connect(&follower, NULL);
    assert_int_equal(okv_ping(handle), OKV_OK);
    okv_close(&handle);
    assert_int_equal(server_stop(&follower), 0);
    pthread_join(thread, NULL);
    assert_true(watcher.killed);
    fclose(watcher.said);
    server_wait(&predecessor); /* its directory */
}
