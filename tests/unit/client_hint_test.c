/* Extents that are READ together with their buckets, over a stub transport. */
#include "tests/support/test.h"

#include "client/get/hints.h"
#include "tests/support/random.h"
#include "tests/support/stub_values.h"

#define OTHER (STUB_HEAP + 32768)
#define SET_SIZE 8 /* hints of one set */

#define HINT_TEST(name) TEST_WITH(name, values_setup, client_teardown)

HINT_TEST(second_get_is_one_post)
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
    case 0: /* moved; another key has its old extent */
        write_value(SHORT, true, STUB_HEAP);
        stub_reference(keys[1], "of key 1", EXTENT);
        break;
    case 1: /* moved; its old extent is unchanged, which proves nothing */
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

HINT_TEST(stale_hint_is_never_believed)
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
        assert_true(counted.hints_wrong <= 1); /* it was forgotten, or fixed */
        values_close();
    }
}

/* Same bytes, and all but one of offset and lengths equal: another extent. */
HINT_TEST(hint_and_reference_have_equal_offset_and_lengths)
{
    values_open(0, false);
    write_value(SHORT, true, EXTENT);
    assert_got(SHORT);
    write_value(SHORT, true, OTHER); /* with the old bytes at the old offset */
    assert_got(SHORT);
    assert_int_equal(counted.hints_wrong, 1);
    write_value(SHORT - 1, true, OTHER);
    assert_got(SHORT - 1);
    write_value(SHORT - 1, false, OTHER);
    assert_got(SHORT - 1);
    assert_int_equal(counted.hints_wrong, 3);
    assert_int_equal(counted.hints_right, 0);
}

/* Another value of the same length has the extent: the checksum in the bucket tells. */
HINT_TEST(extent_is_reused_by_its_key)
{
    values_open(0, false);
    for (unsigned i = 0; i < 4; i++) {
        value[SHORT - 1] = (char)('0' + i);
        write_value(SHORT, i < 2, EXTENT);
        assert_got(SHORT);
    }
    assert_int_equal(counted.hints_right, 2); /* the third is a byte longer with its key */
    assert_int_equal(counted.hints_wrong, 1);
}

static void rewrite_before_extent(unsigned n)
{
    if (n != 2)
        return;
    value[SHORT - 1] ^= 1;
    write_value(SHORT, true, EXTENT);
}

/* The bucket that is READ is of before, the bytes are of after: they are not taken for the old
 * ones, which are gone. */
HINT_TEST(extent_is_reused_between_the_reads)
{
    values_open(0, false);
    write_value(SHORT, true, EXTENT);
    assert_got(SHORT);
    stub.reads = 0;
    stub.before_read = rewrite_before_extent;
    assert_got(SHORT);
    assert_int_equal(counted.hints_right, 0);
    assert_int_equal(counted.hints_wrong, 1);
    assert_int_equal(counted.torn_extents, 1);
}

/* Once the bucket says that the hint was wrong, no further piece is READ. */
HINT_TEST(stale_hint_costs_no_more_than_it_must)
{
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
HINT_TEST(torn_hinted_read)
{
    static const uint64_t offsets[] = {STUB_INDEX + BUCKET * STUB_BUCKET_SIZE + 30, EXTENT + 3,
                                       EXTENT + LONG};

    for (unsigned n = 0; n < 3; n++) {
        values_setup(state);
        values_open(0, false);
        write_value(LONG, true, EXTENT);
        assert_got(LONG);
        damage_begin(offsets[n]);
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

HINT_TEST(hint_is_not_used_for_a_small_buffer)
{
    values_open(0, true);
    write_value(LONG, true, EXTENT);
    assert_got(LONG);
    memset(got, '#', sizeof got);
    assert_int_equal(get_into(LONG - 1), OKV_ETOOSMALL);
    assert_int_equal(length, LONG);
    assert_int_equal(got[0], '#');
    assert_int_equal(counted.hints_wrong, 0);
}

/* Values in extents, with keys whose hints have one set; a get of each of them. */
#define CROWD (SET_SIZE + 1)
static char crowd[CROWD][16];

static void crowd_write(void)
{
    struct okv_entry entries[CROWD];

    for (unsigned i = 0; i < CROWD; i++) {
        stub_key(crowd[i], BUCKET, STUB_DEPTH, i);
        entries[i] = stub_reference(crowd[i], crowd[i], STUB_HEAP + 64 * i);
    }
    stub_bucket(BUCKET, STUB_DEPTH, entries, CROWD);
}

static void crowd_get(unsigned i)
{
    assert_int_equal(okv_get(handle, crowd[i], strlen(crowd[i]), got, sizeof got, &length, NULL),
                     OKV_OK);
    assert_int_equal(length, strlen(crowd[i]));
    assert_memory_equal(got, crowd[i], length);
}

/* Gets all but the last; how many of them a hint was right for. */
static uint64_t crowd_right(void)
{
    okv_counters(handle, &counted);
    uint64_t before = counted.hints_right;
    for (unsigned i = 0; i < SET_SIZE; i++)
        crowd_get(i);
    okv_counters(handle, &counted);
    return counted.hints_right - before;
}

HINT_TEST(hints_of_one_set_do_not_drive_each_other_out)
{
    values_open(1, false); /* a table of one set */
    crowd_write();
    assert_int_equal(crowd_right(), 0);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(crowd_right(), SET_SIZE);
    assert_int_equal(counted.hints_wrong, 0);
}

/* The hint that was not right for longest makes room. */
HINT_TEST(hints_are_replaced)
{
    values_open(1, false);
    crowd_write();
    crowd_right();
    crowd_get(0); /* right: the second is the oldest now */
    crowd_get(SET_SIZE);
    crowd_get(0);
    crowd_get(SET_SIZE);
    okv_counters(handle, &counted);
    assert_int_equal(counted.hints_right, 3);
    crowd_get(1);
    okv_counters(handle, &counted);
    assert_int_equal(counted.hints_right, 3);
    assert_int_equal(counted.hints_wrong, 0);
}

HINT_TEST(writes_forget_their_own_hint_only)
{
    values_open(1, false);
    crowd_write();
    crowd_right();
    assert_int_equal(okv_put(handle, crowd[3], strlen(crowd[3]), "", 0, NULL), OKV_OK);
    assert_int_equal(okv_delete(handle, crowd[5], strlen(crowd[5])), OKV_OK);
    assert_int_equal(okv_append(handle, crowd[7], strlen(crowd[7]), "", 0, &length, NULL), OKV_OK);
    assert_int_equal(okv_put(handle, "unknown", 7, "", 0, NULL), OKV_OK);
    assert_int_equal(crowd_right(), SET_SIZE - 3);
    assert_int_equal(counted.hints_wrong, 0);
    assert_int_equal(crowd_right(), SET_SIZE);
}

/* No buffer for the extent: the bucket alone is READ, and nothing lands where others are. */
HINT_TEST(no_memory_means_no_hints)
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

/* A handle that READs short values only never touches the table. */
HINT_TEST(table_without_hints_is_not_touched)
{
    struct hint *table;

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

/* ---- the table alone ---- */

static okv table;
static uint64_t drawn;

/* What the table is asked with for key `number`. */
static const struct operation *table_key(uint64_t number)
{
    static uint64_t key;
    static struct operation operation;

    key = number;
    operation.key = (const uint8_t *)&key;
    operation.key_length = sizeof key;
    operation.lookup.hash = okv_hash_key(&key, sizeof key, table.table.hash_seed);
    return &operation;
}

static struct okv_entry table_reference(uint64_t number)
{
    return (struct okv_entry){
        .is_reference = true,
        .key_in_extent = number % 2,
        .key_length = sizeof number,
        .value_length = UINT32_MAX - (uint32_t)number,
        .extent = (UINT64_C(1) << 48) - 1 - number,
    };
}

static void table_remember(uint64_t number)
{
    struct okv_entry reference = table_reference(number);

    hints_remember(&table, table_key(number), &reference);
}

/* Whether a hint is kept; it is the key's. */
static bool table_find(uint64_t number)
{
    const struct operation *operation = table_key(number);
    struct okv_entry found, reference = table_reference(number);
    bool is_found = hints_find(&table, operation, &found);

    assert_int_equal(hints_has(&table, operation->lookup.hash), is_found);
    if (is_found) {
        assert_true(found.is_reference);
        assert_int_equal(found.key_in_extent, reference.key_in_extent);
        assert_int_equal(found.key_length, reference.key_length);
        assert_int_equal(found.value_length, reference.value_length);
        assert_int_equal(found.extent, reference.extent);
    }
    return is_found;
}

static int table_create(uint32_t count)
{
    memset(&table, 0, sizeof table);
    drawn = 1;
    return hints_create(&table, count);
}

static void table_destroy(void)
{
    free(table.hints);
}

/* Gets of `hot` keys at random, after some that are not counted: how many of 10,000 have hints. */
static unsigned right_of_hot(uint32_t count, uint64_t hot)
{
    unsigned right = 0;

    assert_int_equal(table_create(count), 0);
    for (unsigned i = 0; i < 60000; i++) {
        uint64_t number = random_below(&drawn, hot);
        right += table_find(number) && i >= 50000;
        table_remember(number);
    }
    table_destroy();
    return right;
}

TEST(hot_keys_have_hints)
{
    assert_true(right_of_hot(4096, 1000) >= 9900);
    assert_true(right_of_hot(4096, 2000) >= 9800);
    assert_true(right_of_hot(4096, 3000) >= 9200);
    assert_true(right_of_hot(4096, 4000) >= 8300);
    assert_true(right_of_hot(SET_SIZE, SET_SIZE) == 10000);
}

/* A set as a list: the latest first. */
static uint64_t listed[SET_SIZE];
static unsigned listed_count;

static unsigned list_search(uint64_t number)
{
    unsigned index = 0;

    while (index < listed_count && listed[index] != number)
        index++;
    return index;
}

static void list_remove(unsigned index)
{
    memmove(listed + index, listed + index + 1, (SET_SIZE - 1 - index) * sizeof *listed);
    listed_count--;
}

static void list_remember(uint64_t number)
{
    unsigned index = list_search(number);

    if (index < listed_count)
        list_remove(index);
    else if (listed_count == SET_SIZE)
        listed_count--;
    memmove(listed + 1, listed, listed_count * sizeof *listed);
    listed[0] = number;
    listed_count++;
}

TEST(set_evicts_the_least_recently_used)
{
    assert_int_equal(table_create(1), 0);
    assert_int_equal(table.hint_count, SET_SIZE);
    listed_count = 0;
    for (unsigned i = 0; i < 20000; i++) {
        uint64_t number = random_below(&drawn, 2 * SET_SIZE);
        uint64_t what = random_below(&drawn, 1000);
        if (what == 0) {
            hints_clear(&table);
            listed_count = 0;
        } else if (what < 500) {
            table_remember(number);
            list_remember(number);
        } else {
            hints_forget(&table, table_key(number));
            if (list_search(number) < listed_count)
                list_remove(list_search(number));
        }
        assert_int_equal(table.hints_kept, listed_count);
        for (number = 0; number < 2 * SET_SIZE; number++)
            assert_int_equal(table_find(number), list_search(number) < listed_count);
    }
    table_destroy();
}

/* A hint is found by half of its hash; the length of the key must fit too. */
TEST(hint_needs_the_length_of_the_key)
{
    struct okv_entry found;

    assert_int_equal(table_create(64), 0);
    table_remember(1);
    struct operation shorter = *table_key(1);
    shorter.key_length--;
    assert_false(hints_find(&table, &shorter, &found));
    assert_true(table_find(1));
    table_destroy();
}

TEST(without_a_table_no_hint_is_kept)
{
    memset(&table, 0, sizeof table);
    table_remember(1);
    assert_false(table_find(1));
    hints_forget(&table, table_key(1));
    hints_clear(&table);
    assert_int_equal(table.hints_kept, 0);
}
