/* Extents that are READ together with their buckets, over a stub transport. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/handle.h"
#include "tests/support/stub_values.h"

#define OTHER (STUB_HEAP + 32768)

static void second_get_is_one_post(void **state)
{
    static const uint32_t sizes[] = {SHORT, 20000, LONG};

    for (unsigned n = 0; n < 12; n++) {
        uint32_t size = sizes[n % 3];
        values_setup(state);
        values_open(0, n / 6);
        write_value(size, n / 3 % 2, EXTENT);
        assert_got(size);
        unsigned posts = stub.posts, reads = stub.reads;
        memset(got, '#', sizeof got);
        assert_got(size);
        assert_int_equal(stub.posts, posts + 1);
        assert_int_equal(stub.reads, 2 * reads);
        assert_int_equal(counted.hints_right, 1);
        assert_int_equal(counted.hints_wrong, 0);
        values_close();
    }
}

/* What may have become of the item since it was read. */
static void item_becomes(unsigned what)
{
    struct okv_entry entry;

    switch (what) {
    case 0: /* moved, its old place used by another key */
        write_value(SHORT, true, STUB_HEAP);
        stub_reference(keys[1], "of key 1", EXTENT);
        break;
    case 1: /* moved, its old place still as it was: no proof that it is current */
        write_value(SHORT, true, STUB_HEAP);
        break;
    case 2: /* inline */
        entry = stub_inline(keys[0], "inline");
        stub_bucket(BUCKET, STUB_DEPTH, &entry, 1);
        break;
    case 3: /* gone */
        stub_bucket(BUCKET, STUB_DEPTH, NULL, 0);
        break;
    case 4: /* expired */
        entry = write_value(LONG, true, EXTENT);
        entry.expiry_ms = 1;
        stub_bucket(BUCKET, STUB_DEPTH, &entry, 1);
        break;
    default: /* in the bucket that this one was split into */
        entry = write_value(LONG, true, EXTENT);
        stub_bucket(BUCKET, STUB_DEPTH + 1, NULL, 0);
        stub_bucket(BUCKET + STUB_BUCKETS, STUB_DEPTH + 1, &entry, 1);
    }
}

static void stale_hint_is_never_believed(void **state)
{
    static const int expected[] = {OKV_OK, OKV_OK, OKV_OK, OKV_ENOTFOUND, OKV_ENOTFOUND, OKV_OK};

    for (unsigned n = 0; n < 12; n++) {
        unsigned what = n % 6;
        values_setup(state);
        values_open(0, n / 6);
        write_value(LONG, true, EXTENT);
        assert_got(LONG);
        item_becomes(what);
        uint64_t right = counted.hints_right;
        assert_int_equal(get_into(LONG), expected[what]);
        if (what < 2)
            assert_int_equal(length, SHORT);
        else if (what == 2)
            assert_memory_equal(got, "inline", 6);
        else if (expected[what] == OKV_OK)
            assert_memory_equal(got, value, LONG);
        assert_int_equal(counted.hints_right, right);
        assert_int_equal(counted.hints_wrong, 1);
        assert_int_equal(get_into(LONG), expected[what]);
        assert_true(counted.hints_wrong <= 1); /* it was forgotten, or mended */
        values_close();
    }
}

/* Same lengths and, but for one of them, same place and bytes: it is another extent. */
static void hint_and_reference_agree_in_everything(void **state)
{
    (void)state;
    values_open(0, false);
    write_value(SHORT, true, EXTENT);
    assert_got(SHORT);
    write_value(SHORT, true, OTHER); /* with the old bytes still in the old place */
    assert_got(SHORT);
    assert_int_equal(counted.hints_wrong, 1);
    value[SHORT - 1] = '!';
    write_value(SHORT, true, OTHER);
    assert_got(SHORT);
    assert_int_equal(counted.hints_wrong, 2);
    write_value(SHORT - 1, true, OTHER);
    assert_got(SHORT - 1);
    write_value(SHORT - 1, false, OTHER);
    assert_got(SHORT - 1);
    assert_int_equal(counted.hints_wrong, 4);
    assert_int_equal(counted.hints_right, 0);
}

/* Once the bucket says that the hint was wrong, no further piece is READ. */
static void stale_hint_costs_no_more_than_it_must(void **state)
{
    (void)state;
    stub.max_reads = 2;
    values_open(0, false);
    write_value(LONG, true, EXTENT);
    assert_got(LONG);
    item_becomes(2);
    uint64_t before = counted.extent_reads;
    assert_int_equal(get_into(LONG), OKV_OK);
    assert_memory_equal(got, "inline", 6);
    assert_int_equal(counted.extent_reads, before + 1);
}

/* Whichever of the READs that are under way together finds a byte wrong. */
static void torn_hinted_read(void **state)
{
    static const uint64_t places[] = {STUB_INDEX + BUCKET * STUB_BUCKET_SIZE + 30, EXTENT + 3,
                                      EXTENT + LONG};

    for (unsigned n = 0; n < 3; n++) {
        values_setup(state);
        values_open(0, false);
        write_value(LONG, true, EXTENT);
        assert_got(LONG);
        damage_begin(places[n]);
        for (unsigned i = 1; i <= 4; i++) {
            damaged_read = stub.reads + i;
            memset(got, '#', sizeof got);
            assert_got(LONG);
        }
        damage_end();
        assert_int_equal(counted.hints_right + counted.hints_wrong, 4);
        assert_int_equal(counted.hints_wrong, 1);
        stub_close(&handle);
    }
}

static void hint_is_not_used_for_a_small_buffer(void **state)
{
    (void)state;
    values_open(0, true);
    write_value(LONG, true, EXTENT);
    assert_got(LONG);
    memset(got, '#', sizeof got);
    assert_int_equal(get_into(LONG - 1), OKV_ETOOSMALL);
    assert_int_equal(length, LONG);
    assert_int_equal(got[0], '#');
    assert_int_equal(counted.hints_wrong, 0);
}

/* One place in the cache: the later key has it. */
static void hints_are_replaced(void **state)
{
    (void)state;
    values_open(1, false);
    struct okv_entry entries[] = {stub_reference(keys[0], "zero", EXTENT),
                                  stub_reference(keys[1], "one", OTHER)};
    stub_bucket(BUCKET, STUB_DEPTH, entries, 2);
    for (unsigned i = 0; i < 6; i++) {
        const char *key = keys[i / 2 % 2];
        assert_int_equal(okv_get(handle, key, strlen(key), got, sizeof got, &length, NULL), OKV_OK);
        assert_memory_equal(got, i / 2 % 2 ? "one" : "zero", length);
    }
    okv_counters(handle, &counted);
    assert_int_equal(counted.hints_right, 3);
    assert_int_equal(counted.hints_wrong, 0);
}

/* No buffer for the extent: the bucket alone is READ, and nothing lands where others are. */
static void hint_without_memory_is_none(void **state)
{
    static uint8_t other[LONG];
    static const uint32_t sizes[] = {20000, LONG};

    for (unsigned i = 0; i < 2; i++) {
        values_setup(state);
        values_open(0, false);
        write_value(sizes[i], true, EXTENT);
        assert_got(sizes[i]);
        stub.delay = 1000; /* the kept buffer is in use */
        assert_int_equal(okv_submit_get(handle, keys[0], strlen(keys[0]), got, LONG, 1), OKV_OK);
        stub.register_result = OKV_EPERM;
        unsigned reads = stub.reads;
        assert_int_equal(okv_submit_get(handle, keys[0], strlen(keys[0]), other, LONG, 2), OKV_OK);
        assert_int_equal(stub.reads, reads + 1);
        stub_release_events(0);
        collect();
        assert_int_equal(results[1].status, OKV_OK);
        assert_memory_equal(got, value, sizes[i]);
        assert_int_equal(results[2].status, OKV_OK); /* the buffer came back in time */
        assert_memory_equal(other, value, sizes[i]);
        stub_close(&handle);
    }
}

/* Whoever reads short values only pays no look at the table. */
static void table_without_hints_is_not_touched(void **state)
{
    struct hint *table;

    (void)state;
    values_open(0, false);
    for (unsigned i = 0; i < 2; i++) {
        struct okv_entry entry = stub_inline(keys[0], "inline");
        stub_bucket(BUCKET, STUB_DEPTH, &entry, 1);
        table = handle->hints;
        handle->hints = NULL;
        assert_int_equal(get_into(LONG), OKV_OK);
        assert_int_equal(okv_put(handle, keys[0], strlen(keys[0]), "", 0, NULL), OKV_OK);
        handle->hints = table;
        write_value(SHORT, true, EXTENT);
        assert_got(SHORT);
        assert_got(SHORT);
        assert_int_equal(counted.hints_right, i + 1); /* it is used as soon as one is there */
        assert_int_equal(okv_delete(handle, keys[0], strlen(keys[0])), OKV_OK);
        assert_int_equal(okv_delete(handle, keys[0], strlen(keys[0])), OKV_OK);
    }
}

#define HINT_TEST(name) cmocka_unit_test_setup_teardown(name, values_setup, client_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HINT_TEST(second_get_is_one_post),
        HINT_TEST(stale_hint_is_never_believed),
        HINT_TEST(hint_and_reference_agree_in_everything),
        HINT_TEST(stale_hint_costs_no_more_than_it_must),
        HINT_TEST(torn_hinted_read),
        HINT_TEST(hint_is_not_used_for_a_small_buffer),
        HINT_TEST(hints_are_replaced),
        HINT_TEST(hint_without_memory_is_none),
        HINT_TEST(table_without_hints_is_not_touched),
    };

    return cmocka_run_group_tests_name("client: hints", tests, NULL, NULL);
}
