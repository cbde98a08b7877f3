/*
 * The targets of peers against the real servers.
 * Without a server's program, or without a client library, its part is left out; with
 * OKV_TEST_REQUIRE_TOOLS=1 that is a failure.
 */
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "bench/targets/target.h"
#include "tests/support/pace.h"
#include "tests/support/peer_process.h"
#include "tests/support/target_steps.h"

#define DEPTH 16
#define LARGE_BYTES 300000
#define MANY 1000
#define WAIT_MS 1000

/* What of okv's commands a peer has. */
struct abilities {
    bool versions;
    bool incr;
    bool ping;
    bool head;
};

static struct target *open_target(const struct target_ops *ops, const char *uri)
{
    struct target_config config = {
        .uri = uri, .depth = DEPTH, .value_bytes = LARGE_BYTES, .timeout_ms = PACE_GUARD_MS};
    struct target *target = NULL;
    char why[256] = "";

    int rc = ops->open(&config, &target, why, sizeof why);
    if (rc != OKV_OK)
        fail_msg("%s: %d, %s", uri, rc, why);
    assert_ptr_equal(target->ops, ops);
    return target;
}

static struct okv_result call(struct target *target, struct okv_command command)
{
    struct okv_result result;
    size_t accepted = 0;

    command.tag = 4711;
    assert_int_equal(target->ops->submit(target, &command, 1, &accepted), OKV_OK);
    assert_int_equal(accepted, 1);
    collect(target, &result, 1);
    assert_int_equal(result.tag, 4711);
    return result;
}

static struct okv_result put(struct target *target, const char *key, const void *value,
                             size_t length)
{
    struct okv_command command = on_key(OKV_PUT, key);

    command.value = value;
    command.value_length = length;
    return call(target, command);
}

static struct okv_result get(struct target *target, const char *key, void *buffer, size_t size)
{
    struct okv_command command = on_key(OKV_GET, key);

    command.buffer = buffer;
    command.buffer_size = size;
    return call(target, command);
}

static void find_value(struct target *target, const char *key, const void *value, size_t length)
{
    char *buffer = malloc(length + 1);

    struct okv_result result = get(target, key, buffer, length);
    assert_int_equal(result.status, OKV_OK);
    assert_int_equal(result.length, length);
    assert_memory_equal(buffer, value, length);
    free(buffer);
}

/* ---- what every peer does -------------------------------------------------- */

static void values_come_back(struct target *target)
{
    static const char awkward[] = "a\r\nEND\r\n$5\r\nVA 3\r\n\0b";
    char *large = malloc(LARGE_BYTES);
    char buffer[8];

    for (size_t i = 0; i < LARGE_BYTES; i++)
        large[i] = (char)(i * 7 + i / 251);
    assert_int_equal(get(target, "nothing", buffer, sizeof buffer).status, OKV_ENOTFOUND);
    assert_int_equal(put(target, "a", "one", 3).status, OKV_OK);
    find_value(target, "a", "one", 3);
    assert_int_equal(put(target, "a", "three", 5).status, OKV_OK);
    find_value(target, "a", "three", 5);
    assert_int_equal(put(target, "b", "", 0).status, OKV_OK);
    find_value(target, "b", "", 0);
    assert_int_equal(put(target, "c", awkward, sizeof awkward).status, OKV_OK);
    find_value(target, "c", awkward, sizeof awkward);
    assert_int_equal(put(target, "large", large, LARGE_BYTES).status, OKV_OK);
    find_value(target, "large", large, LARGE_BYTES);
    struct okv_result result = get(target, "large", buffer, sizeof buffer);
    assert_int_equal(result.status, OKV_ETOOSMALL);
    assert_int_equal(result.length, LARGE_BYTES);
    find_value(target, "a", "three", 5);
    assert_int_equal(call(target, on_key(OKV_DELETE, "a")).status, OKV_OK);
    assert_int_equal(call(target, on_key(OKV_DELETE, "a")).status, OKV_ENOTFOUND);
    assert_int_equal(get(target, "a", buffer, sizeof buffer).status, OKV_ENOTFOUND);
    free(large);
}

static void conditions_hold(struct target *target, const struct abilities *abilities)
{
    struct okv_command command = on_key(OKV_PUT, "once");
    char buffer[8];

    command.value = "1";
    command.value_length = 1;
    command.flags = OKV_IF_ABSENT;
    assert_int_equal(call(target, command).status, OKV_OK);
    assert_int_equal(call(target, command).status, OKV_EEXISTS);
    command.flags = OKV_KEEP_TTL;
    assert_int_equal(call(target, command).status, OKV_EUNSUPPORTED);
    assert_non_null(strstr(target->ops->why(target), "a put that keeps a time to live"));
    command.flags = OKV_IF_VERSION;
    command.version = 1;
    if (!abilities->versions) {
        assert_int_equal(call(target, command).status, OKV_EUNSUPPORTED);
        return;
    }
    struct okv_result found = get(target, "once", buffer, sizeof buffer);
    assert_int_not_equal(found.version, 0);
    command.version = found.version + 1000;
    assert_int_equal(call(target, command).status, OKV_ECONFLICT);
    command.version = found.version;
    assert_int_equal(call(target, command).status, OKV_OK);
    assert_int_equal(call(target, command).status, OKV_ECONFLICT);
    command.key = "none";
    assert_int_equal(call(target, command).status, OKV_ENOTFOUND);
}

static void numbers_rise(struct target *target, bool able)
{
    struct okv_command command = on_key(OKV_INCR, "number");

    command.delta = 40;
    if (!able) {
        assert_int_equal(call(target, command).status, OKV_EUNSUPPORTED);
        return;
    }
    assert_int_equal(call(target, command).number, 40);
    command.delta = 2;
    struct okv_result result = call(target, command);
    assert_int_equal(result.status, OKV_OK);
    assert_int_equal(result.number, 42);
    put(target, "word", "text", 4);
    command = on_key(OKV_INCR, "word");
    command.delta = 1;
    assert_int_equal(call(target, command).status, OKV_ENUMBER);
}

static void heads_and_pings(struct target *target, const struct abilities *abilities)
{
    struct okv_command ping = {.kind = OKV_PING};

    put(target, "head", "12345", 5);
    struct okv_result result = call(target, on_key(OKV_HEAD, "head"));
    assert_int_equal(result.status, abilities->head ? OKV_OK : OKV_EUNSUPPORTED);
    assert_int_equal(result.length, abilities->head ? 5 : 0);
    assert_int_equal(call(target, ping).status, abilities->ping ? OKV_OK : OKV_EUNSUPPORTED);
    ping.value = "payload";
    ping.value_length = 7;
    assert_int_equal(call(target, ping).status, OKV_EUNSUPPORTED);
    assert_int_equal(call(target, on_key(OKV_TOUCH, "head")).status, OKV_EUNSUPPORTED);
    assert_non_null(strstr(target->ops->why(target), "does not offer a touch"));
}

/* What the peer cannot do among what it can: each result belongs to its command. */
static void many_are_under_way(struct target *target)
{
    struct okv_command commands[DEPTH + 1];
    struct okv_result results[DEPTH];
    char keys[DEPTH + 1][16];
    char values[DEPTH + 1][16];
    size_t accepted = 0;

    for (int round = 0; round < 50; round++) {
        for (int i = 0; i <= DEPTH; i++) {
            static const enum okv_kind kinds[] = {OKV_PUT, OKV_GET, OKV_TOUCH, OKV_GET};
            snprintf(keys[i], sizeof keys[i], i % 4 == 3 ? "absent-%d" : "there-%d", i / 4);
            commands[i] = on_key(kinds[i % 4], keys[i]);
            commands[i].tag = (uint64_t)(round * 100 + i);
            commands[i].buffer = values[i];
            commands[i].buffer_size = sizeof values[i];
            commands[i].value = keys[i];
            commands[i].value_length = strlen(keys[i]);
        }
        assert_int_equal(target->ops->submit(target, commands, DEPTH + 1, &accepted), OKV_EAGAIN);
        assert_int_equal(accepted, DEPTH);
        collect(target, results, DEPTH);
        for (int i = 0; i < DEPTH; i++) {
            static const int statuses[] = {OKV_OK, OKV_OK, OKV_EUNSUPPORTED, OKV_ENOTFOUND};
            assert_int_equal(results[i].tag, round * 100 + i);
            assert_int_equal(results[i].status, statuses[i % 4]);
            if (i % 4 == 1)
                assert_memory_equal(values[i], keys[i], results[i].length);
        }
    }
}

static void gets_come_in_batches(struct target *target)
{
    struct okv_command *commands = calloc(MANY, sizeof *commands);
    struct okv_result *results = calloc(MANY, sizeof *results);
    char(*text)[2][24] = calloc(MANY, sizeof *text);

    for (int i = 0; i < MANY; i++) {
        snprintf(text[i][0], sizeof text[i][0], "batch-%u", (unsigned)i & 0xffff);
        if (i % 3 != 0)
            put(target, text[i][0], text[i][0], strlen(text[i][0]));
        commands[i] = on_key(OKV_GET, text[i][0]);
        commands[i].buffer = text[i][1];
        commands[i].buffer_size = sizeof text[i][1];
    }
    assert_int_equal(target->ops->get_many(target, commands, results, MANY), OKV_OK);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(results[i].status, i % 3 == 0 ? OKV_ENOTFOUND : OKV_OK);
        assert_int_equal(results[i].length, i % 3 == 0 ? 0 : strlen(text[i][0]));
        assert_memory_equal(text[i][1], text[i][0], results[i].length);
    }
    free(text);
    free(results);
    free(commands);
}

static void bad_arguments_are_refused(struct target *target)
{
    static const char key[OKV_KEY_MAX_BYTES + 1];
    struct okv_command command = {.kind = OKV_GET, .key = key};
    size_t accepted = 1;

    assert_int_equal(target->ops->submit(target, &command, 1, &accepted), OKV_EKEYSIZE);
    assert_int_equal(accepted, 0);
    command.key_length = sizeof key;
    assert_int_equal(target->ops->submit(target, &command, 1, &accepted), OKV_EKEYSIZE);
    command.kind = 99;
    assert_int_equal(target->ops->submit(target, &command, 1, &accepted), OKV_EINVAL);
}

static void exercise(struct target *target, const struct abilities *abilities)
{
    values_come_back(target);
    conditions_hold(target, abilities);
    numbers_rise(target, abilities->incr);
    heads_and_pings(target, abilities);
    many_are_under_way(target);
    gets_come_in_batches(target);
    bad_arguments_are_refused(target);
    assert_int_equal(target->ops->wait(target, 1), OKV_ETIMEDOUT);
}

static void expect_info(struct target *target, const char *kind, const char *transport)
{
    struct target_info info;

    target->ops->info(target, &info);
    assert_string_equal(info.kind, kind);
    assert_string_equal(info.transport, transport);
    assert_int_not_equal(info.version[0], '\0');
    assert_int_not_equal(info.path[0], '\0');
    assert_true(info.max_value >= LARGE_BYTES);
}

/* Items are counted, and a server's CPU time only rises. */
static void expect_stat(struct target *target, bool has_cpu)
{
    struct target_stat before, after;

    assert_int_equal(target->ops->stat(target, &before), OKV_OK);
    put(target, "one-more", "item", 4);
    assert_int_equal(target->ops->stat(target, &after), OKV_OK);
    assert_true(after.items > before.items);
    assert_true(after.memory_bytes > 0);
    assert_true(isnan(after.user_bytes));
    if (has_cpu)
        assert_true(before.cpu_ms >= 0 && after.cpu_ms >= before.cpu_ms);
    else
        assert_true(isnan(after.cpu_ms));
}

static void left_out(void)
{
    const char *required = getenv("OKV_TEST_REQUIRE_TOOLS");

    if (required && strcmp(required, "1") == 0)
        fail();
    skip();
}

/* ---- the real ones ---------------------------------------------------------- */

#ifdef OKV_WITH_HIREDIS
TEST(redis_serves)
{
    static const struct abilities abilities = {.incr = true, .ping = true};
    struct peer_process process;

    if (!peer_process_redis(&process))
        left_out();
    const char *uris[] = {process.socket_uri, process.tcp_uri};
    for (int i = 0; i < 2; i++) {
        struct target *target = open_target(&target_redis_ops, uris[i]);
        struct okv_command expiring = on_key(OKV_PUT, "fleeting");
        expect_info(target, "redis", i == 0 ? "unix" : "tcp");
        exercise(target, &abilities);
        expect_stat(target, true);
        expiring.flags = OKV_WITH_TTL;
        expiring.ttl_ms = 1;
        assert_int_equal(call(target, expiring).status, OKV_OK);
        usleep(20000);
        assert_int_equal(get(target, "fleeting", NULL, 0).status, OKV_ENOTFOUND);
        target->ops->close(target);
        target = open_target(&target_redis_ops, uris[i]);
        for (const char *const *key = (const char *const[]){"once", "number", "one-more", NULL};
             *key; key++)
            assert_int_equal(call(target, on_key(OKV_DELETE, *key)).status, OKV_OK);
        target->ops->close(target);
    }
    peer_process_stop(&process);
}

/* What a server that is gone leaves under way ends, and says so. */
TEST(redis_goes_away)
{
    struct peer_process process;
    struct okv_result result;
    struct okv_command commands[2] = {on_key(OKV_GET, "a"), on_key(OKV_PUT, "b")};
    int status;

    if (!peer_process_redis(&process))
        left_out();
    struct target *target = open_target(&target_redis_ops, process.tcp_uri);
    assert_int_equal(kill(process.pid, SIGSTOP), 0);
    assert_int_equal(waitpid(process.pid, &status, WUNTRACED), process.pid);
    assert_int_equal(target->ops->submit(target, commands, 2, NULL), OKV_OK);
    kill(process.pid, SIGKILL);
    peer_process_stop(&process);
    collect(target, &result, 1);
    assert_int_equal(result.status, OKV_EDISCONNECTED);
    collect(target, &result, 1);
    assert_int_equal(result.status, OKV_EUNKNOWN);
    assert_int_equal(target->ops->poll(target, &result, 1), OKV_EDISCONNECTED);
    assert_int_equal(target->ops->submit(target, commands, 1, NULL), OKV_EDISCONNECTED);
    assert_int_equal(target->ops->wait(target, WAIT_MS), OKV_OK);
    assert_non_null(strstr(target->ops->why(target), "closed the connection"));
    target->ops->close(target);
}
#else
TEST(redis_is_built_in)
{
    print_message("left out: this build has no redis://; run: tests/support/packages.sh peers\n");
    left_out();
}
#endif

TEST(memcached_serves)
{
    static const struct abilities abilities = {
        .versions = true, .incr = true, .ping = true, .head = true};
    static const char blank[] = "a blank";
    struct peer_process process;

    for (int tcp = 0; tcp < 2; tcp++) {
        if (!peer_process_memcached(&process, tcp))
            left_out();
        struct target *target =
            open_target(&target_memcached_ops, tcp ? process.tcp_uri : process.socket_uri);
        expect_info(target, "memcached", tcp ? "tcp" : "unix");
        exercise(target, &abilities);
        expect_stat(target, true);
        struct okv_command command = on_key(OKV_GET, blank);
        assert_int_equal(call(target, command).status, OKV_EUNSUPPORTED);
        command = on_key(OKV_INCR, "number");
        command.delta = -1;
        assert_int_equal(call(target, command).status, OKV_EUNSUPPORTED);
        char *huge = calloc(1, 2 << 20);
        assert_int_equal(put(target, "huge", huge, 2 << 20).status, OKV_EVALUESIZE);
        free(huge);
        find_value(target, "one-more", "item", 4);
        target->ops->close(target);
        peer_process_stop(&process);
    }
}

#ifdef OKV_WITH_LMDB
static void remove_lmdb(const char *directory)
{
    static const char *const names[] = {"data.mdb", "lock.mdb"};
    char path[96];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(directory), 0);
}

static void lmdb_serves_at(const char *scheme)
{
    static const struct abilities abilities = {.head = true};
    char directory[] = "/tmp/okv-test-XXXXXX";
    char uri[64], same_uri[64];

    assert_non_null(mkdtemp(directory));
    snprintf(uri, sizeof uri, "%s%s", scheme, directory);
    snprintf(same_uri, sizeof same_uri, "%s%s/.", scheme, directory);
    struct target *target = open_target(&target_lmdb_ops, uri);
    expect_info(target, "lmdb", "process");
    exercise(target, &abilities);
    expect_stat(target, false);
    /* One environment for both; it outlives the first. */
    struct target *second = open_target(&target_lmdb_ops, same_uri);
    find_value(second, "one-more", "item", 4);
    put(second, "shared", "1", 1);
    find_value(target, "shared", "1", 1);
    target->ops->close(target);
    find_value(second, "shared", "1", 1);
    second->ops->close(second);
    target = open_target(&target_lmdb_ops, uri);
    find_value(target, "shared", "1", 1);
    target->ops->close(target);
    remove_lmdb(directory);
}

TEST(lmdb_serves)
{
    lmdb_serves_at("lmdb://");
    lmdb_serves_at("lmdb+sync://");
    lmdb_serves_at("lmdb+batch://");
}
#else
TEST(lmdb_is_built_in)
{
    print_message("left out: this build has no lmdb://; run: tests/support/packages.sh peers\n");
    left_out();
}
#endif
