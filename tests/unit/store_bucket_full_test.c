/*
 * Keys that were chosen to collide fill their bucket. Other keys of the bucket are refused. The
 * rest of the table does not notice: READs per get stay, nothing is merged, the index grows on.
 */
#include "tests/support/test.h"

#include "shared/base/error.h"
#include "shared/format/hash.h"
#include "shared/format/linear.h"
#include "tests/support/store_region.h"

/* An index of at most 24576 buckets never divides keys whose hashes have 15 bits in common. */
#define REGION (8u << 20)
#define BUCKET 256u
#define COMMON_BITS 15u
#define PLACE 63u /* the bucket of the colliding keys; the last one in the smallest index */
/* A value so long that the reference has the key. Five such references fill a page to the last two
 * bytes, until their ages need another byte. */
#define COLLIDING_KEY 27u
#define COLLIDING_VALUE 1024u
#define HALF 120u /* of the colliding keys that fit a bucket, and more */
#define KEYS_MAX 1024u
#define HONEST 4000u
#define REFUSALS 3000u
/* An age of this takes two bytes. */
#define AGED 256u

static const struct okv_store_params params = {.length = REGION, .bucket_size = BUCKET};

struct attack {
    struct store_region region;
    uint32_t number; /* of the last colliding key */
    unsigned stored; /* of the keys below */
    uint32_t keys[KEYS_MAX];
};

static struct attack attack;

static void open_attack(void **state)
{
    (void)state;
    attack.number = attack.stored = 0;
    store_region_open(&attack.region, &params);
}

static void close_attack(void)
{
    struct store_audit audit;

    store_region_audit(&attack.region, NULL, NULL, &audit);
    store_region_close(&attack.region);
}

static void honest_key(unsigned i, char key[24])
{
    snprintf(key, 24, "honest%010u", i);
}

static int put_honest(unsigned i)
{
    static const uint8_t value[32];
    char key[24];

    honest_key(i, key);
    return store_region_put(&attack.region, key, (uint32_t)strlen(key), value, sizeof value, NULL);
}

static void put_honest_all(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(put_honest(i), 0);
}

static unsigned honest_reads(unsigned count)
{
    struct store_found found;
    unsigned reads = 0;
    char key[24];

    for (unsigned i = 0; i < count; i++) {
        honest_key(i, key);
        assert_int_equal(
            store_reader_find(&attack.region.reader, key, (uint32_t)strlen(key), &found), 0);
        reads += found.reads;
    }
    return reads;
}

static void colliding_key(uint32_t number, uint8_t key[COLLIDING_KEY])
{
    memset(key, 'x', COLLIDING_KEY);
    okv_put_u32(key, number);
}

/* The next number whose key collides with the others of `place`. */
static uint32_t next_colliding(uint64_t place)
{
    uint8_t key[COLLIDING_KEY];
    uint64_t hash;

    do {
        colliding_key(++attack.number, key);
        hash = okv_hash_key(key, sizeof key, attack.region.store.table.hash_seed);
    } while (okv_hash_bucket(hash, COMMON_BITS) != place);
    return attack.number;
}

static int put_colliding(uint32_t number, uint32_t length)
{
    static const uint8_t value[COLLIDING_VALUE];
    uint8_t key[COLLIDING_KEY];

    colliding_key(number, key);
    return store_region_put(&attack.region, key, sizeof key, value, length, NULL);
}

static int delete_colliding(uint32_t number)
{
    uint8_t key[COLLIDING_KEY];

    colliding_key(number, key);
    return store_region_delete(&attack.region, key, sizeof key);
}

/* Puts up to `most` colliding keys, until one is refused. Returns its number. */
static uint32_t collide(uint64_t place, uint32_t length, unsigned most)
{
    for (unsigned i = 0; i < most; i++) {
        uint32_t number = next_colliding(place);
        int rc = put_colliding(number, length);
        if (rc) {
            assert_int_equal(rc, OKV_EBUCKETFULL);
            return number;
        }
        attack.keys[attack.stored++] = number;
    }
    return 0;
}

/* Returns the number of a key that does not fit, whatever its value. */
static uint32_t fill_bucket(void)
{
    assert_true(collide(PLACE, COLLIDING_VALUE, KEYS_MAX) != 0);
    assert_true(attack.stored > HALF);
    return collide(PLACE, 0, KEYS_MAX - attack.stored);
}

static uint64_t buckets(void)
{
    return atomic_load(&attack.region.store.bucket_count);
}

static void expect_no_pause(void)
{
    assert_int_equal(atomic_load(&attack.region.store.growth_pause), 0);
    assert_int_equal(atomic_load(&attack.region.store.shrink_pause), 0);
}

TEST(a_full_bucket_refuses_every_change_that_adds)
{
    struct okv_store *store = &attack.region.store;
    uint8_t key[COLLIDING_KEY];
    struct okv_store_outcome outcome;
    struct okv_store_write write = {.key = key, .key_length = sizeof key, .delta = 1};

    open_attack(state);
    colliding_key(fill_bucket(), key);
    assert_int_equal(okv_store_put(store, &attack.region.work, &write, &outcome), OKV_EBUCKETFULL);
    assert_int_equal(okv_store_append(store, &attack.region.work, &write, &outcome),
                     OKV_EBUCKETFULL);
    assert_int_equal(okv_store_incr(store, &attack.region.work, &write, &outcome), OKV_EBUCKETFULL);
    /* Time to live takes bytes of an entry. */
    write.ttl_ms = 1000;
    int rc = 0;
    for (unsigned i = 0; i < attack.stored && rc == 0; i++) {
        colliding_key(attack.keys[i], key);
        rc = okv_store_touch(store, &attack.region.work, &write, &outcome);
    }
    assert_int_equal(rc, OKV_EBUCKETFULL);
    assert_int_equal(put_honest(0), 0); /* of another bucket */
    close_attack();
}

TEST(a_removal_makes_a_full_bucket_accept)
{
    open_attack(state);
    uint32_t refused = fill_bucket();
    assert_int_equal(put_colliding(refused, 0), OKV_EBUCKETFULL);
    assert_int_equal(delete_colliding(attack.keys[0]), 0);
    assert_int_equal(put_colliding(refused, COLLIDING_VALUE), 0);
    assert_int_equal(put_colliding(next_colliding(PLACE), 0), OKV_EBUCKETFULL);
    close_attack();
}

/* Each change raises the ages of all others, which then need more bytes. */
TEST(what_a_full_bucket_has_can_be_overwritten)
{
    open_attack(state);
    fill_bucket();
    for (unsigned i = 0; i < 2 * AGED; i++)
        assert_int_equal(put_colliding(attack.keys[i % 2], COLLIDING_VALUE), 0);
    close_attack();
}

TEST(others_keep_their_reads)
{
    struct okv_store_totals *totals = &attack.region.store.totals;

    open_attack(state);
    put_honest_all(HONEST);
    unsigned reads = honest_reads(HONEST);
    uint64_t before = buckets();
    uint32_t refused = fill_bucket();
    for (unsigned i = 0; i < REFUSALS; i++)
        assert_int_equal(put_colliding(refused, 0), OKV_EBUCKETFULL);
    print_message("%u honest items: %u READs and %u, %u buckets and %u\n", HONEST, reads,
                  honest_reads(HONEST), (unsigned)before, (unsigned)buckets());
    assert_true(honest_reads(HONEST) <= reads);
    assert_true(buckets() >= before);
    assert_int_equal(atomic_load(&totals->merges), 0);
    expect_no_pause();
    close_attack();
}

/* The split of the full bucket is no obstacle, although its items cannot be divided and their ages
 * have grown. */
TEST(the_index_grows_past_a_full_bucket)
{
    open_attack(state);
    fill_bucket();
    for (unsigned i = 0; i < AGED; i++)
        put_colliding(attack.keys[i % 2], COLLIDING_VALUE);
    for (unsigned i = 0; i < HONEST / 2; i++) {
        int rc = put_honest(i);
        assert_true(rc == 0 || rc == OKV_EBUCKETFULL);
        expect_no_pause();
    }
    assert_true(buckets() > HONEST / 4);
    close_attack();
}

/* No split cures the extra READs of colliding keys. The index does not take all memory for them. */
TEST(growth_for_colliding_keys_is_bounded)
{
    const uint64_t share = 20; /* bytes of the index to a byte of entries */

    open_attack(state);
    put_honest_all(HONEST / 4);
    fill_bucket();
    for (unsigned i = 0; i < 4 * HONEST; i++)
        assert_int_equal(put_honest(i % (HONEST / 4)), 0);
    uint64_t bytes = atomic_load(&attack.region.store.totals.entry_bytes);
    print_message("%u buckets of %u for %u bytes of entries\n", (unsigned)buckets(),
                  (unsigned)attack.region.store.buckets_max, (unsigned)bytes);
    assert_true((buckets() - 1) * BUCKET <= bytes * share);
    assert_true(buckets() < attack.region.store.buckets_max / 2);
    close_attack();
}

/* Two buckets that together are more than full are the next to be merged. */
TEST(a_refused_merge_is_not_tried_at_every_change)
{
    struct okv_store *store = &attack.region.store;
    unsigned honest = 0;
    char key[24];

    open_attack(state);
    while (buckets() <= 1024)
        assert_int_equal(put_honest(honest++), 0);
    store->extra_reads = 1000; /* the colliding keys are no reason for growth, nor against merges */
    collide(511, COLLIDING_VALUE, HALF);
    collide(1023, COLLIDING_VALUE, HALF);
    while (honest > 300) {
        honest_key(--honest, key);
        assert_int_equal(store_region_delete(&attack.region, key, (uint32_t)strlen(key)), 0);
    }
    assert_int_equal(buckets(), 1024);
    /* Each change counts the pause down; a change that tries again sets it anew. */
    unsigned tried = 0;
    for (unsigned i = 0; i < REFUSALS; i++) {
        int before = atomic_load(&store->shrink_pause);
        assert_int_equal(put_honest(i % honest), 0);
        tried += atomic_load(&store->shrink_pause) >= before;
    }
    assert_in_range(tried, 1, REFUSALS / 500);
    assert_int_equal(buckets(), 1024);
    for (unsigned i = 0; i < HALF; i++)
        assert_int_equal(delete_colliding(attack.keys[attack.stored - 1 - i]), 0);
    for (unsigned i = 0; i < REFUSALS; i++)
        assert_int_equal(put_honest(i % honest), 0);
    assert_true(buckets() < 1024);
    close_attack();
}
