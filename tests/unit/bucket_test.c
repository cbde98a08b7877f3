/* Bucket images and extents: what is found, and what is never believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shared/bucket.h"
#include "shared/error.h"
#include "shared/hash.h"

#define SIZE 512
#define BOOT 0x5eedf00dcafe0001ull
#define BUCKET 77
#define SEED 42

static struct okv_entry entry_of(const char *key, const char *value, uint64_t version)
{
    uint32_t key_length = (uint32_t)strlen(key);

    return (struct okv_entry){
        .tag = okv_hash_tag(okv_hash_key(key, key_length, SEED)),
        .key_length = key_length,
        .value_length = (uint32_t)strlen(value),
        .version = version,
        .key = (const uint8_t *)key,
        .value = (const uint8_t *)value,
    };
}

static void build_example(uint8_t *image)
{
    struct okv_entry first = entry_of("alpha", "one", 1);
    struct okv_entry second = entry_of("beta", "", 2);

    okv_bucket_begin(image, 3, 9, 0, 0);
    assert_int_equal(okv_bucket_append(image, SIZE, &first), 0);
    assert_int_equal(okv_bucket_append(image, SIZE, &second), 0);
    okv_bucket_seal(image, SIZE, BOOT, BUCKET);
}

static int find(const uint8_t *image, const char *key, struct okv_entry *out)
{
    uint32_t position = 0;
    uint32_t length = (uint32_t)strlen(key);

    return okv_bucket_find(image, okv_hash_key(key, length, SEED), key, length, &position, out);
}

static void finds_what_is_there(void **state)
{
    uint8_t image[SIZE];
    struct okv_entry entry;

    (void)state;
    build_example(image);
    assert_int_equal(okv_bucket_check(image, SIZE, BOOT, BUCKET, 0), 0);
    assert_int_equal(find(image, "alpha", &entry), 1);
    assert_int_equal(entry.value_length, 3);
    assert_memory_equal(entry.value, "one", 3);
    assert_int_equal(entry.version, 1);
    assert_int_equal(find(image, "beta", &entry), 1);
    assert_int_equal(entry.value_length, 0);
    assert_int_equal(find(image, "gamma", &entry), 0);
    assert_int_equal(okv_bucket_depth(image), 3);
    assert_int_equal(okv_bucket_version(image), 9);
}

static void every_flipped_bit_is_seen(void **state)
{
    uint8_t image[SIZE];

    (void)state;
    build_example(image);
    uint32_t covered = (uint32_t)sizeof(struct okv_wire_bucket) + okv_bucket_used(image);
    for (uint32_t bit = 0; bit < covered * 8; bit++) {
        image[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(okv_bucket_check(image, SIZE, BOOT, BUCKET, 0), OKV_ECORRUPT);
        image[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(okv_bucket_check(image, SIZE, BOOT, BUCKET, 0), 0);
}

static void another_place_or_boot_does_not_pass(void **state)
{
    uint8_t image[SIZE];

    (void)state;
    build_example(image);
    assert_int_equal(okv_bucket_check(image, SIZE, BOOT + 1, BUCKET, 0), OKV_ECORRUPT);
    assert_int_equal(okv_bucket_check(image, SIZE, BOOT, BUCKET + 1, 0), OKV_ECORRUPT);
    assert_int_equal(okv_bucket_check(image, SIZE, BOOT, BUCKET, 1), OKV_ECORRUPT);
}

/* Every mixture of two versions at a cache-line boundary must be refused. */
static void torn_images_are_refused(void **state)
{
    uint8_t before[SIZE], after[SIZE], torn[SIZE];
    char value[2][400];

    (void)state;
    for (int i = 0; i < 2; i++) {
        memset(value[i], 'a' + i, sizeof value[i] - 1);
        value[i][sizeof value[i] - 1] = '\0';
        struct okv_entry entry = entry_of("key", value[i], 1);
        uint8_t *image = i ? after : before;
        okv_bucket_begin(image, 0, 1, 0, 0); /* the same version: only the checksum can tell */
        assert_int_equal(okv_bucket_append(image, SIZE, &entry), 0);
        okv_bucket_seal(image, SIZE, BOOT, BUCKET);
    }
    for (unsigned lines = 1; lines < 127; lines++) {
        for (unsigned line = 0; line < 7; line++)
            memcpy(torn + line * 64, (lines >> line & 1 ? after : before) + line * 64, 64);
        memcpy(torn + 448, before + 448, 64);
        assert_int_equal(okv_bucket_check(torn, SIZE, BOOT, BUCKET, 0), OKV_ECORRUPT);
    }
}

static void hostile_lengths_are_refused(void **state)
{
    uint8_t image[SIZE];
    struct okv_entry entry;
    uint32_t position;

    (void)state;
    build_example(image);
    struct okv_wire_bucket *header = (struct okv_wire_bucket *)image;
    struct okv_wire_entry *first = (struct okv_wire_entry *)(header + 1);
    uint16_t used = okv_le16_get(header->used);

    /* Key of 0, 1025 and 2047 bytes, reserved flags, a reference with an inline value. */
    const uint16_t keys[] = {0, 0x0401, 0x07ff, 0x1005, 0x8005, 0x0805};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        first->key_and_flags = okv_le16_of(keys[i]);
        okv_bucket_seal(image, SIZE, BOOT, BUCKET);
        assert_int_equal(okv_bucket_check(image, SIZE, BOOT, BUCKET, 0), 0);
        position = 0;
        assert_int_equal(okv_bucket_next(image, &position, &entry), OKV_ECORRUPT);
    }
    build_example(image);
    first->value_length = okv_le16_of(0xffff);
    position = 0;
    assert_int_equal(okv_bucket_next(image, &position, &entry), OKV_ECORRUPT);

    build_example(image);
    header->used = okv_le16_of((uint16_t)(used - 1));
    position = 0;
    assert_int_equal(okv_bucket_next(image, &position, &entry), 1);
    assert_int_equal(okv_bucket_next(image, &position, &entry), OKV_ECORRUPT);

    header->used = okv_le16_of(SIZE);
    assert_int_equal(okv_bucket_check(image, SIZE, BOOT, BUCKET, 0), OKV_ECORRUPT);
    header->used = okv_le16_of(0xffff);
    assert_int_equal(okv_bucket_check(image, SIZE, BOOT, BUCKET, 0), OKV_ECORRUPT);
}

/* Any bytes at all, with their checksum made right, must neither crash a reader
 * nor lead it out of the image. Runs under the sanitizers. */
static void random_entries_stay_inside(void **state)
{
    uint8_t *image = malloc(SIZE);
    uint64_t random = 0x9e3779b97f4a7c15;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        for (size_t i = 0; i < SIZE; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            image[i] = (uint8_t)(random >> 56);
        }
        struct okv_wire_bucket *header = (struct okv_wire_bucket *)image;
        header->used = okv_le16_of((uint16_t)(random % (okv_bucket_room(SIZE) + 1)));
        header->depth = 1;
        header->part = 0;
        if (round % 2) /* let more of them pass the first entry */
            image[27] &= 0x09;
        okv_bucket_seal(image, SIZE, BOOT, BUCKET);
        assert_int_equal(okv_bucket_check(image, SIZE, BOOT, BUCKET, 0), 0);
        struct okv_entry entry;
        uint32_t position = 0;
        while (okv_bucket_next(image, &position, &entry) == 1) {
            if (!entry.is_reference)
                assert_true(entry.value + entry.value_length <= image + SIZE);
        }
        find(image, "alpha", &entry);
    }
    free(image);
}

static void full_image_takes_no_more(void **state)
{
    uint8_t image[SIZE];
    struct okv_entry entry = entry_of("k", "0123456789", 1);
    uint32_t fit = okv_bucket_room(SIZE) / okv_entry_size(&entry);

    (void)state;
    okv_bucket_begin(image, 0, 1, 0, 0);
    for (uint32_t i = 0; i < fit; i++)
        assert_int_equal(okv_bucket_append(image, SIZE, &entry), 0);
    assert_int_equal(okv_bucket_append(image, SIZE, &entry), OKV_EFULL);
}

static void extents_prove_themselves(void **state)
{
    uint8_t extent[] = "keyvalue";
    struct okv_entry reference = {
        .is_reference = true,
        .key_length = 3,
        .value_length = 5,
        .checksum = okv_extent_checksum(extent, 8, BOOT),
    };

    (void)state;
    assert_int_equal(okv_extent_check(&reference, extent, BOOT, "key", 3), 0);
    assert_int_equal(okv_extent_check(&reference, extent, BOOT, "kez", 3), OKV_ENOTFOUND);
    assert_int_equal(okv_extent_check(&reference, extent, BOOT + 1, "key", 3), OKV_ECORRUPT);
    extent[5] ^= 1;
    assert_int_equal(okv_extent_check(&reference, extent, BOOT, "key", 3), OKV_ECORRUPT);
}

static void sizes(void **state)
{
    (void)state;
    assert_true(okv_bucket_size_valid(256));
    assert_true(okv_bucket_size_valid(4096));
    assert_false(okv_bucket_size_valid(128));
    assert_false(okv_bucket_size_valid(8192));
    assert_false(okv_bucket_size_valid(513));
    assert_false(okv_bucket_size_valid(0));
    assert_true(okv_range_inside(10, 0, 10));
    assert_false(okv_range_inside(11, 0, 10));
    assert_false(okv_range_inside(UINT64_MAX, 2, 10));
    assert_false(okv_range_inside(2, UINT64_MAX, 10));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_is_there),
        cmocka_unit_test(every_flipped_bit_is_seen),
        cmocka_unit_test(another_place_or_boot_does_not_pass),
        cmocka_unit_test(torn_images_are_refused),
        cmocka_unit_test(hostile_lengths_are_refused),
        cmocka_unit_test(random_entries_stay_inside),
        cmocka_unit_test(full_image_takes_no_more),
        cmocka_unit_test(extents_prove_themselves),
        cmocka_unit_test(sizes),
    };

    return cmocka_run_group_tests_name("bucket images", tests, NULL, NULL);
}
