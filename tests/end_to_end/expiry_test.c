/*
 * Items that expire: gone for those who read the table themselves as for the server, also
 * while the server stands still, and never before their time.
 *
 * An expiry is waited for, as long as it takes. What is asserted of time can only fail when
 * an item goes too early, however slow the machine is.
 */
#include <signal.h>
#include <time.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/server_fixture.h"

#define TTL_MS 3000
#define MS 1000000u
/* By when an item of a few seconds must be gone. */
#define GONE_NS PACE_GUARD_NS
/* Items of so little that a part of a millisecond counts, and how many of them. */
#define BRIEF_MS 5
#define BRIEF_ITEMS 20

static int setup(void **state)
{
    static const char *const arguments[] = {"--memory", "16M", NULL};

    return server_fixture_start(state, arguments);
}

static int put_for(okv *handle, const char *key, size_t size, int64_t ttl_ms, uint32_t flags)
{
    struct okv_put_options options = {.flags = OKV_WITH_TTL | flags, .ttl_ms = ttl_ms};
    static const char value[20000] = "mortal";

    return okv_put_with(handle, key, strlen(key), value, size, &options, NULL);
}

static int get(okv *handle, const char *key)
{
    static char value[20000];
    size_t length;

    return okv_get(handle, key, strlen(key), value, sizeof value, &length, NULL);
}

static int head(okv *handle, const char *key, struct okv_item_info *info)
{
    return okv_head(handle, key, strlen(key), info);
}

static int get_among_many(okv *handle, const char *key)
{
    struct okv_command commands[3];
    struct okv_result results[3];
    char buffer[16];

    for (int i = 0; i < 3; i++)
        commands[i] = (struct okv_command){.kind = i == 1 ? OKV_HEAD : OKV_GET,
                                           .key = key,
                                           .key_length = strlen(key),
                                           .buffer = i == 1 ? NULL : buffer,
                                           .buffer_size = i == 1 ? 0 : sizeof buffer};
    assert_int_equal(okv_call_many(handle, commands, results, 3), OKV_OK);
    assert_int_equal(results[0].status, results[1].status);
    assert_int_equal(results[0].status, results[2].status);
    return results[0].status;
}

struct sought {
    const char *key;
    unsigned seen;
};

static int visit(void *user, const struct okv_item *item)
{
    struct sought *sought = user;

    sought->seen += item->key_length == strlen(sought->key) &&
                    memcmp(item->key, sought->key, item->key_length) == 0;
    return 0;
}

static unsigned seen_in_scan(okv *handle, const char *key)
{
    struct sought sought = {.key = key};

    assert_int_equal(okv_scan(handle, visit, &sought), OKV_OK);
    return sought.seen;
}

/* Waits until a get misses; what it missed was put, or touched, for `ttl_ms` after `begun`. */
static void await_gone(okv *handle, const char *key, uint64_t begun, uint64_t ttl_ms)
{
    int rc;

    while ((rc = get(handle, key)) == OKV_OK && okv_clock_ns() - begun < GONE_NS)
        nanosleep(&(struct timespec){0, 5 * MS}, NULL);
    uint64_t age = okv_clock_ns() - begun;
    assert_int_equal(rc, OKV_ENOTFOUND);
    if (age < ttl_ms * MS)
        fail_msg("%s of %lu ms was missed after %lu ms", key, (unsigned long)ttl_ms,
                 (unsigned long)(age / MS));
}

/* What a head says is left is never less than what is left; when nothing is, it may be gone. */
static void assert_left(okv *handle, const char *key, uint64_t begun, int64_t ttl_ms)
{
    struct okv_item_info info;

    int rc = head(handle, key, &info);
    int64_t age_ns = (int64_t)(okv_clock_ns() - begun);
    if (rc == OKV_ENOTFOUND && age_ns >= ttl_ms * (int64_t)MS)
        return;
    assert_int_equal(rc, OKV_OK);
    assert_true((info.ttl_ms - ttl_ms) * (int64_t)MS + age_ns >= 0);
    assert_true(info.ttl_ms <= ttl_ms + (int64_t)(GONE_NS / MS)); /* is in milliseconds at all */
}

static void assert_there(okv *handle, const char *key)
{
    assert_int_equal(get(handle, key), OKV_OK);
    assert_int_equal(head(handle, key, NULL), OKV_OK);
    assert_int_equal(seen_in_scan(handle, key), 1);
}

/* For all one-sided readers, and the reader's clock is not ahead of the server's. */
static void assert_gone(okv *handle, const char *key)
{
    assert_int_equal(get(handle, key), OKV_ENOTFOUND);
    assert_int_equal(head(handle, key, NULL), OKV_ENOTFOUND);
    assert_int_equal(get_among_many(handle, key), OKV_ENOTFOUND);
    assert_int_equal(seen_in_scan(handle, key), 0);
}

TEST(item_expires)
{
    static const size_t sizes[] = {6, 1000, 20000}; /* inline, in an extent, READ by rendezvous */
    okv *handle = handle_of(state);
    uint64_t begun[3];
    char key[16];

    for (int i = 0; i < 3; i++) {
        snprintf(key, sizeof key, "mortal-%d", i);
        begun[i] = okv_clock_ns();
        assert_int_equal(put_for(handle, key, sizes[i], TTL_MS, 0), OKV_OK);
        assert_int_equal(put_for(handle, "patient", 6, 600000, 0), OKV_OK);
        assert_left(handle, "patient", begun[i], 600000);
    }
    for (int i = 0; i < 3; i++) {
        snprintf(key, sizeof key, "mortal-%d", i);
        await_gone(handle, key, begun[i], TTL_MS);
        assert_gone(handle, key);
        assert_int_equal(okv_touch(handle, key, strlen(key), 60000, NULL), OKV_ENOTFOUND);
        assert_int_equal(okv_delete(handle, key, strlen(key)), OKV_ENOTFOUND);
        assert_int_equal(put_for(handle, key, sizes[i], 600000, OKV_IF_ABSENT), OKV_OK);
        assert_there(handle, key);
        assert_int_equal(put_for(handle, key, sizes[i], 600000, OKV_IF_ABSENT), OKV_EEXISTS);
    }
    assert_there(handle, "patient");
}

/* Begins late in a millisecond of the clock that expiries are stated on: what that millisecond
 * still has must not be taken for a whole one. */
static void await_late_in_a_millisecond(void)
{
    struct timespec now;

    do {
        clock_gettime(CLOCK_BOOTTIME, &now);
    } while (now.tv_nsec % (long)MS < (long)MS * 8 / 10);
}

TEST(brief_items_have_all_their_time)
{
    struct server_fixture *fixture = *state;
    int rc;

    for (int i = 0; i < BRIEF_ITEMS; i++) {
        /* Another each time: how well it knows the server's clock is a matter of chance. */
        okv *handle = server_connect(&fixture->server, NULL);
        await_late_in_a_millisecond();
        uint64_t begun = okv_clock_ns();
        assert_int_equal(put_for(handle, "brief", 6, BRIEF_MS, 0), OKV_OK);
        assert_left(handle, "brief", begun, BRIEF_MS);
        while ((rc = get(handle, "brief")) == OKV_OK && okv_clock_ns() - begun < GONE_NS)
            ;
        uint64_t age = okv_clock_ns() - begun;
        assert_int_equal(rc, OKV_ENOTFOUND);
        if (age < BRIEF_MS * MS)
            fail_msg("item %d of %d ms was missed after %lu us", i, BRIEF_MS,
                     (unsigned long)(age / 1000));
        okv_close(&handle);
    }
}

/* The server removes what has expired without being asked for it. */
TEST(memory_comes_back)
{
    okv *handle = handle_of(state);
    char key[32];

    assert_int_equal(okv_flush(handle), OKV_OK);
    for (int i = 0; i < 200; i++) {
        snprintf(key, sizeof key, "swept-%d", i);
        assert_int_equal(put_for(handle, key, i % 2 ? 10000 : 10, 500, 0), OKV_OK);
    }
    assert_int_equal(put_for(handle, "kept", 10, 600000, 0), OKV_OK);
    uint64_t begun = okv_clock_ns();
    while (server_stat(handle, "items") != 1 && okv_clock_ns() - begun < GONE_NS)
        nanosleep(&(struct timespec){0, 50 * MS}, NULL);
    assert_int_equal(server_stat(handle, "items"), 1);
    assert_int_equal(server_stat(handle, "items_expiring"), 1);
    assert_int_equal(server_stat(handle, "extent_bytes"), 0);
    assert_there(handle, "kept");
}

TEST(bad_times_to_live)
{
    static const int64_t bad[] = {0, -1, INT64_MIN, OKV_TTL_MAX_MS + 1, OKV_TTL_NONE};
    okv *handle = handle_of(state);

    assert_int_equal(okv_put(handle, "timeless", 8, "v", 1, NULL), OKV_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(put_for(handle, "never put", 1, bad[i], 0), OKV_ETTL);
        if (bad[i] != OKV_TTL_NONE)
            assert_int_equal(okv_touch(handle, "timeless", 8, bad[i], NULL), OKV_ETTL);
    }
    struct okv_put_options no_flag = {.ttl_ms = 1000};
    assert_int_equal(okv_put_with(handle, "never put", 9, "v", 1, &no_flag, NULL), OKV_EINVAL);
    assert_int_equal(get(handle, "never put"), OKV_ENOTFOUND);
    struct okv_item_info info;
    assert_int_equal(head(handle, "timeless", &info), OKV_OK);
    assert_true(info.ttl_ms == OKV_TTL_NONE);
    uint64_t begun = okv_clock_ns();
    assert_int_equal(okv_touch(handle, "timeless", 8, OKV_TTL_MAX_MS, NULL), OKV_OK);
    assert_left(handle, "timeless", begun, OKV_TTL_MAX_MS);
    assert_int_equal(put_for(handle, "aged", 1, OKV_TTL_MAX_MS, 0), OKV_OK);
    assert_there(handle, "aged");
}

/* Also where nothing else of the item changes. */
TEST(a_put_with_a_time_to_live_sets_it)
{
    okv *handle = handle_of(state);
    struct okv_item_info info;

    assert_int_equal(okv_put(handle, "timed", 5, "123456", 6, NULL), OKV_OK);
    uint64_t begun = okv_clock_ns();
    assert_int_equal(put_for(handle, "timed", 6, 600000, 0), OKV_OK);
    assert_left(handle, "timed", begun, 600000);
    assert_int_equal(okv_put(handle, "timed", 5, "123456", 6, NULL), OKV_OK);
    assert_int_equal(head(handle, "timed", &info), OKV_OK);
    assert_true(info.ttl_ms == OKV_TTL_NONE);
}

/* By a compare-and-swap, by a put without a condition, and of a value that the server READs. */
TEST(a_put_that_keeps_the_time_to_live)
{
    static const char longer[100000];
    okv *handle = handle_of(state);
    struct okv_put_options keep = {.flags = OKV_KEEP_TTL};
    struct okv_put_options swap = {.flags = OKV_KEEP_TTL | OKV_IF_VERSION};
    struct okv_item_info info;

    uint64_t begun = okv_clock_ns();
    assert_int_equal(put_for(handle, "kept", 6, 600000, 0), OKV_OK);
    assert_int_equal(okv_put_with(handle, "kept", 4, "v", 1, &keep, &swap.version), OKV_OK);
    assert_left(handle, "kept", begun, 600000);
    assert_int_equal(okv_put_with(handle, "kept", 4, "w", 1, &swap, NULL), OKV_OK);
    assert_left(handle, "kept", begun, 600000);
    assert_int_equal(okv_put_with(handle, "kept", 4, "x", 1, &swap, NULL), OKV_ECONFLICT);
    assert_int_equal(okv_put_with(handle, "kept", 4, longer, sizeof longer, &keep, NULL), OKV_OK);
    assert_left(handle, "kept", begun, 600000);
    assert_int_equal(okv_put_with(handle, "fresh", 5, "v", 1, &keep, NULL), OKV_OK);
    assert_int_equal(head(handle, "fresh", &info), OKV_OK);
    assert_true(info.ttl_ms == OKV_TTL_NONE);
}

/* Items of `ttl_ms` that are touched, replaced and appended to while they live. False: that took
 * longer than they live, so that it says nothing. */
static bool lives_are_changed_in_time(okv *handle, int64_t ttl_ms)
{
    uint64_t begun = okv_clock_ns();

    assert_int_equal(put_for(handle, "saved", 6, 10 * ttl_ms, 0), OKV_OK);
    assert_int_equal(put_for(handle, "kept", 6, ttl_ms, 0), OKV_OK);
    assert_int_equal(put_for(handle, "replaced", 6, ttl_ms, 0), OKV_OK);
    assert_int_equal(put_for(handle, "added", 0, ttl_ms, 0), OKV_OK);
    int saved = okv_touch(handle, "saved", 5, OKV_TTL_NONE, NULL);
    int longer = okv_touch(handle, "kept", 4, 600000, NULL);
    assert_int_equal(okv_put(handle, "replaced", 8, "for good", 8, NULL), OKV_OK);
    int added = okv_append(handle, "added", 5, "1", 1, NULL, NULL);
    if (okv_clock_ns() - begun > (uint64_t)(ttl_ms - 100) * MS)
        return false;
    assert_int_equal(saved, OKV_OK);
    assert_int_equal(longer, OKV_OK);
    assert_int_equal(added, OKV_OK);
    assert_left(handle, "kept", begun, 600000);
    return true;
}

TEST(touch)
{
    okv *handle = handle_of(state);
    struct okv_item_info info;
    int64_t ttl_ms = TTL_MS;

    assert_int_equal(okv_touch(handle, "nobody", 6, 1000, NULL), OKV_ENOTFOUND);
    while (!lives_are_changed_in_time(handle, ttl_ms)) {
        print_message("%d ms were not enough on this machine: once more\n", (int)ttl_ms);
        ttl_ms *= 2;
        assert_true(ttl_ms < PACE_GUARD_MS);
    }
    assert_int_equal(okv_put(handle, "short", 5, "s", 1, NULL), OKV_OK);
    uint64_t begun = okv_clock_ns();
    assert_int_equal(okv_touch(handle, "short", 5, TTL_MS, NULL), OKV_OK);
    await_gone(handle, "short", begun, TTL_MS);
    await_gone(handle, "added", begun, 0); /* what is appended to keeps its expiry */
    assert_int_equal(head(handle, "saved", &info), OKV_OK);
    assert_true(info.ttl_ms == OKV_TTL_NONE);
    assert_int_equal(head(handle, "replaced", &info), OKV_OK);
    assert_true(info.ttl_ms == OKV_TTL_NONE);
    assert_there(handle, "kept");
}

/* The status in the region stands still with its server; items expire all the same. */
TEST(items_of_a_stopped_server_expire)
{
    struct server_fixture *fixture = *state;
    okv *handle = fixture->handle;

    if (!server_is_one_sided(handle))
        skip();
    okv *other = server_connect(&fixture->server, NULL);
    uint64_t begun = okv_clock_ns();
    assert_int_equal(put_for(handle, "small", 6, TTL_MS, 0), OKV_OK);
    assert_int_equal(put_for(handle, "large", 20000, TTL_MS, 0), OKV_OK);
    assert_int_equal(put_for(handle, "lasting", 6, 600000, 0), OKV_OK);
    server_signal(&fixture->server, SIGSTOP);
    await_gone(handle, "small", begun, TTL_MS);
    await_gone(handle, "large", begun, TTL_MS);
    assert_gone(handle, "small");
    assert_gone(handle, "large");
    await_gone(other, "small", begun, TTL_MS); /* this one meets its first expiry */
    assert_there(handle, "lasting");
    assert_there(other, "lasting");
    server_signal(&fixture->server, SIGCONT);
    assert_int_equal(put_for(handle, "small", 6, 600000, OKV_IF_ABSENT), OKV_OK);
    okv_close(&other);
}

/* A counter has the time to live that it began with, and not that of a later increment. */
TEST(a_new_counter_expires)
{
    okv *handle = handle_of(state);
    struct okv_item_info info;
    int64_t sum = 0;

    uint64_t begun = okv_clock_ns();
    assert_int_equal(okv_incr_ttl(handle, "counter", 7, 5, 600000, &sum, NULL), OKV_OK);
    assert_int_equal(sum, 5);
    assert_int_equal(okv_incr_ttl(handle, "counter", 7, 2, 1, &sum, NULL), OKV_OK);
    assert_int_equal(sum, 7);
    assert_left(handle, "counter", begun, 600000);
    assert_int_equal(okv_incr(handle, "forever", 7, 1, NULL, NULL), OKV_OK);
    assert_int_equal(okv_incr_ttl(handle, "forever", 7, 1, 1, NULL, NULL), OKV_OK);
    assert_int_equal(head(handle, "forever", &info), OKV_OK);
    assert_true(info.ttl_ms == OKV_TTL_NONE);
    begun = okv_clock_ns();
    assert_int_equal(okv_incr_ttl(handle, "brief", 5, 1, 1, NULL, NULL), OKV_OK);
    await_gone(handle, "brief", begun, 1);
    assert_int_equal(okv_incr_ttl(handle, "counter", 7, 1, 0, NULL, NULL), OKV_ETTL);
    assert_int_equal(okv_incr_ttl(handle, "counter", 7, 1, OKV_TTL_NONE, NULL, NULL), OKV_ETTL);
}

TEST(a_get_that_touches)
{
    okv *handle = handle_of(state);
    struct okv_item_info info;
    struct okv_info connection;
    static char value[20000], back[sizeof value];
    uint64_t put = 0, touched = 0;
    size_t length = 0;

    assert_int_equal(okv_put(handle, "read", 4, "value", 5, &put), OKV_OK);
    uint64_t begun = okv_clock_ns();
    assert_int_equal(okv_get_touch(handle, "read", 4, 600000, back, 5, &length, &touched), OKV_OK);
    assert_int_equal(length, 5);
    assert_memory_equal(back, "value", 5);
    assert_true(touched > put);
    assert_left(handle, "read", begun, 600000);
    /* A buffer that is too small is no reason to leave the item alone. */
    assert_int_equal(okv_get_touch(handle, "read", 4, OKV_TTL_NONE, back, 4, &length, NULL),
                     OKV_ETOOSMALL);
    assert_int_equal(length, 5);
    assert_int_equal(head(handle, "read", &info), OKV_OK);
    assert_true(info.ttl_ms == OKV_TTL_NONE);
    assert_int_equal(okv_get_touch(handle, "nobody", 6, 1000, back, 5, &length, NULL),
                     OKV_ENOTFOUND);
    /* The longest that a message takes, and one that none does. */
    okv_info(handle, &connection);
    memset(value, 'v', sizeof value);
    assert_int_equal(okv_put(handle, "read", 4, value, connection.max_message_value, NULL), OKV_OK);
    assert_int_equal(okv_get_touch(handle, "read", 4, 600000, back, sizeof back, &length, NULL),
                     OKV_OK);
    assert_int_equal(length, connection.max_message_value);
    assert_memory_equal(back, value, length);
    assert_int_equal(okv_put(handle, "read", 4, value, sizeof value, &put), OKV_OK);
    assert_int_equal(okv_get_touch(handle, "read", 4, 600000, back, sizeof back, &length, NULL),
                     OKV_EVALUESIZE);
    assert_int_equal(head(handle, "read", &info), OKV_OK);
    assert_int_equal(info.version, put);
    assert_true(info.ttl_ms == OKV_TTL_NONE);
    assert_int_equal(okv_put(handle, "read", 4, "", 0, NULL), OKV_OK);
    assert_int_equal(okv_get_touch(handle, "read", 4, 600000, NULL, 0, &length, NULL), OKV_OK);
    assert_int_equal(length, 0);
}

TEST_PROGRAM(setup, server_fixture_stop)
