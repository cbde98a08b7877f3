/*
 * The short way of an overwrite: what it does to an image is what okv_bucket_raise(),
 * okv_bucket_replace() and okv_bucket_seal() do, and it does so exactly when its contract says so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shared/base/error.h"
#include "shared/format/bucket.h"
#include "shared/format/hash.h"
#include "tests/support/random.h"

#define SIZE 2048
#define BOOT 0x5eedf00dcafe0001ull
#define BUCKET 77
#define SEED 42
#define INLINE_MAX 400
#define VERSION (UINT64_C(1) << 40)
#define KEY_SIZE_MAX 300
#define ENTRIES_MAX 12
#define ROUNDS 200000

static uint8_t letters[KEY_SIZE_MAX + 1];

static int fill_letters(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof letters; i++)
        letters[i] = (uint8_t)('a' + i % 26);
    return 0;
}

static uint64_t print_seed(void)
{
    uint64_t seed = random_seed();

    print_message("OKV_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static uint64_t hash_of(const void *key, uint32_t length)
{
    return okv_hash_key(key, length, SEED);
}

/* An image, and what is in it. */
struct table {
    struct okv_entry entries[ENTRIES_MAX];
    uint8_t keys[ENTRIES_MAX][KEY_SIZE_MAX];
    unsigned count;
    uint8_t image[SIZE];
};

static void table_begin(struct table *table)
{
    table->count = 0;
    okv_bucket_begin(table->image, 3, VERSION, 0, 0);
}

/* An item whose key begins with its number; false when it does not fit. */
static bool table_add(struct table *table, uint32_t key_length, uint32_t value_length, uint64_t age)
{
    uint8_t *key = table->keys[table->count];
    struct okv_entry *entry = &table->entries[table->count];

    memcpy(key, letters, KEY_SIZE_MAX);
    key[0] = (uint8_t)table->count;
    *entry = (struct okv_entry){
        .tag = okv_hash_tag(hash_of(key, key_length)),
        .key = key,
        .key_length = key_length,
        .value = letters,
        .value_length = value_length,
        .version = VERSION - age,
    };
    if (okv_bucket_append(table->image, SIZE, entry) != OKV_OK)
        return false;
    table->count++;
    return true;
}

static int overwrite(uint8_t *image, const struct table *table, const struct okv_overwrite *put)
{
    memset(image, 0xdd, SIZE);
    return okv_bucket_overwrite(image, table->image, SIZE, BOOT, BUCKET, put);
}

/* What comes of a value of a length for an item of the table: 1, 0 or OKV_EAGAIN. */
static int outcome_of(const struct table *table, unsigned item, uint32_t value_length)
{
    static uint8_t image[SIZE];
    const struct okv_entry *entry = &table->entries[item];
    const struct okv_overwrite put = {entry->key, letters + 1, entry->key_length, value_length};
    int rc = overwrite(image, table, &put);

    if (rc <= 0)
        return rc;
    assert_int_equal(rc, okv_bucket_extent(table->image));
    return 1;
}

/* ---- beside the long way ------------------------------------------------- */

static uint64_t random_age(uint64_t *random)
{
    static const uint64_t ages[] = {0, 1, 100, 254, 255, 256, 65534, 65535, 65536, 70000};

    return random_below(random, 3) ? random_below(random, 250)
                                   : ages[random_below(random, sizeof ages / sizeof *ages)];
}

/* Nearly all are small items, so that many images have no others. */
static bool add_random(struct table *table, uint64_t *random)
{
    bool is_usual = random_below(random, 12) > 0;
    uint32_t key_length = 1 + (uint32_t)random_below(random, is_usual ? 24 : KEY_SIZE_MAX);
    uint32_t value_length = (uint32_t)random_below(random, is_usual ? 48 : KEY_SIZE_MAX);
    uint64_t age = is_usual ? random_below(random, 255) : random_age(random);
    uint32_t used = okv_bucket_used(table->image);

    if (!table_add(table, key_length, value_length, age))
        return false;
    if (is_usual || random_below(random, 2))
        return true;
    /* Once more, as something else. */
    struct okv_entry *entry = &table->entries[table->count - 1];
    ((struct okv_wire_bucket *)table->image)->used = okv_le16_of((uint16_t)used);
    entry->expiry_ms = random_below(random, 2) ? 5000 : 0;
    entry->is_reference = random_below(random, 2);
    entry->key_in_extent = entry->is_reference && random_below(random, 2);
    if (entry->is_reference && random_below(random, 2))
        entry->value_length = 1000;
    if (okv_bucket_append(table->image, SIZE, entry) == OKV_OK)
        return true;
    table->count--;
    return false;
}

static void table_random(struct table *table, uint64_t *random)
{
    uint64_t most = 1 + random_below(random, ENTRIES_MAX);

    table_begin(table);
    while (table->count < most && add_random(table, random))
        ;
    okv_bucket_seal(table->image, SIZE, BOOT, BUCKET);
    uint32_t end = okv_bucket_extent(table->image);
    memset(table->image + end, 0xbb, SIZE - end); /* of others, so to say */
}

static bool is_small(const struct okv_entry *entry)
{
    return !entry->is_reference && !entry->expiry_ms && entry->key_length <= UINT8_MAX &&
           entry->value_length <= UINT8_MAX && VERSION - entry->version < UINT8_MAX;
}

/* What the contract says. */
static int wanted_outcome(const struct table *table, unsigned item, const struct okv_overwrite *put)
{
    if (put->key_length > UINT8_MAX || put->value_length > UINT8_MAX)
        return 0;
    for (unsigned i = 0; i < table->count; i++)
        if (!is_small(&table->entries[i]))
            return OKV_EAGAIN;
    if (table->entries[item].value_length != put->value_length)
        return 0;
    return (int)okv_bucket_extent(table->image);
}

static void expect_as_the_long_way(const uint8_t *image, const struct table *table,
                                   const struct okv_overwrite *put)
{
    static uint8_t other[SIZE];
    struct okv_bucket_spot spot;
    const struct okv_entry entry = {
        .key = put->key,
        .key_length = put->key_length,
        .value = put->value,
        .value_length = put->value_length,
        .version = VERSION + 1,
    };

    assert_true(okv_bucket_raise(other, table->image, SIZE, INLINE_MAX,
                                 hash_of(put->key, put->key_length), put->key, put->key_length,
                                 &spot));
    assert_int_equal(okv_bucket_replace(other, SIZE, &spot, &entry), 0);
    okv_bucket_seal(other, SIZE, BOOT, BUCKET);
    uint32_t end = okv_bucket_extent(other);
    assert_memory_equal(image, other, end);
    for (; end % OKV_BUCKET_LINE; end++) /* what came with its line, */
        assert_int_equal(image[end], 0xbb);
    for (; end < SIZE; end++) /* and what is not touched */
        assert_int_equal(image[end], 0xdd);
}

static void it_does_what_the_long_way_does(void **state)
{
    static struct table table;
    static uint8_t image[SIZE];
    uint64_t random = print_seed();
    unsigned taken = 0, absent = 0, refused = 0;

    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        table_random(&table, &random);
        if (table.count == 0)
            continue;
        unsigned item = (unsigned)random_below(&random, table.count);
        const struct okv_entry *entry = &table.entries[item];
        bool as_long = random_below(&random, 4);
        const struct okv_overwrite put = {
            .key = entry->key,
            .key_length = entry->key_length,
            .value = letters + 1,
            .value_length = as_long && !entry->is_reference
                                ? entry->value_length
                                : (uint32_t)random_below(&random, KEY_SIZE_MAX),
        };
        int rc = overwrite(image, &table, &put);
        assert_int_equal(rc, wanted_outcome(&table, item, &put));
        if (rc > 0)
            expect_as_the_long_way(image, &table, &put);
        taken += rc > 0;
        absent += rc == 0;
        refused += rc == OKV_EAGAIN;
    }
    assert_true(taken > ROUNDS / 10 && absent > ROUNDS / 20 && refused > ROUNDS / 10);
}

/* ---- its limits ---------------------------------------------------------- */

static void lengths_of_a_byte_are_taken_and_no_others(void **state)
{
    struct table table;

    (void)state;
    for (uint32_t length = 1; length <= UINT8_MAX; length++) {
        table_begin(&table);
        assert_true(table_add(&table, 16, 32, 7));
        assert_true(table_add(&table, length, 32, 0));
        assert_true(table_add(&table, 16, length, 254));
        assert_int_equal(outcome_of(&table, 0, 32), 1);
        assert_int_equal(outcome_of(&table, 1, 32), 1);
        assert_int_equal(outcome_of(&table, 2, length), 1);
        assert_int_equal(outcome_of(&table, 2, length - 1), 0);
    }
    table_begin(&table);
    assert_true(table_add(&table, 16, 0, 0));
    assert_int_equal(outcome_of(&table, 0, 0), 1);
    assert_int_equal(outcome_of(&table, 0, 1), 0);
    assert_int_equal(outcome_of(&table, 0, UINT8_MAX + 1), 0);
    assert_true(table_add(&table, UINT8_MAX + 1, 32, 0));
    assert_int_equal(outcome_of(&table, 0, 0), OKV_EAGAIN);
    assert_int_equal(outcome_of(&table, 1, 32), 0);
    table_begin(&table);
    assert_true(table_add(&table, 16, UINT8_MAX + 1, 0));
    assert_int_equal(outcome_of(&table, 0, UINT8_MAX + 1), 0);
    assert_int_equal(outcome_of(&table, 0, 32), OKV_EAGAIN);
}

static void ages_that_take_a_further_byte_are_refused(void **state)
{
    struct table table;

    (void)state;
    for (uint64_t age = 250; age < 260; age++) {
        table_begin(&table);
        assert_true(table_add(&table, 16, 32, 0));
        assert_true(table_add(&table, 16, 32, age));
        assert_int_equal(outcome_of(&table, 0, 32), age < UINT8_MAX ? 1 : OKV_EAGAIN);
        assert_int_equal(outcome_of(&table, 1, 32), age < UINT8_MAX ? 1 : OKV_EAGAIN);
    }
}

static void keys_that_are_not_there_are_refused(void **state)
{
    struct table table;
    uint8_t image[SIZE];
    uint8_t key[16];
    struct okv_overwrite put = {.key = key, .key_length = 16, .value = letters, .value_length = 32};

    (void)state;
    memcpy(key, letters, 16);
    table_begin(&table);
    assert_int_equal(overwrite(image, &table, &put), 0);
    assert_true(table_add(&table, 16, 32, 0));
    for (unsigned i = 0; i <= 16; i++) { /* each byte counts */
        memcpy(key, table.keys[0], 16);
        if (i < 16)
            key[i] ^= 1;
        assert_int_equal(overwrite(image, &table, &put) > 0, i == 16);
    }
    put.key_length = 15;
    assert_int_equal(overwrite(image, &table, &put), 0);
    put.key_length = 0;
    assert_int_equal(overwrite(image, &table, &put), 0);
}

static void doubtful_images_are_refused(void **state)
{
    struct table table;
    struct okv_wire_bucket *header = (struct okv_wire_bucket *)table.image;

    (void)state;
    table_begin(&table);
    assert_true(table_add(&table, 16, 32, 0));
    assert_int_equal(outcome_of(&table, 0, 32), 1);
    uint32_t used = okv_bucket_used(table.image);
    for (uint32_t more = 1; more < OKV_ENTRY_SIZE_MIN; more++) {
        header->used = okv_le16_of((uint16_t)(used + more)); /* too few bytes for another one */
        assert_int_equal(outcome_of(&table, 0, 32), OKV_EAGAIN);
        header->used = okv_le16_of((uint16_t)(used - more)); /* or for this one */
        assert_int_equal(outcome_of(&table, 0, 32), OKV_EAGAIN);
    }
    header->used = okv_le16_of((uint16_t)(okv_bucket_room(SIZE) + 1));
    assert_int_equal(outcome_of(&table, 0, 32), OKV_EAGAIN);
    header->used = okv_le16_of((uint16_t)used);
    table.count = 0; /* the same key once more */
    assert_true(table_add(&table, 16, 32, 0));
    assert_int_equal(outcome_of(&table, 0, 32), OKV_EAGAIN);
    table_begin(&table);
    assert_true(table_add(&table, 16, 32, 0));
    assert_true(table_add(&table, 16, 32, 0));
    assert_int_equal(outcome_of(&table, 0, 32), 1);
    table.image[sizeof *header + 4 + 48 + 1] = 0; /* an item without a key */
    assert_int_equal(outcome_of(&table, 0, 32), OKV_EAGAIN);
}

/* Images that a sanitizer knows the end of, with lengths that may lead out of them. What is taken
 * is what okv_bucket_raise() takes. */
static void no_bytes_lead_out_of_an_image(void **state)
{
    enum { IMAGE = 256 };
    uint8_t *image = malloc(IMAGE), *other = malloc(IMAGE), *from = malloc(IMAGE);
    uint64_t random = print_seed();
    const struct okv_overwrite put = {
        .key = letters, .key_length = 1, .value = letters, .value_length = 0};
    uint64_t hash = hash_of(letters, 1);
    unsigned taken = 0;

    (void)state;
    assert_true(image && other && from);
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct okv_wire_bucket *header = (struct okv_wire_bucket *)from;
        struct okv_bucket_spot spot;
        for (uint32_t at = 0; at < IMAGE; at++)
            from[at] = (uint8_t)(random_below(&random, 4) ? random_below(&random, 3)
                                                          : random_next(&random));
        if (random_below(&random, 2)) {
            memcpy(from + sizeof *header, "\0\1\0\0a", OKV_ENTRY_SIZE_MIN);
            header->used =
                okv_le16_of((uint16_t)(OKV_ENTRY_SIZE_MIN * (1 + random_below(&random, 3))));
        }
        int rc = okv_bucket_overwrite(image, from, IMAGE, BOOT, BUCKET, &put);
        if (rc <= 0)
            continue;
        assert_int_equal(rc, okv_bucket_extent(from));
        assert_true(
            okv_bucket_raise(other, from, IMAGE, INLINE_MAX, hash, put.key, put.key_length, &spot));
        assert_true(okv_bucket_replace_value(other, &spot, put.value, put.value_length));
        assert_memory_equal(image + sizeof header->checksum, other + sizeof header->checksum,
                            (size_t)rc - sizeof header->checksum);
        taken++;
    }
    assert_true(taken > 100);
    free(from);
    free(other);
    free(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_does_what_the_long_way_does),
        cmocka_unit_test(lengths_of_a_byte_are_taken_and_no_others),
        cmocka_unit_test(ages_that_take_a_further_byte_are_refused),
        cmocka_unit_test(keys_that_are_not_there_are_refused),
        cmocka_unit_test(doubtful_images_are_refused),
        cmocka_unit_test(no_bytes_lead_out_of_an_image),
    };

    return cmocka_run_group_tests(tests, fill_letters, NULL);
}
