/*
 * RESP clients of a durable database: replies that wait for the log, what follows them in a
 * pipeline, and logs that fail.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "server/command/exclusive.h"
#include "server/resp/net/serve.h"
#include "server/resp/resp.h"
#include "server/store/store.h"
#include "server/wal/append.h"
#include "server/wal/state.h"
#include "shared/base/error.h"
#include "tests/support/resp_durable.h"

#define LONG (2u << 20) /* bytes of the longest value */
#define PONG "+PONG\r\n"

static const struct okv_store_params params = {
    .length = 64u << 20, .bucket_size = 256, .extra_reads = 1, .max_value = LONG};

/* ---- tests ---- */

#define FIXTURE_TEST(name) TEST_WITH(name, begin, end)

FIXTURE_TEST(a_change_is_answered_when_it_is_in_the_log)
{
    int one = resp_fixture_connect(&fixture), other = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();

    atomic_store(&durable->is_held, true);
    say(one, "PING\r\nset k v\r\nget k\r\nPING\r\n");
    hear(one, PONG); /* it came before the change */
    hear_nothing(one);
    say(other, "get k\r\n");
    hear(other, "$-1\r\n"); /* it is not published */
    let_sync(durable);
    await(one);
    hear(one, "+OK\r\n$1\r\nv\r\n+PONG\r\n");
    say(other, "get k\r\n");
    hear(other, "$1\r\nv\r\n");
    close_durable(durable);
    close(one);
    close(other);
}

/* Of another database, too: replies keep their order. */
FIXTURE_TEST(what_follows_a_change_waits_with_it)
{
    int fd = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();

    atomic_store(&durable->is_held, true);
    say(fd, "multi\r\nset k v\r\nget k\r\nexec\r\n");
    hear(fd, "+OK\r\n+QUEUED\r\n+QUEUED\r\n");
    say(fd, "select 1\r\nget k\r\n");
    hear_nothing(fd);
    let_sync(durable);
    await(fd);
    hear(fd, "*2\r\n+OK\r\n$1\r\nv\r\n+OK\r\n$-1\r\n");
    close_durable(durable);
    close(fd);
}

FIXTURE_TEST(a_log_that_fails_leaves_one_error)
{
    int fd = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();

    atomic_store(&durable->is_held, true);
    say(fd, "PING\r\nset k v\r\nget k\r\nPING\r\n");
    hear(fd, PONG);
    hear_nothing(fd);
    crash_disk_fail_again(&durable->disk, 1);
    let_sync(durable);
    await(fd);
    hear(fd, "-UNKNOWN the log failed, and this command may have been applied\r\n");
    hear_end(fd);
    fd = resp_fixture_connect(&fixture);
    say(fd, "get k\r\nset k v\r\n");
    hear(fd, "$-1\r\n-MISCONF");
    close_durable(durable);
    close(fd);
}

/* A worker may come to a client after its batch failed, and before it looked at those that wait. */
FIXTURE_TEST(a_change_after_a_failure_does_not_hide_it)
{
    int fd = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();
    int status;

    atomic_store(&durable->is_held, true);
    say(fd, "set k v\r\n");
    hear_nothing(fd);
    struct okv_resp_client *client = TAILQ_FIRST(&fixture.worker.resp->all);
    uint64_t batch = client->commit.batch;
    crash_disk_fail_again(&durable->disk, 1);
    let_sync(durable);
    for (unsigned i = 0; i < 60000 && !okv_wal_is_committed(durable->wal, batch, &status); i++)
        poll(NULL, 0, 1);
    say(fd, "set k w\r\n");
    client->has_input = true;
    okv_resp_serve(client);
    hear(fd, "-UNKNOWN the log failed, and this command may have been applied\r\n");
    hear_end(fd);
    fd = resp_fixture_connect(&fixture);
    say(fd, "info persistence\r\n");
    await(fd);
    char text[512] = "";
    assert_true(recv(fd, text, sizeof text - 1, 0) > 0);
    assert_non_null(strstr(text, "aof_last_write_status:err"));
    close_durable(durable);
    close(fd);
}

/* KEYS and its like look at what is published. */
FIXTURE_TEST(a_walk_sees_what_its_client_changed)
{
    int fd = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();

    atomic_store(&durable->is_held, true);
    say(fd, "set k v\r\nmulti\r\nkeys *\r\nexec\r\n");
    hear_nothing(fd);
    let_sync(durable);
    await(fd);
    hear(fd, "+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n*1\r\n$1\r\nk\r\n");
    say(fd, "set k v\r\nkeys *\r\nscan 0\r\nrandomkey\r\ndbsize\r\n");
    await(fd);
    hear(fd, "+OK\r\n*1\r\n$1\r\nk\r\n*2\r\n$1\r\n0\r\n*1\r\n$1\r\nk\r\n$1\r\nk\r\n:1\r\n");
    close_durable(durable);
    close(fd);
}

/* Sends all of it while the worker makes passes. */
static void say_bytes(int fd, const char *bytes, size_t length)
{
    for (size_t sent = 0; sent < length; pass()) {
        ssize_t n = send(fd, bytes + sent, length - sent, MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
    }
}

#define PAIRS 4u /* more than what ends a batch of single changes */

/* "MSET 0 v 1 v ...", with values of LONG bytes. */
static void say_mset(int fd, char *value, unsigned pairs)
{
    char text[64];

    memset(value, 'v', LONG);
    snprintf(text, sizeof text, "*%u\r\n$4\r\nMSET\r\n", 1 + 2 * pairs);
    say_bytes(fd, text, strlen(text));
    for (unsigned i = 0; i < pairs; i++) {
        snprintf(text, sizeof text, "$1\r\n%u\r\n$%u\r\n", i, LONG);
        say_bytes(fd, text, strlen(text));
        say_bytes(fd, value, LONG);
        say_bytes(fd, "\r\n", 2);
    }
}

/* More than what ends a batch of single changes. */
FIXTURE_TEST(many_long_values_are_one_change)
{
    int fd = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();
    char *value = malloc(LONG);

    fixture.core.server->config.alone_ms = 10000;
    assert_true(PAIRS * LONG >= OKV_WAL_BATCH_BYTES);
    say_mset(fd, value, PAIRS);
    await(fd);
    hear(fd, "+OK\r\n");
    say(fd, "exists 0 1 2 3\r\n");
    await(fd);
    hear(fd, ":4\r\n");
    say(fd, "multi\r\ndel 0\r\n");
    hear(fd, "+OK\r\n+QUEUED\r\n");
    say_mset(fd, value, PAIRS);
    await(fd);
    hear(fd, "+QUEUED\r\n");
    say(fd, "exec\r\n");
    await(fd);
    hear(fd, "*2\r\n:1\r\n+OK\r\n");
    free(value);
    close_durable(durable);
    close(fd);
}

/* Whatever changes, the log takes the whole value, but never in one step. */
FIXTURE_TEST(long_values_are_logged_in_steps)
{
    static const struct {
        const char *line, *reply;
    } changes[] = {
        {"setrange a 2097151 x\r\n", ":2097152\r\n"},
        {"setbit a 0 1\r\n", ":0\r\n"},
        {"bitfield a set u8 8 255\r\n", "*1\r\n:0\r\n"},
        {"bitop or b a\r\n", ":2097152\r\n"},
        {"del b\r\n", ":1\r\n"},
        {"expire a 1000\r\n", ":1\r\n"},
        {"persist a\r\n", ":1\r\n"},
        {"copy a b\r\n", ":1\r\n"},
        {"rename b c\r\n", "+OK\r\n"},
        {"pexpire c 1000000\r\n", ":1\r\n"},
    };
    struct okv_stats *stats = &fixture.core.server->stats;
    int fd = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();

    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        say(fd, changes[i].line);
        await(fd);
        hear(fd, changes[i].reply);
    }
    assert_in_range(atomic_load(&stats->longest_step), 1, OKV_TURN_STEP_MAX);
    assert_in_range(atomic_load(&stats->longest_alone), 1, OKV_TURN_STEP_MAX);
    say(fd, "getrange c 0 0\r\ngetrange c -1 -1\r\nstrlen a\r\nexists b\r\n");
    await(fd);
    hear(fd, "$1\r\n\x80\r\n$1\r\nx\r\n:2097152\r\n:0\r\n");
    close_durable(durable);
    close(fd);
}

/* The log has no space of the disk for more. */
FIXTURE_TEST(what_no_batch_takes_is_refused_whole)
{
    int fd = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();
    char *value = malloc(LONG);
    char refusal[96];

    fixture.core.server->config.alone_ms = 10000;
    say_mset(fd, value, PAIRS + 2);
    await(fd);
    snprintf(refusal, sizeof refusal, "-ERR the log takes at most %llu bytes of one command\r\n",
             (unsigned long long)okv_wal_batch_reserve_max(durable->wal));
    hear(fd, refusal);
    say(fd, "multi\r\nset x y\r\n");
    hear(fd, "+OK\r\n+QUEUED\r\n");
    say_mset(fd, value, PAIRS + 2);
    await(fd);
    hear(fd, "+QUEUED\r\n");
    say(fd, "exec\r\n");
    await(fd);
    hear(fd, refusal);
    say(fd, "exists x 0 1 2 3\r\n");
    await(fd);
    hear(fd, ":0\r\n");
    free(value);
    close_durable(durable);
    close(fd);
}

/* During a change, as a part of it or by itself. */
static int put_long(bool is_part)
{
    static const uint8_t value[LONG];
    struct okv_store_outcome outcome;
    const struct okv_store_write write = {
        .key = "k", .key_length = 1, .value = value, .value_length = LONG, .is_part = is_part};

    return okv_store_put(&fixture.core.server->databases[0].store, &fixture.core.works[0], &write,
                         &outcome);
}

/* Others do not take the room that a command of several keys was promised. */
FIXTURE_TEST(a_promise_of_the_log_is_kept)
{
    struct durable *durable = open_durable();
    struct okv_wal *wal = durable->wal;

    assert_true(okv_wal_begin_change(wal));
    assert_int_equal(okv_wal_batch_reserve(wal, okv_wal_batch_reserve_max(wal)), OKV_EVALUESIZE);
    assert_int_equal(put_long(false), 0);
    assert_int_equal(okv_wal_batch_reserve(wal, 4 * (LONG + 400)), OKV_EAGAIN);
    assert_int_equal(okv_wal_batch_reserve(wal, 3 * (LONG + 100)), 0);
    assert_int_equal(put_long(false), OKV_EAGAIN);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(put_long(true), 0);
    assert_int_equal(wal->staged.reserved, 300 - 3 * (okv_wal_record_size(1, LONG) - LONG));
    okv_wal_batch_unreserve(wal);
    okv_wal_end_change(wal);
    close_durable(durable);
}

/* The batch after the one that had no room for it keeps it. */
FIXTURE_TEST(a_promise_comes_at_the_next_batch)
{
    struct durable *durable = open_durable();
    struct okv_wal *wal = durable->wal;
    int status;

    assert_true(okv_wal_begin_change(wal));
    uint64_t batch = wal->batch;
    assert_int_equal(put_long(false), 0);
    assert_int_equal(okv_wal_batch_reserve(wal, 4 * (LONG + 400)), OKV_EAGAIN);
    okv_wal_end_change(wal);
    for (unsigned i = 0; i < 60000 && !okv_wal_is_committed(wal, batch, &status); i++)
        poll(NULL, 0, 1);
    while (!okv_wal_begin_change(wal))
        poll(NULL, 0, 1);
    assert_int_equal(put_long(false), OKV_EAGAIN);
    assert_int_equal(okv_wal_batch_reserve(wal, 4 * (LONG + 400)), 0);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(put_long(true), 0);
    okv_wal_batch_unreserve(wal);
    okv_wal_end_change(wal);
    close_durable(durable);
}

#define KEYS 12000u /* whose removals are more than a batch has */
#define KEY_LENGTH 1000

/* "COMMAND 0...0 [v] 0...1 [v] ...", keys from `first` on. */
static void say_keys(int fd, const char *command, unsigned first, unsigned count, bool has_values)
{
    char text[KEY_LENGTH + 64];
    int length = snprintf(text, sizeof text, "*%u\r\n$%zu\r\n%s\r\n",
                          1 + count * (has_values ? 2 : 1), strlen(command), command);

    say_bytes(fd, text, (size_t)length);
    for (unsigned i = first; i < first + count; i++) {
        length = snprintf(text, sizeof text, "$%d\r\n%0*u\r\n%s", KEY_LENGTH, KEY_LENGTH, i,
                          has_values ? "$1\r\nv\r\n" : "");
        say_bytes(fd, text, (size_t)length);
    }
}

/* Nobody asks for the end of its batch, so it is not published. */
static void put_without_end(struct durable *durable, const char *key, const char *value)
{
    struct okv_store_outcome outcome;
    const struct okv_store_write write = {.key = key,
                                          .key_length = (uint32_t)strlen(key),
                                          .value = value,
                                          .value_length = (uint32_t)strlen(value)};

    while (!okv_wal_begin_change(durable->wal))
        poll(NULL, 0, 1);
    assert_int_equal(okv_store_put(&fixture.core.server->databases[0].store, &fixture.core.works[0],
                                   &write, &outcome),
                     0);
    okv_wal_end_change(durable->wal);
}

/* And leave what somebody else puts meanwhile. */
FIXTURE_TEST(many_removals_go_on_in_the_next_batch)
{
    int fd = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();
    char key[KEY_LENGTH + 1];

    snprintf(key, sizeof key, "%0*u", KEY_LENGTH, 0);
    for (unsigned i = 0; i < KEYS; i += 1000) {
        say_keys(fd, "MSET", i, 1000, true);
        await(fd);
        hear(fd, "+OK\r\n");
    }
    atomic_store(&durable->is_held, true);
    say_keys(fd, "DEL", 0, KEYS, false);
    const struct okv_resp_client *client = TAILQ_FIRST(&fixture.worker.resp->all);
    for (unsigned i = 0; i < 60000 && client->progress.next <= 1; i++)
        pass();
    assert_true(client->progress.next > 1);
    let_sync(durable);
    put_without_end(durable, key, "");
    await(fd);
    hear(fd, ":12000\r\n");
    say(fd, "dbsize\r\n");
    await(fd);
    hear(fd, ":1\r\n");
    close_durable(durable);
    close(fd);
}

/* It is watched in another database than that of EXEC. */
FIXTURE_TEST(exec_sees_a_change_that_is_not_published)
{
    int fd = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();

    say(fd, "watch k\r\nselect 1\r\nmulti\r\nset x y\r\n");
    hear(fd, "+OK\r\n+OK\r\n+OK\r\n+QUEUED\r\n");
    put_without_end(durable, "k", "v");
    say(fd, "exec\r\n");
    hear(fd, "*-1\r\n");
    close_durable(durable);
    close(fd);
}

/* EXEC excludes nobody while the log of what it watches is busy. */
FIXTURE_TEST(exec_waits_before_it_runs_alone)
{
    int one = resp_fixture_connect(&fixture), other = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();
    struct okv_exclusive *exclusive = fixture.core.server->exclusive;

    say(one, "watch k\r\nselect 1\r\nmulti\r\nset x y\r\n");
    hear(one, "+OK\r\n+OK\r\n+OK\r\n+QUEUED\r\n");
    atomic_store(&durable->is_held, true);
    say(other, "set other v\r\n");
    for (unsigned i = 0; i < 60000 && okv_wal_is_batch_open(durable->wal); i++) {
        pass();
        poll(NULL, 0, 1);
    }
    say(one, "exec\r\n");
    hear_nothing(one);
    assert_int_equal(atomic_load(&exclusive->ended), 0);
    let_sync(durable);
    await(one);
    hear(one, "*1\r\n+OK\r\n");
    await(other);
    hear(other, "+OK\r\n");
    close_durable(durable);
    close(one);
    close(other);
}

/* Value and copy are of one batch. */
FIXTURE_TEST(a_copy_is_of_what_is_not_published)
{
    int fd = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();

    put_without_end(durable, "a", "v");
    say(fd, "copy a b\r\n");
    await(fd);
    hear(fd, ":1\r\n");
    say(fd, "get b\r\n");
    await(fd);
    hear(fd, "$1\r\nv\r\n");
    close_durable(durable);
    close(fd);
}

/* A batch that is published between two looks at items. */
static struct okv_wal *published;
static unsigned uses;

int __real_okv_store_look(struct okv_store *store, struct okv_store_work *work, const void *key,
                          uint32_t key_length, const struct okv_store_view *view,
                          okv_store_visit *visit, void *user);
__attribute__((visibility("default"))) int
__wrap_okv_store_look(struct okv_store *store, struct okv_store_work *work, const void *key,
                      uint32_t key_length, const struct okv_store_view *view,
                      okv_store_visit *visit, void *user);

int __wrap_okv_store_look(struct okv_store *store, struct okv_store_work *work, const void *key,
                          uint32_t key_length, const struct okv_store_view *view,
                          okv_store_visit *visit, void *user)
{
    if (published)
        atomic_fetch_add(&published->publish_seq, 2);
    uses += view->is_use;
    return __real_okv_store_look(store, work, key, key_length, view, visit, user);
}

/* Then the read waits for the batch, which is closed while the log syncs. */
FIXTURE_TEST(reads_of_two_moments_are_made_again)
{
    int writer = resp_fixture_connect(&fixture), fd = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();

    atomic_store(&durable->is_held, true);
    say(writer, "set a v\r\n");
    hear_nothing(writer);
    published = durable->wal;
    say(fd, "get a\r\n");
    hear(fd, "$-1\r\n");
    say(fd, "mget a b\r\n");
    hear_nothing(fd);
    let_sync(durable);
    await(fd);
    published = NULL;
    hear(fd, "*2\r\n$1\r\nv\r\n$-1\r\n");
    close_durable(durable);
    close(writer);
    close(fd);
}

FIXTURE_TEST(reads_that_are_made_again_use_items_once)
{
    int fd = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();

    say(fd, "mset a v b v\r\n");
    await(fd);
    hear(fd, "+OK\r\n");
    published = durable->wal;
    uses = 0;
    say(fd, "mget a b\r\n");
    await(fd);
    hear(fd, "*2\r\n$1\r\nv\r\n$1\r\nv\r\n");
    assert_int_equal(uses, 2);
    published = NULL;
    close_durable(durable);
    close(fd);
}

/* It may have published a part. */
FIXTURE_TEST(reads_wait_while_a_batch_is_published)
{
    int fd = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();

    atomic_fetch_add(&durable->wal->publish_seq, 1);
    say(fd, "get a\r\n");
    hear_nothing(fd);
    say(fd, "mget a b\r\n");
    hear_nothing(fd);
    atomic_fetch_add(&durable->wal->publish_seq, 1);
    await(fd);
    hear(fd, "$-1\r\n*2\r\n$-1\r\n$-1\r\n");
    close_durable(durable);
    close(fd);
}

/* Its connection is broken, and it waits for the log: epoll says so for ever. */
FIXTURE_TEST(who_left_costs_nothing_while_the_log_is_slow)
{
    int fd = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();
    struct okv_resp *resp = fixture.worker.resp;
    bool is_held_up;

    atomic_store(&durable->is_held, true);
    say(fd, "set k v\r\nquit\r\n");
    hear_nothing(fd);
    close(fd);
    pass();
    assert_int_equal(okv_resp_poll(resp, &is_held_up), 0);
    let_sync(durable);
    for (unsigned i = 0; i < 60000 && atomic_load(&resp->clients); i++) {
        pass();
        poll(NULL, 0, 1);
    }
    assert_int_equal(atomic_load(&resp->clients), 0);
    close_durable(durable);
}
