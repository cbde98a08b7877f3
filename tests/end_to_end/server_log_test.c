/* What the server says on standard error of clients that do not behave, and of those that do. */
#include <inttypes.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/hostile_client.h"
#include "tests/support/pace.h"

#define LOG_BYTES 65536
#define FLOOD 60

/* A server whose standard error is a file. */
struct fixture {
    struct bystander bystander;
    FILE *log;
    char text[LOG_BYTES]; /* what read_log() found */
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    int kept = dup(STDERR_FILENO);

    assert_non_null(fixture);
    assert_true(kept >= 0);
    fixture->log = tmpfile();
    assert_non_null(fixture->log);
    dup2(fileno(fixture->log), STDERR_FILENO);
    bystander_start(&fixture->bystander, NULL);
    dup2(kept, STDERR_FILENO);
    close(kept);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    /* A test that is skipped, or fails, has not stopped it. */
    int status = bystander_stop(&fixture->bystander);

    fclose(fixture->log);
    free(fixture);
    return status;
}

static void read_log(struct fixture *fixture)
{
    ssize_t length = pread(fileno(fixture->log), fixture->text, LOG_BYTES - 1, 0);

    assert_true(length >= 0);
    fixture->text[length] = '\0';
}

/* Waits for the text in the log; fails the test after a while. */
static void expect_log(struct fixture *fixture, const char *text)
{
    uint64_t deadline = pace_guard_end();

    do {
        read_log(fixture);
        if (strstr(fixture->text, text))
            return;
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    } while (okv_clock_ns() < deadline);
    fail_msg("no '%s' in the server's log:\n%s", text, fixture->text);
}

static void stop(struct fixture *fixture)
{
    assert_int_equal(bystander_stop(&fixture->bystander), 0);
    read_log(fixture);
}

/* How clients of this transport are named. */
static const char *some_peer(void)
{
    return server_is_local()  ? "okv-server: pid "
           : server_is_slow() ? "okv-server: 10.9.9."
                              : "okv-server: 127.0.0.1:";
}

TEST_WITH(a_message_that_makes_no_sense_is_told, set_up, tear_down)
{
    struct fixture *fixture = *state;
    static const uint8_t junk[40] = {0xff};
    struct hostile hostile;
    char session[64];

    hostile_join(&hostile, &fixture->bystander.server);
    snprintf(session, sizeof session, "(session %016" PRIx64 ", ", hostile.table.session_id);
    hostile_send(&hostile, junk, sizeof junk, okv_immediate(0x55, 999));
    hostile_expect_closed(&hostile, "junk");
    hostile_leave(&hostile);
    expect_log(fixture, session);
    const char *line = strstr(fixture->text, some_peer());
    assert_non_null(line);
    assert_non_null(strstr(line, ": ended: "));
    assert_true(strchr(line, '\n') > strstr(line, session));
    stop(fixture);
}

TEST_WITH(a_refused_client_is_told, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct hostile hostile;

    assert_int_not_equal(hostile_connect(&hostile, &fixture->bystander.server, "what?", 5), 0);
    hostile_leave(&hostile);
    expect_log(fixture, ": refused: ");
    assert_non_null(strstr(fixture->text, some_peer()));
    stop(fixture);
}

/* It is not the server that lacks something. */
TEST_WITH(a_client_that_gave_up_is_told, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct server_process *server = &fixture->bystander.server;

    if (strcmp(server_scheme(), "ofi") == 0 || server_has_tls())
        skip(); /* such a client says nothing before the server has answered it */
    server_signal(server, SIGSTOP);
    hostile_give_up(server);
    server_signal(server, SIGCONT);
    expect_log(fixture, ": refused: the client was gone, or had given up waiting");
    /* Over RDMA it may have tried more than once. */
    assert_true(bystander_stat(&fixture->bystander, "rejected_gone") >= 1);
    assert_int_equal(bystander_stat(&fixture->bystander, "rejected_resources"), 0);
    bystander_check(&fixture->bystander);
    stop(fixture);
    assert_null(strstr(fixture->text, "ulimit"));
}

TEST_WITH(clients_that_behave_are_not_told, set_up, tear_down)
{
    struct fixture *fixture = *state;
    okv *handle = server_connect(&fixture->bystander.server, NULL);

    bystander_check(&fixture->bystander);
    okv_close(&handle);
    bystander_expect_stat(&fixture->bystander, "closed_by_client", 1);
    stop(fixture);
    assert_null(strstr(fixture->text, ": ended: "));
    assert_null(strstr(fixture->text, ": refused: "));
    assert_null(strstr(fixture->text, " more connections"));
}

static int put(okv *handle, int number)
{
    static const char value[60000];
    char key[16];

    snprintf(key, sizeof key, "key %d", number);
    return okv_put(handle, key, strlen(key), value, sizeof value, NULL);
}

TEST_WITH(a_full_database_is_told, set_up, tear_down)
{
    struct fixture *fixture = *state;
    okv *handle = server_connect(&fixture->bystander.server, NULL);
    int number = 0, rc;

    while ((rc = put(handle, number)) == 0)
        number++;
    assert_int_equal(rc, OKV_EFULL);
    expect_log(fixture, "database default is full: writes that find no room are refused");
    assert_null(strstr(fixture->text, "database default has room"));
    assert_int_equal(okv_flush(handle), 0);
    assert_int_equal(put(handle, number), 0);
    expect_log(fixture, "database default has room: writes are taken again");
    okv_close(&handle);
    stop(fixture);
}

/* How many ends and refusals the log tells of, one by one or not; *lines is how many it has. */
static unsigned long events_told(char *text, unsigned *lines)
{
    unsigned long told = 0;
    unsigned long more;
    char *save;

    *lines = 0;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (strstr(line, ": refused: "))
            told++;
        else if (sscanf(line, "okv-server: %lu more connections", &more) == 1)
            told += more;
        else
            continue;
        ++*lines;
    }
    return told;
}

TEST_WITH(a_flood_is_told_in_few_lines, set_up, tear_down)
{
    struct fixture *fixture = *state;
    uint64_t start_ns = okv_clock_ns();
    unsigned lines;

    for (int i = 0; i < FLOOD; i++) {
        struct hostile hostile;
        assert_int_not_equal(hostile_connect(&hostile, &fixture->bystander.server, "what?", 5), 0);
        hostile_leave(&hostile);
    }
    bystander_check(&fixture->bystander);
    bystander_expect_stat(&fixture->bystander, "rejected_malformed", FLOOD);
    stop(fixture);
    unsigned seconds = (unsigned)((okv_clock_ns() - start_ns) / 1000000000u) + 1;
    assert_int_equal(events_told(fixture->text, &lines), FLOOD);
    assert_true(lines <= seconds * 10 + 1);
}
