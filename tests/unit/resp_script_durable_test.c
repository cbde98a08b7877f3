/* Scripts of RESP clients of a durable database: one change of its log. */
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "server/command/execute.h"
#include "server/resp/run/shared.h"
#include "server/store/change_set.h"
#include "server/wal/append.h"
#include "server/wal/state.h"
#include "shared/base/error.h"
#include "tests/support/resp_durable.h"

#define LONG (2u << 20) /* bytes of the longest value */

static const struct okv_store_params params = {
    .length = 64u << 20, .bucket_size = 256, .extra_reads = 1, .max_value = LONG};

#define FIXTURE_TEST(name) TEST_WITH(name, begin, end)

#define TWO_KEYS                                                    \
    "eval 'redis.call(\"set\", \"a\", redis.call(\"get\", \"k\")) " \
    "redis.call(\"set\", \"b\", 2) return redis.call(\"get\", \"a\")' 0\r\n"

FIXTURE_TEST(a_script_is_one_change_of_the_log)
{
    int one = resp_fixture_connect(&fixture), other = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();

    atomic_store(&durable->is_held, true);
    say(one, "set k v\r\n"); /* whose batch is held */
    hear_nothing(one);
    say(one, TWO_KEYS);
    hear_nothing(one);
    say(other, "mget a b\r\n");
    hear(other, "*2\r\n$-1\r\n$-1\r\n");
    let_sync(durable);
    await(one);
    hear(one, "+OK\r\n$1\r\nv\r\n");
    say(other, "mget a b\r\n");
    await(other);
    hear(other, "*2\r\n$1\r\nv\r\n$1\r\n2\r\n");
    close_durable(durable);
    close(one);
    close(other);
}

FIXTURE_TEST(a_script_whose_log_fails)
{
    int fd = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();

    say(fd, "set k v\r\n");
    await(fd);
    hear(fd, "+OK\r\n");
    atomic_store(&durable->is_held, true);
    say(fd, TWO_KEYS);
    hear_nothing(fd);
    crash_disk_fail_again(&durable->disk, 1);
    let_sync(durable);
    await(fd);
    hear(fd, "-UNKNOWN the log failed, and this command may have been applied\r\n");
    hear_end(fd);
    fd = resp_fixture_connect(&fixture);
    say(fd, "mget a b\r\n" TWO_KEYS);
    hear(fd, "*2\r\n$-1\r\n$-1\r\n-MISCONF");
    close_durable(durable);
    close(fd);
}

/* More than a batch takes, and as much as it takes. */
FIXTURE_TEST(a_script_of_many_bytes)
{
    int fd = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();

    fixture.core.server->config.alone_ms = 10000;
    say(fd, "eval 'for i = 1, 8 do redis.call(\"set\", i, (\"x\"):rep(2000000)) end' 0\r\n");
    await(fd);
    hear(fd, "-ERR the log takes at most ");
    close(fd);
    fd = resp_fixture_connect(&fixture);
    say(fd, "exists 1 2 3 4\r\n");
    await(fd);
    hear(fd, ":0\r\n");
    say(fd,
        "eval 'for i = 1, 4 do redis.call(\"set\", i, (\"x\"):rep(2000000)) end return 1' 0\r\n");
    await(fd);
    hear(fd, ":1\r\n");
    say(fd, "exists 1 2 3 4\r\n");
    await(fd);
    hear(fd, ":4\r\n");
    close_durable(durable);
    close(fd);
}

/* ---- scripts that change nothing ---- */

#define GET_BOTH "eval_ro 'return redis.call(\"mget\", \"k\", \"l\")' 0\r\n"

static uint64_t open_batch(struct durable *durable)
{
    pthread_rwlock_rdlock(&durable->wal->batch_lock);
    uint64_t number = durable->wal->batch;
    pthread_rwlock_unlock(&durable->wal->batch_lock);
    return number;
}

/* As a read: it sees what is published, or what its client changed. */
static void read_by_script(void)
{
    int one = resp_fixture_connect(&fixture), other = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();

    say(one, "set k old\r\n");
    await(one);
    hear(one, "+OK\r\n");
    uint64_t batch = open_batch(durable);
    say(other, GET_BOTH);
    hear(other, "*2\r\n$3\r\nold\r\n$-1\r\n");
    assert_int_equal(open_batch(durable), batch); /* nothing was written for it */
    atomic_store(&durable->is_held, true);
    say(one, "mset k new l new\r\n");
    hear_nothing(one);
    uint64_t alone = atomic_load(&fixture.core.server->resp_shared->exclusive.ended);
    say(other, GET_BOTH);
    hear(other, "*2\r\n$3\r\nold\r\n$-1\r\n");
    assert_int_equal(atomic_load(&fixture.core.server->resp_shared->exclusive.ended), alone);
    say(one, GET_BOTH);
    hear_nothing(one);
    let_sync(durable);
    await(one);
    hear(one, "+OK\r\n*2\r\n$3\r\nnew\r\n$3\r\nnew\r\n");
    say(other, GET_BOTH);
    hear(other, "*2\r\n$3\r\nnew\r\n$3\r\nnew\r\n");
    close_durable(durable);
    close(one);
    close(other);
}

FIXTURE_TEST(a_script_that_reads_waits_for_no_log)
{
    read_by_script();
}

/* Others could change what it looks at. */
FIXTURE_TEST(a_script_that_reads_beside_other_workers)
{
    fixture.core.server->config.workers = 2;
    read_by_script();
    fixture.core.server->config.workers = 1;
}

/* ---- scripts that read the table ---- */

#define MSET "mset a 1 b 1 c 1 d 1 e 1 f 1 g 1 h 1 i 1 j 1 k 1 l 1 m 1 n 1 o 1 p 1\r\n"
#define COUNT_KEYS                                                                          \
    " 'return {#redis.call(\"keys\", \"*\"), #redis.call(\"scan\", 0, \"count\", 100)[2], " \
    "redis.call(\"randomkey\") and 1}' 0\r\n"

/* They see the changes that wait for the log, as all commands of a script do that may change
 * something: else each of two could set a key as it sees none. */
static void read_table_by_script(void)
{
    int one = resp_fixture_connect(&fixture), other = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();

    atomic_store(&durable->is_held, true);
    say(one, MSET "eval" COUNT_KEYS "eval_ro" COUNT_KEYS);
    hear_nothing(one);
    say(other, "eval" COUNT_KEYS);
    hear_nothing(other);
    let_sync(durable);
    await(one);
    hear(one, "+OK\r\n*3\r\n:16\r\n:16\r\n:1\r\n*3\r\n:16\r\n:16\r\n:1\r\n");
    await(other);
    hear(other, "*3\r\n:16\r\n:16\r\n:1\r\n");
    close_durable(durable);
    close(one);
    close(other);
}

FIXTURE_TEST(a_script_that_reads_the_table)
{
    read_table_by_script();
}

FIXTURE_TEST(a_script_that_reads_the_table_beside_other_workers)
{
    fixture.core.server->config.workers = 2;
    read_table_by_script();
    fixture.core.server->config.workers = 1;
}

/* ---- within EXEC, for whose commands the log has room ---- */

static int change_long(uint32_t length)
{
    static const uint8_t value[LONG];
    struct okv_store_set_change change = {.kind = OKV_STORE_SET_PUT,
                                          .key = "k",
                                          .key_length = 1,
                                          .value = value,
                                          .value_length = length};
    unsigned steps = 0;
    const struct okv_store_set set = {.changes = &change, .count = 1, .steps = &steps};

    return okv_store_change_set(&fixture.core.server->databases[0].store, &fixture.core.works[0],
                                &set);
}

/* Whatever the size of the set is, as it is of another command of EXEC. */
FIXTURE_TEST(a_script_leaves_the_promise_of_the_log_alone)
{
    struct durable *durable = open_durable();
    struct okv_wal *wal = durable->wal;
    uint64_t most = okv_wal_batch_reserve_max(wal);

    assert_true(okv_wal_begin_change(wal));
    assert_int_equal(okv_wal_batch_reserve(wal, 1000), 0);
    assert_int_equal(change_long(100), 0);
    assert_int_equal(wal->staged.reserved, 1000);
    assert_int_equal(change_long(LONG), 0);
    assert_int_equal(wal->staged.reserved, 1000);
    assert_int_equal(okv_wal_batch_reserve(wal, most - wal->staged.used - LONG), 0);
    assert_int_equal(change_long(LONG), OKV_EAGAIN); /* the next batch has room */
    assert_int_equal(okv_wal_batch_reserve(wal, most - wal->staged.used - 100), 0);
    uint64_t reserved = wal->staged.reserved;
    assert_int_equal(change_long(LONG), reserved + LONG > most ? OKV_EVALUESIZE : OKV_EAGAIN);
    assert_int_equal(wal->staged.reserved, reserved);
    okv_wal_batch_unreserve(wal);
    assert_int_equal(change_long(LONG), 0);
    okv_wal_end_change(wal);
    close_durable(durable);
}

/* Sends "SET KEY v" with a value of LONG bytes. */
static void say_long(int fd, char key)
{
    static char text[LONG + 64];
    int head = snprintf(text, sizeof text, "*3\r\n$3\r\nset\r\n$1\r\n%c\r\n$%u\r\n", key, LONG);
    size_t length = (size_t)head + LONG;

    memset(text + head, 'v', LONG);
    length += (size_t)snprintf(text + length, sizeof text - length, "\r\n");
    for (size_t sent = 0; sent < length; pass()) {
        ssize_t n = send(fd, text + sent, length - sent, MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
    }
}

/* The script is refused, and not what comes after it. */
FIXTURE_TEST(exec_does_not_stop_after_a_script)
{
    int fd = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();

    fixture.core.server->config.alone_ms = 10000;
    say(fd, "multi\r\n"
            "eval 'for i = 1, 4 do redis.call(\"set\", i, (\"x\"):rep(2000000)) end' 0\r\n");
    say_long(fd, 'a');
    say_long(fd, 'b');
    say(fd, "exec\r\nexists 1 2 3 4 a b\r\n");
    hear(fd, "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n");
    await(fd);
    hear(fd, "*3\r\n-ERR the log takes at most ");
    for (char byte = 0; byte != '\n';)
        hear_bytes(fd, (uint8_t *)&byte, 1);
    hear(fd, "+OK\r\n+OK\r\n:2\r\n");
    close_durable(durable);
    close(fd);
}
