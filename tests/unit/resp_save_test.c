/* SAVE, BGSAVE and LASTSAVE, and what INFO says about logs and snapshots. */
#include <unistd.h>

#include "tests/support/test.h"

#include "server/resp/commands/commands.h"
#include "shared/base/clock.h"
#include "tests/support/resp_durable.h"

static const struct okv_store_params params = {
    .length = 16u << 20, .bucket_size = 256, .extra_reads = 1, .max_value = 100000};

#define FIXTURE_TEST(name) TEST_WITH(name, begin, end)

#define STARTED "+Background saving started\r\n"
#define BUSY "-ERR Background save already in progress\r\n"

/* A client that is admin of the first database only, which alone has a log here. */
static int connect_admin(void)
{
    int fd = resp_fixture_connect(&fixture);

    pass();
    TAILQ_LAST(&fixture.worker.resp->all, okv_resp_client_list)->rights[1] = 0;
    return fd;
}

/* Gives a command and returns what has come of its reply, which ends soon. */
static const char *ask(int fd, const char *line)
{
    static char text[4096];
    ssize_t n;

    say(fd, line);
    await(fd);
    n = recv(fd, text, sizeof text - 1, 0);
    assert_true(n > 0);
    text[n] = '\0';
    return text;
}

static void await_snapshots(struct durable *durable, uint64_t count)
{
    struct okv_wal_stats stats;

    for (unsigned i = 0; i < 60000; i++) {
        okv_wal_get_stats(durable->wal, &stats);
        if (stats.snapshots + stats.snapshots_failed >= count && !stats.is_snapshot_active)
            return;
        poll(NULL, 0, 1);
    }
    fail();
}

static void await_begin(struct durable *durable)
{
    struct okv_wal_stats stats = {.is_snapshot_active = false};

    for (unsigned i = 0; i < 60000 && !stats.is_snapshot_active; i++) {
        okv_wal_get_stats(durable->wal, &stats);
        poll(NULL, 0, 1);
    }
    assert_true(stats.is_snapshot_active);
}

FIXTURE_TEST(a_snapshot_is_made_in_the_background)
{
    struct durable *durable = open_durable();
    int fd = connect_admin();
    uint64_t before_s = okv_clock_wall_ms() / 1000;

    say(fd, "lastsave\r\nbgsave\r\n");
    await(fd);
    hear(fd, ":0\r\n" STARTED);
    await_snapshots(durable, 1);
    unsigned long long saved_s = strtoull(ask(fd, "lastsave\r\n") + 1, NULL, 10);
    assert_in_range(saved_s, before_s, okv_clock_wall_ms() / 1000);
    const char *text = ask(fd, "info persistence\r\n");
    assert_non_null(strstr(text, "\r\nrdb_saves:1\r\n"));
    assert_non_null(strstr(text, "\r\nrdb_last_bgsave_status:ok\r\n"));
    assert_null(strstr(text, "\r\nrdb_last_bgsave_time_sec:-1\r\n"));
    assert_null(strstr(text, "\r\nrdb_last_save_time:0\r\n"));
    close_durable(durable);
    close(fd);
}

FIXTURE_TEST(save_waits_and_others_are_served)
{
    struct durable *durable = open_durable();
    int fd = connect_admin(), other = resp_fixture_connect(&fixture);

    durable->disk.holds_snapshots = 1000;
    say(fd, "save\r\nping\r\n");
    hear_nothing(fd);
    await_begin(durable);
    hear_nothing(fd);
    say(other, "ping\r\n");
    hear(other, "+PONG\r\n");
    assert_non_null(strstr(ask(other, "info persistence\r\n"), "rdb_bgsave_in_progress:1"));
    crash_disk_release(&durable->disk);
    await(fd);
    hear(fd, "+OK\r\n+PONG\r\n");
    close_durable(durable);
    close(fd);
    close(other);
}

FIXTURE_TEST(a_snapshot_may_be_asked_for_while_one_is_made)
{
    struct durable *durable = open_durable();
    int fd = connect_admin();

    durable->disk.holds_snapshots = 1000;
    say(fd, "bgsave\r\n");
    hear(fd, STARTED);
    await_begin(durable);
    say(fd, "bgsave\r\nbgsave schedule\r\nbgsave now\r\n");
    hear(fd, BUSY "+Background saving scheduled\r\n-ERR syntax error\r\n");
    crash_disk_release(&durable->disk);
    await_snapshots(durable, 2);
    close_durable(durable);
    close(fd);
}

FIXTURE_TEST(a_snapshot_that_fails_is_told)
{
    struct durable *durable = open_durable();
    int fd = connect_admin();

    durable->disk.snapshot_faults = 100;
    assert_string_equal(ask(fd, "save\r\n"),
                        "-ERR a snapshot failed: the log of okv-server says why\r\n");
    assert_non_null(strstr(ask(fd, "info persistence\r\n"), "rdb_last_bgsave_status:err"));
    assert_string_equal(ask(fd, "lastsave\r\n"), ":0\r\n");
    durable->disk.snapshot_faults = 0;
    assert_string_equal(ask(fd, "save\r\n"), "+OK\r\n");
    assert_non_null(strstr(ask(fd, "info persistence\r\n"), "rdb_last_bgsave_status:ok"));
    close_durable(durable);
    close(fd);
}

/* Both have logs, which are the same one here: an admin of both asks it twice. */
FIXTURE_TEST(all_databases_are_saved_for_who_is_admin_of_all)
{
    struct durable *durable = open_durable();
    struct okv_database *databases = fixture.core.server->databases;
    int fd = resp_fixture_connect(&fixture), one = connect_admin();

    databases[1].wal = databases[0].wal;
    assert_string_equal(ask(one, "save\r\n"), "+OK\r\n");
    await_snapshots(durable, 1);
    assert_string_equal(ask(fd, "save\r\n"), "+OK\r\n");
    await_snapshots(durable, 3);
    databases[1].wal = NULL;
    assert_string_equal(ask(fd, "lastsave\r\n"), ":0\r\n"); /* the second one never was */
    close_durable(durable);
    close(fd);
    close(one);
}

FIXTURE_TEST(a_database_in_memory_cannot_be_saved)
{
    static const char refusal[] = "-ERR this server keeps its items in memory only: start "
                                  "okv-server with --data DIR, or copy them with okv export\r\n";
    int fd = resp_fixture_connect(&fixture);

    say(fd, "lastsave\r\nsave\r\nbgsave\r\n");
    hear(fd, ":0\r\n");
    hear(fd, refusal);
    hear(fd, refusal);
    pass();
    TAILQ_FIRST(&fixture.worker.resp->all)->rights[0] = OKV_RIGHT_READ;
    say(fd, "lastsave\r\nsave\r\n");
    hear(fd, "-NOPERM this user has no permissions to run the 'lastsave' command in database "
             "default: it lacks the right admin\r\n-NOPERM");
    close(fd);
}
