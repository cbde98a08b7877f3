/*
 * Two databases of one server: what is done in one is invisible in the other.
 */
#include "tests/support/test.h"

#include "client/handle.h"
#include "shared/base/clock.h"
#include "shared/format/hash.h"
#include "tests/support/bulk.h"
#include "tests/support/pace.h"
#include "tests/support/patient_open.h"
#include "tests/support/server_process.h"

#define ITEMS 500
#define LONG 200000
#define TOO_MANY 1000000 /* more than fit a database */
/* The index of 2 MiB never divides keys whose hashes have so many bits in common. */
#define COMMON_BITS 12
#define COLLIDING_KEY 60
#define COLLIDING_MAX 1000 /* more than fit a bucket */

struct fixture {
    struct server_process server;
    okv *one, *other;
};

static int open_database(const struct fixture *fixture, const char *name, okv **out, char *why,
                         size_t size)
{
    const char *uri = fixture->server.uri;
    char text[320];

    snprintf(text, sizeof text, "%s%cdatabase=%s", uri, strchr(uri, '?') ? '&' : '?', name);
    return patient_open(text, NULL, out, why, size);
}

static okv *connect_to(const struct fixture *fixture, const char *name)
{
    okv *handle = NULL;
    char why[300];

    if (open_database(fixture, name, &handle, why, sizeof why))
        fail_msg("%s", why);
    return handle;
}

static int setup(void **state)
{
    static const char *const arguments[] = {"--database", "one:2M", "--database", "other:2M", NULL};
    struct fixture *fixture = calloc(1, sizeof *fixture);

    server_start(&fixture->server, arguments);
    fixture->one = connect_to(fixture, "one");
    fixture->other = connect_to(fixture, "other");
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    okv_close(&fixture->one);
    okv_close(&fixture->other);
    int status = server_stop(&fixture->server);
    free(fixture);
    return status;
}

static void run(okv *handle, int kind, uint64_t begin, uint64_t end, int expected)
{
    const struct bulk bulk = {.kind = kind, .begin = begin, .end = end};

    assert_int_equal(bulk_run(handle, &bulk, NULL), expected);
}

TEST_WITH(items_are_in_one_database, setup, teardown)
{
    struct fixture *fixture = *state;

    run(fixture->one, OKV_PUT, 0, ITEMS, OKV_OK);
    run(fixture->one, OKV_GET, 0, ITEMS, OKV_OK);
    run(fixture->other, OKV_GET, 0, 1, OKV_ENOTFOUND);
    assert_int_equal(server_stat(fixture->one, "items"), ITEMS);
    assert_int_equal(server_stat(fixture->other, "items"), 0);
    /* the same keys, other items */
    run(fixture->other, OKV_PUT, 0, ITEMS / 2, OKV_OK);
    run(fixture->one, OKV_DELETE, 0, ITEMS, OKV_OK);
    run(fixture->other, OKV_GET, 0, ITEMS / 2, OKV_OK);
    assert_int_equal(server_stat(fixture->one, "items"), 0);
}

TEST_WITH(a_flush_empties_one_database, setup, teardown)
{
    struct fixture *fixture = *state;

    run(fixture->one, OKV_PUT, 0, ITEMS, OKV_OK);
    run(fixture->other, OKV_PUT, 0, ITEMS, OKV_OK);
    assert_int_equal(okv_flush(fixture->one), OKV_OK);
    assert_int_equal(server_stat(fixture->one, "items"), 0);
    run(fixture->other, OKV_GET, 0, ITEMS, OKV_OK);
}

TEST_WITH(a_full_database_leaves_room_in_the_other, setup, teardown)
{
    struct fixture *fixture = *state;
    uint64_t region = server_stat(fixture->other, "region_bytes");
    uint64_t unused = server_stat(fixture->other, "never_used_bytes");

    run(fixture->one, OKV_PUT, 0, TOO_MANY, OKV_EFULL);
    assert_int_equal(server_stat(fixture->other, "region_bytes"), region);
    assert_int_equal(server_stat(fixture->other, "never_used_bytes"), unused);
    run(fixture->other, OKV_PUT, 0, ITEMS, OKV_OK);
    run(fixture->other, OKV_GET, 0, ITEMS, OKV_OK);
}

/* The next key of the same bucket as the others: every client is told the seed of the hash. */
static void colliding_key(const okv *handle, uint32_t *number, char key[COLLIDING_KEY])
{
    memset(key, 'x', COLLIDING_KEY);
    do {
        ++*number;
        memcpy(key, number, sizeof *number);
    } while (okv_hash_bucket(okv_hash_key(key, COLLIDING_KEY, handle->table.hash_seed),
                             COMMON_BITS) != 0);
}

/* Keys that were chosen to collide are refused by their own code. Others are served, here and in
 * the other database, and nothing is merged to make room. */
TEST_WITH(a_full_bucket_is_full_for_its_own_keys, setup, teardown)
{
    struct fixture *fixture = *state;
    okv *one = fixture->one;
    static char value[1024];
    char key[COLLIDING_KEY] = "", last[COLLIDING_KEY];
    uint32_t number = 0;
    int rc = OKV_OK;

    run(one, OKV_PUT, 0, ITEMS, OKV_OK);
    run(fixture->other, OKV_PUT, 0, ITEMS, OKV_OK);
    uint64_t buckets = server_stat(fixture->other, "buckets");
    for (unsigned i = 0; i < COLLIDING_MAX && rc == OKV_OK; i++) {
        memcpy(last, key, sizeof key);
        colliding_key(one, &number, key);
        rc = okv_put(one, key, sizeof key, value, sizeof value, NULL);
    }
    assert_int_equal(rc, OKV_EBUCKETFULL);
    assert_int_equal(server_stat(one, "puts_refused"), 1);
    assert_int_equal(server_stat(one, "merges"), 0);
    run(one, OKV_GET, 0, ITEMS, OKV_OK);
    assert_int_equal(server_stat(fixture->other, "buckets"), buckets);
    assert_int_equal(server_stat(fixture->other, "items"), ITEMS);
    assert_int_equal(okv_put(fixture->other, key, sizeof key, value, sizeof value, NULL), OKV_OK);
    assert_int_equal(okv_delete(one, last, sizeof last), OKV_OK);
    assert_int_equal(okv_put(one, key, sizeof key, value, sizeof value, NULL), OKV_OK);
}

static int count_item(void *user, const struct okv_item *item)
{
    (void)item;
    ++*(unsigned *)user;
    return 0;
}

TEST_WITH(a_scan_sees_one_database, setup, teardown)
{
    struct fixture *fixture = *state;
    unsigned count = 0;

    run(fixture->one, OKV_PUT, 0, ITEMS, OKV_OK);
    run(fixture->other, OKV_PUT, ITEMS, ITEMS + 7, OKV_OK);
    assert_int_equal(okv_scan(fixture->other, count_item, &count), OKV_OK);
    assert_int_equal(count, 7);
}

/* Of a value that is too long for a message: the server READs it into the region. */
TEST_WITH(long_values_are_in_one_database, setup, teardown)
{
    struct fixture *fixture = *state;
    static char one[LONG], other[LONG], found[LONG];
    size_t length;

    memset(one, '1', sizeof one);
    memset(other, '2', sizeof other);
    assert_int_equal(okv_put(fixture->one, "long", 4, one, sizeof one, NULL), OKV_OK);
    assert_int_equal(okv_put(fixture->other, "long", 4, other, sizeof other, NULL), OKV_OK);
    assert_int_equal(okv_get(fixture->one, "long", 4, found, sizeof found, &length, NULL), OKV_OK);
    assert_int_equal(length, LONG);
    assert_memory_equal(found, one, LONG);
    assert_int_equal(okv_get(fixture->other, "long", 4, found, sizeof found, &length, NULL),
                     OKV_OK);
    assert_memory_equal(found, other, LONG);
}

/* The clock of each goes on, also of one that nobody asks the server about. */
TEST_WITH(items_expire_in_every_database, setup, teardown)
{
    struct fixture *fixture = *state;
    const struct okv_put_options brief = {.flags = OKV_WITH_TTL, .ttl_ms = 1};
    okv *const handles[] = {fixture->one, fixture->other};

    for (unsigned i = 0; i < 2; i++) {
        uint64_t end = pace_guard_end();
        char found;
        size_t length;
        int rc;
        assert_int_equal(okv_put_with(handles[i], "brief", 5, "x", 1, &brief, NULL), OKV_OK);
        while ((rc = okv_get(handles[i], "brief", 5, &found, 1, &length, NULL)) == OKV_OK)
            assert_true(okv_clock_ns() < end);
        assert_int_equal(rc, OKV_ENOTFOUND);
    }
}

TEST_WITH(a_database_that_is_not_there_is_refused, setup, teardown)
{
    struct fixture *fixture = *state;
    char why[300] = "";
    okv *handle = NULL;

    assert_int_equal(open_database(fixture, "another", &handle, why, sizeof why), OKV_EREFUSED);
    assert_null(handle);
    assert_non_null(strstr(why, "no database of this name"));
    /* also the default one, when others are named */
    assert_int_equal(patient_open(fixture->server.uri, NULL, &handle, why, sizeof why),
                     OKV_EREFUSED);
}
