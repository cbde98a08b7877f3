/*
 * What goes through the whole table, while others change it: a scan shows every item
 * that is there all the while exactly once, however the table grows and shrinks.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/random.h"
#include "tests/support/sanitized.h"
#include "tests/support/server_process.h"

#define STABLE 3000
#define CHURN 20000
#define VALUE_MAX 700000
/* Scans beside which the table grew and beside which it shrank that are wanted. */
#define RESIZED_WANTED (OKV_SANITIZED ? 3u : 10u)

static struct server_process server;

/* ---- random numbers ----------------------------------------------------- */

static uint64_t next_random(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = *state;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* ---- items -------------------------------------------------------------- */

/* Most are small; some are in an extent, a few take several READs. */
static size_t stable_length(uint32_t index)
{
    if (index % 1500 == 7)
        return VALUE_MAX;
    if (index % 300 == 5)
        return 20000;
    return index % 40 == 3 ? 1500 : 24;
}

/* A value that tells which item it is of and proves that it is whole. */
static void fill(uint8_t *value, size_t length, uint32_t index, uint32_t counter)
{
    uint8_t byte = (uint8_t)(index * 31 + counter * 7);

    memset(value, byte, length);
    memcpy(value, &index, sizeof index);
    memcpy(value + sizeof index, &counter, sizeof counter);
}

static void assert_whole(const struct okv_item *item, uint32_t index)
{
    const uint8_t *value = item->value;
    uint32_t stated;
    uint32_t counter;

    assert_int_equal(item->value_length, stable_length(index));
    memcpy(&stated, value, sizeof stated);
    memcpy(&counter, value + sizeof stated, sizeof counter);
    assert_int_equal(stated, index);
    uint8_t byte = (uint8_t)(index * 31 + counter * 7);
    for (size_t i = sizeof stated + sizeof counter; i < item->value_length; i++)
        if (value[i] != byte)
            fail_msg("item %u is not whole at byte %zu", index, i);
}

static int put_stable(okv *handle, uint32_t index, uint32_t counter)
{
    static _Thread_local uint8_t value[VALUE_MAX];
    char key[32];
    int length = snprintf(key, sizeof key, "stable-%u", index);

    fill(value, stable_length(index), index, counter);
    return okv_put(handle, key, (size_t)length, value, stable_length(index), NULL);
}

/* ---- what changes the table --------------------------------------------- */

struct changer {
    pthread_t thread;
    okv *handle;
    uint64_t random;
    atomic_bool stop;
    atomic_int failure;
};

static int drain(okv *handle, uint32_t least)
{
    struct okv_result results[64];

    while (okv_pending(handle) > least) {
        int count = okv_poll(handle, results, 64);
        for (int i = 0; i < count; i++)
            if (results[i].status != OKV_OK)
                return results[i].status;
        if (count < 0)
            return count;
        if (count == 0)
            okv_wait(handle, 100);
    }
    return OKV_OK;
}

/* Puts or deletes all churn; every now and then gives a stable item another value. */
static int wave(struct changer *changer, okv *handle, uint32_t kind, uint32_t *counter)
{
    static char keys[CHURN][16];
    int rc = OKV_OK;

    for (uint32_t i = 0; i < CHURN && rc == OKV_OK && !atomic_load(&changer->stop); i++) {
        int length = snprintf(keys[i], sizeof keys[i], "churn-%u", i);
        struct okv_command command = {.kind = kind, .key = keys[i], .key_length = (size_t)length};
        if (kind == OKV_PUT) {
            command.value = keys[i];
            command.value_length = (size_t)length;
        }
        rc = drain(handle, 31);
        if (rc == OKV_OK)
            rc = okv_submit(handle, &command, 1, NULL);
        if (i % 200 == 0 && rc == OKV_OK) {
            uint32_t index = (uint32_t)(next_random(&changer->random) % STABLE);
            rc = put_stable(handle, index, ++*counter);
        }
    }
    return rc == OKV_OK ? drain(handle, 0) : rc;
}

static void *change(void *user)
{
    struct changer *changer = user;
    okv *handle = changer->handle;
    uint32_t counter = 0;
    int rc = OKV_OK;

    while (rc == OKV_OK && !atomic_load(&changer->stop)) {
        rc = wave(changer, handle, OKV_PUT, &counter);
        if (rc == OKV_OK && !atomic_load(&changer->stop))
            rc = wave(changer, handle, OKV_DELETE, &counter);
    }
    atomic_store(&changer->failure, rc);
    return NULL;
}

/* ---- scans -------------------------------------------------------------- */

struct seen {
    uint8_t times[STABLE];
    uint32_t portion; /* items after which a portion ends; 0: never */
    uint32_t left;
};

static int see(void *user, const struct okv_item *item)
{
    struct seen *seen = user;
    char key[32] = "";
    uint32_t index;

    assert_true(item->key_length > 0 && item->key_length < sizeof key);
    memcpy(key, item->key, item->key_length);
    if (sscanf(key, "stable-%u", &index) == 1) {
        assert_true(index < STABLE);
        assert_whole(item, index);
        assert_true(item->ttl_ms == OKV_TTL_NONE);
        seen->times[index]++;
    }
    return seen->portion > 0 && --seen->left == 0 ? 7 : 0;
}

static void assert_each_once(const struct seen *seen)
{
    for (uint32_t i = 0; i < STABLE; i++)
        if (seen->times[i] != 1)
            fail_msg("item %u was shown %u times", i, seen->times[i]);
}

static void scan_once(okv *handle)
{
    struct seen seen = {0};

    int rc = okv_scan(handle, see, &seen);
    if (rc)
        fail_msg("scan: %s", okv_strerror(rc));
    assert_each_once(&seen);
}

/* As many calls as it takes, each of a portion. */
static void scan_in_portions(okv *handle, uint32_t portion)
{
    struct seen seen = {.portion = portion};
    uint64_t cursor = 0;

    do {
        seen.left = portion;
        int rc = okv_scan_from(handle, &cursor, see, &seen);
        assert_int_equal(rc, seen.left == 0 ? 7 : 0);
    } while (cursor != 0);
    assert_each_once(&seen);
}

TEST(each_item_is_shown_once_while_the_table_changes)
{
    okv *handle = server_connect(&server, NULL);
    uint64_t random = random_seed();
    struct changer changer = {.handle = server_connect(&server, NULL), .random = random + 1};
    unsigned grown = 0;
    unsigned shrunk = 0;
    uint64_t end = pace_guard_end();

    for (uint32_t i = 0; i < STABLE; i++)
        assert_int_equal(put_stable(handle, i, 0), OKV_OK);
    scan_once(handle);
    assert_int_equal(pthread_create(&changer.thread, NULL, change, &changer), 0);
    for (unsigned round = 0;
         (grown < RESIZED_WANTED || shrunk < RESIZED_WANTED) && okv_clock_ns() < end; round++) {
        uint64_t splits = server_stat(handle, "splits");
        uint64_t merges = server_stat(handle, "merges");
        if (round % 2 == 0)
            scan_once(handle);
        else
            scan_in_portions(handle, 200 + (uint32_t)(next_random(&random) % 2000));
        grown += server_stat(handle, "splits") != splits;
        shrunk += server_stat(handle, "merges") != merges;
    }
    atomic_store(&changer.stop, true);
    pthread_join(changer.thread, NULL);
    okv_close(&changer.handle);
    assert_int_equal(atomic_load(&changer.failure), OKV_OK);
    if (grown < RESIZED_WANTED || shrunk < RESIZED_WANTED)
        fail_msg("the table grew beside %u scans and shrank beside %u", grown, shrunk);
    okv_close(&handle);
}

/* Also a portion of one item gets to the end. */
TEST(portions_may_be_of_any_size)
{
    okv *handle = server_connect(&server, NULL);

    scan_in_portions(handle, server_is_slow() || OKV_SANITIZED ? 100 : 1);
    scan_in_portions(handle, STABLE * 10);
    okv_close(&handle);
}

static int count_item(void *user, const struct okv_item *item)
{
    (void)item;
    ++*(unsigned *)user;
    return 0;
}

TEST(cursors_are_checked)
{
    static const uint64_t wrong[] = {64, UINT64_MAX, 63, 50, 41 | UINT64_C(5) << 6};
    okv *handle = server_connect(&server, NULL);
    unsigned items = 0;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint64_t cursor = wrong[i];
        assert_int_equal(okv_scan_from(handle, &cursor, count_item, &items), OKV_EINVAL);
        assert_true(cursor == wrong[i]);
    }
    assert_int_equal(okv_scan_from(handle, NULL, count_item, &items), OKV_EINVAL);
    assert_int_equal(okv_scan(NULL, count_item, &items), OKV_EINVAL);
    assert_int_equal(items, 0);
    okv_close(&handle);
}

struct lives {
    unsigned forever;
    unsigned passing;
};

static int see_life(void *user, const struct okv_item *item)
{
    struct lives *lives = user;

    if (item->ttl_ms == OKV_TTL_NONE)
        lives->forever++;
    else if (item->ttl_ms > 500000 && item->ttl_ms < 610000) /* our clock may lag a little */
        lives->passing++;
    return 0;
}

TEST(a_flushed_table_is_empty_and_expired_items_are_not_shown)
{
    okv *handle = server_connect(&server, NULL);
    struct okv_put_options brief = {.flags = OKV_WITH_TTL, .ttl_ms = 1};
    struct okv_put_options longer = {.flags = OKV_WITH_TTL, .ttl_ms = 600000};
    struct lives lives = {0};
    unsigned items = 0;

    assert_int_equal(okv_flush(handle), OKV_OK);
    assert_int_equal(okv_scan(handle, count_item, &items), OKV_OK);
    assert_int_equal(items, 0);
    assert_int_equal(server_stat(handle, "items"), 0);

    assert_int_equal(okv_put(handle, "a", 1, "1", 1, NULL), OKV_OK);
    assert_int_equal(okv_put_with(handle, "b", 1, "2", 1, &brief, NULL), OKV_OK);
    assert_int_equal(okv_put_with(handle, "c", 1, "3", 1, &longer, NULL), OKV_OK);
    usleep(300000);
    assert_int_equal(okv_scan(handle, see_life, &lives), OKV_OK);
    assert_int_equal(lives.forever, 1);
    assert_int_equal(lives.passing, 1);
    okv_close(&handle);
}

static int start(void **state)
{
    static const char *const arguments[] = {"--memory", "64M", NULL};

    (void)state;
    server_start(&server, arguments);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    return server_stop(&server);
}

TEST_PROGRAM(start, stop)
