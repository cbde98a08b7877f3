/* RESP clients of databases that evict: which commands are uses of items, and what they say of
 * them. */
#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"

#include "server/resp/run/call.h"
#include "server/resp/run/shared.h"
#include "server/store/fullness.h"
#include "server/store/heat.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"
#include "shared/format/linear.h"
#include "tests/support/resp_fixture.h"

static struct resp_fixture fixture;
static struct okv_resp_client *one, *other;

static int begin_with(enum okv_store_full full)
{
    const struct okv_store_params params = {
        .length = 4u << 20, .bucket_size = 512, .max_value = 1u << 18, .full = full};

    resp_fixture_open(&fixture, &params);
    one = resp_fixture_client(&fixture);
    other = resp_fixture_client(&fixture);
    return 0;
}

static int begin(void **state)
{
    (void)state;
    return begin_with(OKV_STORE_EVICT);
}

static int begin_refusing(void **state)
{
    (void)state;
    return begin_with(OKV_STORE_REFUSE);
}

static int end(void **state)
{
    (void)state;
    resp_fixture_end(one);
    resp_fixture_end(other);
    resp_fixture_close(&fixture);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, begin, end)

static void run(struct okv_resp_client *client, const char *line)
{
    const char *got = resp_fixture_call(client, line);

    if (!got || got[0] == '-')
        fail_msg("%s: %s", line, got ? got : "it waits");
}

static void expect(struct okv_resp_client *client, const char *line, const char *reply)
{
    const char *got = resp_fixture_call(client, line);

    if (!got || strcmp(got, reply) != 0)
        fail_msg("%s: %s", line, got ? got : "it waits");
}

static unsigned uses_of(const char *key)
{
    const struct okv_store *store = &fixture.core.database->store;
    uint64_t hash = okv_hash_key(key, strlen(key), store->table.hash_seed);

    return okv_heat_counter_of(
        okv_heat_of(store->table.heat, okv_linear_bucket(hash, atomic_load(&store->bucket_count)),
                    okv_hash_tag(hash)));
}

/* How often a command uses the item `k`, which is new before it. */
static unsigned uses_by(struct okv_resp_client *client, const char *line)
{
    run(other, "del k");
    run(other, "set k 12345678");
    assert_int_equal(uses_of("k"), 0);
    run(client, line);
    return uses_of("k");
}

#define LUA(command) "eval \"return redis.call(" command ")\" 0"

static const char *const reads[] = {"get k",         "mget no k",      "getrange k 0 1",
                                    "substr k 0 1",  "strlen k",       "exists no k",
                                    "getbit k 3",    "bitcount k",     "bitpos k 1",
                                    "getex k",       "copy k other",   "bitfield_ro k get u8 0",
                                    "bitop not o k", LUA("'get','k'"), "bitfield k get u8 0"};

/* Listing and describing items is no use of them, nor is what others ask of a watched key. */
static const char *const peeks[] = {"ttl k",          "pttl k",
                                    "expiretime k",   "pexpiretime k",
                                    "type k",         "object encoding k",
                                    "keys *",         "object refcount k",
                                    "scan 0",         "memory usage k",
                                    "randomkey",      "watch k",
                                    "msetnx k 1 l 2", LUA("'ttl','k'"),
                                    "object freq k"};

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

FIXTURE_TEST(reads_are_uses_and_descriptions_are_not)
{
    for (unsigned i = 0; i < COUNT(reads); i++)
        if (uses_by(one, reads[i]) != 1)
            fail_msg("%s: %u", reads[i], uses_of("k"));
    for (unsigned i = 0; i < COUNT(peeks); i++)
        if (uses_by(one, peeks[i]) != 0)
            fail_msg("%s: %u", peeks[i], uses_of("k"));
}

FIXTURE_TEST(exec_uses_what_its_commands_use)
{
    run(other, "set k v");
    run(one, "watch k");
    run(one, "multi");
    run(one, "get k");
    run(one, "ttl k");
    run(one, "exec");
    assert_int_equal(uses_of("k"), 1);
}

FIXTURE_TEST(reads_of_a_client_that_does_not_touch_are_no_uses)
{
    expect(one, "client no-touch on", "+OK\r\n");
    for (unsigned i = 0; i < COUNT(reads); i++)
        if (uses_by(one, reads[i]) != 0)
            fail_msg("%s: %u", reads[i], uses_of("k"));
    assert_int_equal(uses_by(other, "get k"), 1);
    assert_non_null(strstr(resp_fixture_call(one, "client info"), "T db=0 "));
    expect(one, "client no-touch off", "+OK\r\n");
    assert_int_equal(uses_by(one, "get k"), 1);
}

static int fail_visit(void *user, const struct okv_store_now *now)
{
    (void)now;
    return *(int *)user;
}

/* The command runs again. */
FIXTURE_TEST(a_look_that_fails_is_no_use)
{
    struct okv_store *store = &fixture.core.database->store;
    const struct okv_store_view view = {.is_use = true};
    int rc = OKV_EAGAIN;

    run(other, "set k v");
    assert_int_equal(okv_store_look(store, NULL, "k", 1, &view, fail_visit, &rc), OKV_EAGAIN);
    assert_int_equal(uses_of("k"), 0);
    rc = 0;
    assert_int_equal(okv_store_look(store, NULL, "k", 1, &view, fail_visit, &rc), 0);
    assert_int_equal(uses_of("k"), 1);
}

/* It runs again alone, as it is longer than a step. */
FIXTURE_TEST(a_script_that_runs_again_uses_items_once)
{
    const atomic_uint_fast64_t *ended = &fixture.core.server->resp_shared->exclusive.ended;

    assert_int_equal(uses_by(one, "eval \"redis.call('get','k') for i = 1, 100000 do end "
                                  "redis.call('get','k')\" 0"),
                     2);
    assert_int_equal(atomic_load(ended), 1);
    assert_int_equal(uses_by(one, LUA("'get','k'")), 1); /* a command after it */
}

/* As in Redis. */
FIXTURE_TEST(touch_is_a_use_and_so_is_a_write)
{
    run(one, "client no-touch on");
    assert_int_equal(uses_by(one, "touch k"), 1);
    assert_int_equal(uses_by(one, LUA("'touch','k'")), 1);
    assert_int_equal(uses_by(one, "append k v"), 1);
    assert_int_equal(uses_by(one, LUA("'append','k','v'")), 1);
    run(one, "reset");
    assert_int_equal(uses_by(one, "get k"), 1);
    assert_int_equal(uses_by(one, "touch k"), 1);
}

FIXTURE_TEST(object_freq_is_the_counter)
{
    static const char *const after[] = {":0\r\n", ":1\r\n", ":2\r\n", ":3\r\n", ":3\r\n"};

    expect(one, "object freq k", "$-1\r\n");
    run(one, "set k v");
    for (unsigned i = 0; i < COUNT(after); i++) {
        expect(one, "object freq k", after[i]);
        expect(one, LUA("'object','freq','k'"), after[i]);
        run(one, "get k");
    }
    run(one, "multi");
    run(one, "object freq k");
    expect(one, "exec", "*1\r\n:3\r\n");
}

/* Its own writes are made when it ends. */
FIXTURE_TEST(object_freq_in_a_script_is_0_of_what_it_has_written)
{
    for (int i = 0; i < 3; i++)
        run(one, "set k v");
    expect(one,
           "eval \"redis.call('set','k','w') redis.call('set','new','w')"
           "return {redis.call('object','freq','k'), redis.call('object','freq','new')}\" 0",
           "*2\r\n:0\r\n:0\r\n");
    expect(one, "object freq k", ":3\r\n");
}

TEST_WITH(object_freq_is_of_databases_that_evict, begin_refusing, end)
{
    run(one, "set k v");
    expect(one, "object freq k",
           "-ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please "
           "note that when switching between policies at runtime LRU and LFU data will take some "
           "time to adjust.\r\n");
    expect(one, "object freq no", "$-1\r\n");
}

static bool is_there(const char *key)
{
    char line[64];

    snprintf(line, sizeof line, "ttl %s", key);
    return strcmp(resp_fixture_call(other, line), ":-2\r\n") != 0;
}

/* Puts others until the item is evicted. */
static void evict(const char *key)
{
    char line[64];

    for (unsigned i = 0; is_there(key); i++) {
        assert_in_range(i, 0, 100000);
        snprintf(line, sizeof line, "setrange filler:%u 999 x", i);
        run(other, line);
    }
}

static void begin_transaction(void)
{
    run(one, "watch k");
    run(one, "multi");
    run(one, "incr counter");
}

FIXTURE_TEST(exec_does_nothing_when_a_watched_key_was_evicted)
{
    run(other, "set k v");
    begin_transaction();
    evict("k");
    expect(one, "exec", "*-1\r\n");

    run(other, "set k v");
    begin_transaction();
    evict("k");
    run(other, "set k v");
    expect(one, "exec", "*-1\r\n");
    assert_false(is_there("counter"));

    /* A watch of what is not there holds while an item is there. */
    evict("k");
    begin_transaction();
    run(other, "set k v");
    evict("k");
    expect(one, "exec", "*1\r\n:1\r\n");
}

static int begin_with_expiring(void **state)
{
    (void)state;
    return begin_with(OKV_STORE_EVICT_EXPIRING);
}

/* Fills the database with items that do not expire, which stay. Returns the error at the end. */
static const char *fill(void)
{
    char line[64];
    const char *got;
    unsigned count = 0;

    do {
        snprintf(line, sizeof line, "setrange lasting:%u 999 x", count);
        got = resp_fixture_call(one, line);
        assert_non_null(got);
    } while (got[0] == ':' && ++count < 100000);
    for (unsigned i = 0; i < count; i++) {
        char key[32];
        snprintf(key, sizeof key, "lasting:%u", i);
        assert_true(is_there(key));
    }
    snprintf(line, sizeof line, "setrange lasting:%u 999 x", count);
    return resp_fixture_call(one, line);
}

#define OOM "-OOM command not allowed when used memory > 'maxmemory': "

TEST_WITH(the_error_of_a_database_that_refuses_names_the_option, begin_refusing, end)
{
    expect(one, "setex gone 1000 v", "+OK\r\n");
    assert_string_equal(fill(), OOM "delete items, or give it more by --memory, or by SIZE in "
                                    "--database, or let it evict items by --full\r\n");
    assert_true(is_there("gone"));
}

/* Those that expire go for the others. */
TEST_WITH(the_error_says_that_no_item_expires, begin_with_expiring, end)
{
    expect(one, "setex gone 1000 v", "+OK\r\n");
    assert_string_equal(fill(), OOM "no item with a time to live is left to evict: delete items, "
                                    "or give it more by --memory, or by SIZE in --database\r\n");
    assert_false(is_there("gone"));
}

/* Fills the database with values of many lengths, with room made in steps. */
static void fill_in_steps(void)
{
    char line[32];

    fixture.core.works[0].in_steps = true;
    okv_resp_begin_work(one);
    for (unsigned i = 0; i < 600; i++) {
        snprintf(line, sizeof line, "setrange old:%u %u x", i, 7000 + i * 7919 % 7000);
        while (!resp_fixture_call(one, line))
            continue;
    }
}

/* Each step makes some, and then the command runs again from its begin. */
static unsigned waits_of(struct okv_resp_client *client, const char *line)
{
    unsigned waits = 0;

    while (!resp_fixture_call(client, line))
        assert_in_range(++waits, 1, 1000);
    return waits;
}

FIXTURE_TEST(a_command_that_waits_for_room_uses_items_once)
{
    char line[128];
    unsigned waits = 0;

    fill_in_steps();
    for (unsigned i = 0; i < 1000 && waits == 0; i++) {
        waits_of(one, "del k");
        waits_of(one, "set k 12345678");
        assert_int_equal(uses_of("k"), 0);
        snprintf(line, sizeof line,
                 "eval \"redis.call('get','k') redis.call('setrange','new:%u',29999,'x')\" 0", i);
        waits = waits_of(one, line);
        assert_in_range(uses_of("k"), 0, 1); /* the hand may have passed it meanwhile */
    }
    assert_in_range(waits, 1, 1000);
}

/* Before the first is written: none can wait for room in the middle. */
FIXTURE_TEST(all_values_of_a_transaction_find_room)
{
    char line[32];
    const char *got = NULL;

    fill_in_steps();
    run(one, "multi");
    for (unsigned i = 0; i < 20; i++) {
        snprintf(line, sizeof line, "setrange new:%u 29999 x", i);
        run(one, line);
    }
    for (unsigned i = 0; i < 1000 && !got; i++)
        got = resp_fixture_call(one, "exec");
    assert_non_null(got);
    assert_null(strstr(got, "OOM"));
    for (unsigned i = 0; i < 20; i++) {
        snprintf(line, sizeof line, "new:%u", i);
        assert_true(is_there(line));
    }
}

FIXTURE_TEST(a_database_that_evicts_is_not_told_to)
{
    const char *advice = okv_store_fullness_advice(&fixture.core.database->store);

    assert_non_null(strstr(advice, "large enough"));
    assert_null(strstr(advice, "--full"));
}
