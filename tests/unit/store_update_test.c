/* Updates in place (server/store/update_in_place.c): which changes they serve, and that a new
 * layout of the bucket would give the same image. */
#include "tests/support/test.h"

#include "server/store/bucket_image.h"
#include "server/store/bucket_layout.h"
#include "server/store/update_in_place.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"
#include "tests/support/store_region.h"

#define BUCKET 512u
#define VALUE_MAX (64u << 10)

static const struct okv_store_params roomy = {.length = 16u << 20, .bucket_size = BUCKET};
static uint8_t bytes[VALUE_MAX];

static int put(struct store_region *region, const char *key, uint32_t length, uint64_t ttl_ms)
{
    const struct okv_store_write write = {
        .key = key,
        .key_length = (uint32_t)strlen(key),
        .value = bytes,
        .value_length = length,
        .ttl_ms = ttl_ms,
    };
    struct okv_store_outcome outcome;

    return okv_store_put(&region->store, &region->work, &write, &outcome);
}

/* Whether the last change, of this key, was made in place: its image is the published one, and the
 * rest of the bucket is zeros. */
static bool was_updated_in_place(const struct store_region *region, const char *key)
{
    const struct okv_store_update *update = &region->work.update;
    const struct okv_table *table = &region->store.table;
    const uint8_t *published =
        table->base + okv_table_bucket_offset(table, store_region_bucket(region, key));
    size_t built = BUCKET - okv_bucket_room(BUCKET) + okv_bucket_used(published);

    for (size_t i = built; i < BUCKET; i++)
        assert_int_equal(published[i], 0);
    return memcmp(update->image, published, built) == 0;
}

static uint64_t changes(struct store_region *region)
{
    return atomic_load(&region->store.totals.changes);
}

/* The next key of bucket 0, while there are few buckets. */
static void next_key(const struct store_region *region, unsigned *number, char key[24])
{
    store_region_key(region, 6, number, key);
    ++*number;
}

TEST(common_changes_update_in_place)
{
    struct store_region region;
    struct okv_store_outcome outcome;
    const struct okv_store_write counter = {.key = "n", .key_length = 1, .delta = 5};
    const struct okv_store_write longer = {
        .key = "a", .key_length = 1, .value = "tail", .value_length = 4};
    const struct okv_store_write touched = {.key = "a", .key_length = 1, .ttl_ms = 1000};

    store_region_open(&region, &roomy);
    assert_int_equal(put(&region, "a", 30, 0), 0);
    assert_true(was_updated_in_place(&region, "a"));
    assert_int_equal(put(&region, "a", 40, 0), 0);
    assert_true(was_updated_in_place(&region, "a"));
    assert_int_equal(put(&region, "a", 4000, 0), 0); /* from inline to an extent, and back */
    assert_true(was_updated_in_place(&region, "a"));
    assert_int_equal(put(&region, "a", 5000, 0), 0);
    assert_true(was_updated_in_place(&region, "a"));
    assert_int_equal(put(&region, "a", 0, 0), 0);
    assert_true(was_updated_in_place(&region, "a"));
    assert_int_equal(okv_store_incr(&region.store, &region.work, &counter, &outcome), 0);
    assert_int_equal(outcome.number, 5);
    assert_true(was_updated_in_place(&region, "n"));
    assert_int_equal(okv_store_append(&region.store, &region.work, &longer, &outcome), 0);
    assert_true(was_updated_in_place(&region, "a"));
    assert_int_equal(okv_store_touch(&region.store, &region.work, &touched, &outcome), 0);
    assert_true(was_updated_in_place(&region, "a"));
    assert_int_equal(store_region_delete(&region, "a", 1), 0);
    assert_true(was_updated_in_place(&region, "a"));
    assert_int_equal(store_region_delete(&region, "n", 1), 0);
    assert_true(was_updated_in_place(&region, "n"));
    store_region_expect_empty(&region, true);
    store_region_close(&region);
}

/* An overwrite by a value of the same length changes no total. */
TEST(an_overwrite_changes_no_total)
{
    struct store_region region;
    struct okv_store_outcome outcome;
    struct okv_store_write write = {.key = "a", .key_length = 1, .value = "old", .value_length = 3};
    char value[8];
    uint32_t length;
    uint64_t version;

    store_region_open(&region, &roomy);
    assert_int_equal(okv_store_put(&region.store, &region.work, &write, &outcome), 0);
    assert_int_equal(changes(&region), 1);
    write.value = "new";
    for (uint64_t i = 2; i < 1000; i++) {
        assert_int_equal(okv_store_put(&region.store, &region.work, &write, &outcome), 0);
        assert_true(was_updated_in_place(&region, "a"));
        assert_int_equal(outcome.version, i);
    }
    assert_int_equal(changes(&region), 999);
    assert_int_equal(atomic_load(&region.store.totals.items), 1);
    assert_int_equal(atomic_load(&region.store.totals.user_bytes), 4);
    assert_int_equal(
        okv_store_get(&region.store, NULL, "a", 1, value, sizeof value, &length, &version), 0);
    assert_int_equal(length, 3);
    assert_memory_equal(value, "new", 3);
    assert_int_equal(version, 999);

    write.if_absent = true;
    assert_int_equal(okv_store_put(&region.store, &region.work, &write, &outcome), OKV_EEXISTS);
    assert_int_equal(outcome.version, 999);
    write.if_absent = false;
    write.if_version = true;
    write.version = 998;
    assert_int_equal(okv_store_put(&region.store, &region.work, &write, &outcome), OKV_ECONFLICT);
    write.version = 999;
    assert_int_equal(okv_store_put(&region.store, &region.work, &write, &outcome), 0);
    write.if_version = false;
    write.ttl_ms = 50;
    assert_int_equal(okv_store_put(&region.store, &region.work, &write, &outcome), 0);
    assert_int_equal(atomic_load(&region.store.totals.expiring), 1);
    write.ttl_ms = 0; /* without expiry */
    assert_int_equal(okv_store_put(&region.store, &region.work, &write, &outcome), 0);
    assert_int_equal(atomic_load(&region.store.totals.expiring), 0);
    assert_int_equal(changes(&region), 1002);
    store_region_close(&region);
}

/* Growth that other changes left unfinished continues with overwrites. */
TEST(overwrites_continue_growth)
{
    const struct okv_store_params fixed = {
        .length = 16u << 20, .bucket_size = BUCKET, .extra_reads = 1000};
    struct store_region region;
    char key[24];

    store_region_open(&region, &fixed);
    for (unsigned i = 0; i < 2000; i++) {
        snprintf(key, sizeof key, "%u", i);
        assert_int_equal(put(&region, key, 40, 0), 0);
    }
    uint64_t before = atomic_load(&region.store.bucket_count);
    region.store.extra_reads = 5;
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(put(&region, key, 40, 0), 0);
    assert_true(atomic_load(&region.store.bucket_count) > before);
    store_region_close(&region);
}

TEST(the_next_change_removes_expired_items)
{
    struct store_region region;
    unsigned number = 0;
    char first[24], second[24];

    store_region_open(&region, &roomy);
    next_key(&region, &number, first);
    next_key(&region, &number, second);
    for (uint32_t longer = 0; longer <= 1; longer++) { /* also with an overwrite */
        uint64_t clock_ms = atomic_load(&region.store.clock_ms);
        assert_int_equal(put(&region, first, 10, 100), 0);
        assert_int_equal(put(&region, second, 10, 0), 0);
        assert_true(was_updated_in_place(&region, second));
        uint64_t changed = changes(&region);
        okv_store_set_clock(&region.store, clock_ms + 100, false);
        assert_int_equal(put(&region, second, 10, 0), 0);
        assert_true(was_updated_in_place(&region, second));
        assert_int_equal(changes(&region), changed + 1);
        okv_store_set_clock(&region.store, clock_ms + 101, false);
        assert_int_equal(put(&region, second, 10 + longer, 0), 0);
        assert_int_equal(changes(&region), changed + 2);
        assert_false(was_updated_in_place(&region, second));
        assert_int_equal(atomic_load(&region.store.totals.expired), longer + 1);
        assert_int_equal(atomic_load(&region.store.totals.items), 1);
        assert_int_equal(put(&region, second, 10, 0), 0);
        assert_true(was_updated_in_place(&region, second));
    }
    store_region_close(&region);
}

/* A small item that a full bucket moved to an extent returns when there is room. */
TEST(items_return_inline_when_there_is_room)
{
    /* an index that cannot grow */
    const struct okv_store_params fixed = {
        .length = 16u << 20, .bucket_size = BUCKET, .extra_reads = 1000};
    struct store_region region;
    unsigned number = 0, count = 0;
    char keys[16][24];

    store_region_open(&region, &fixed);
    do {
        next_key(&region, &number, keys[count]);
        assert_int_equal(put(&region, keys[count++], 100, 0), 0);
    } while (atomic_load(&region.store.totals.references) == 0);
    assert_false(was_updated_in_place(&region, keys[count - 1]));
    assert_int_equal(put(&region, keys[1], 100, 0), 0); /* as full as before */
    assert_int_equal(atomic_load(&region.store.totals.references), 1);
    while (atomic_load(&region.store.totals.references) > 0) {
        count--;
        assert_int_equal(store_region_delete(&region, keys[count], (uint32_t)strlen(keys[count])),
                         0);
    }
    assert_int_equal(put(&region, keys[0], 100, 0), 0);
    assert_true(was_updated_in_place(&region, keys[0]));
    store_region_close(&region);
}

/* Lays a bucket out again in private memory, and compares with the published image. */
static void expect_settled(struct store_region *region, uint64_t number)
{
    struct okv_store_bucket *bucket = &region->work.bucket;
    const struct okv_table *table = &region->store.table;

    assert_int_equal(okv_store_bucket_load(bucket, table, number), 0);
    bucket->next_version = bucket->version;
    assert_int_equal(okv_store_bucket_prepare(bucket, table), 0);
    assert_memory_equal(&bucket->changed, &bucket->published, sizeof bucket->changed);
    assert_int_equal(bucket->pages, bucket->published_pages);
    assert_memory_equal(bucket->images, table->base + okv_table_bucket_offset(table, number),
                        bucket->pages == 1 ? BUCKET : 0);
}

TEST(a_new_layout_changes_nothing)
{
    static const uint32_t lengths[] = {0, 5, 30, 100, 140, 200, 1000, 5000};
    struct store_region region;
    struct store_random random;
    struct store_audit audit;
    unsigned in_place = 0, steps = 40000 / STORE_TEST_SLOWNESS;

    store_random_init(&random);
    store_region_open(&region, &roomy);
    for (unsigned step = 0; step < steps; step++) {
        char key[24];
        snprintf(key, sizeof key, "key%u", store_random_below(&random, 2000));
        if (store_random_below(&random, 4) == 0)
            store_region_delete(&region, key, (uint32_t)strlen(key));
        else
            assert_int_equal(put(&region, key, lengths[store_random_below(&random, 8)],
                                 store_random_below(&random, 2) ? 1000000 : 0),
                             0);
        if (!was_updated_in_place(&region, key))
            continue;
        in_place++;
        expect_settled(&region, store_region_bucket(&region, key));
    }
    print_message("%u of %u changes were made in place\n", in_place, steps);
    assert_true(in_place > steps / 4);
    store_region_audit(&region, NULL, NULL, &audit);
    store_region_close(&region);
}

/* Two keys of one length in bucket 0 whose hashes have the same tag. */
static void keys_of_one_tag(const struct store_region *region, char first[24], char second[24])
{
    static unsigned number_of[UINT16_MAX + 1]; /* of the key with this tag, or 0 */
    unsigned number = 1000000;
    uint16_t tag;

    memset(number_of, 0, sizeof number_of);
    for (;;) {
        store_region_key(region, 6, &number, second);
        tag = okv_hash_tag(okv_hash_key(second, strlen(second), region->store.table.hash_seed));
        if (number_of[tag] > 0)
            break;
        number_of[tag] = number - 1;
    }
    snprintf(first, 24, "k%u", number_of[tag]);
}

/* A reference without its key has a tag only, which is another key's too. */
TEST(an_item_of_the_same_tag_is_left_alone)
{
    struct store_region region;
    struct store_audit audit;
    struct okv_store_outcome outcome;
    char first[24], second[24];
    uint64_t version, other;

    store_region_open(&region, &roomy);
    keys_of_one_tag(&region, first, second);
    uint32_t length = (uint32_t)strlen(first);
    assert_int_equal(strlen(second), length);
    assert_string_not_equal(first, second);
    assert_true(okv_store_key_goes_to_extent(&region.store.table, length, 4000));
    assert_int_equal(store_region_put(&region, first, length, bytes, 4000, &version), 0);
    const struct okv_store_write touched = {
        .key = second, .key_length = length, .ttl_ms = 1000, .value = "x", .value_length = 1};
    assert_int_equal(store_region_delete(&region, second, length), OKV_ENOTFOUND);
    assert_int_equal(okv_store_touch(&region.store, &region.work, &touched, &outcome),
                     OKV_ENOTFOUND);
    store_region_expect(&region, first, length, bytes, 4000, version);
    assert_int_equal(store_region_put(&region, second, length, bytes + 1, 5000, &other), 0);
    store_region_expect(&region, first, length, bytes, 4000, version);
    store_region_expect(&region, second, length, bytes + 1, 5000, other);
    assert_int_equal(store_region_put(&region, first, length, bytes + 2, 6000, &version), 0);
    store_region_expect(&region, second, length, bytes + 1, 5000, other);
    assert_int_equal(store_region_delete(&region, second, length), 0);
    store_region_expect(&region, first, length, bytes + 2, 6000, version);
    store_region_audit(&region, NULL, NULL, &audit);
    store_region_close(&region);
}
