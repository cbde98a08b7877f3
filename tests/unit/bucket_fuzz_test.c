/*
 * Images of any bytes with a correct checksum: a reader must neither leave the image nor loop
 * forever. For the sanitizers.
 */
#include "tests/support/test.h"

#include "shared/base/error.h"
#include "shared/format/bucket_edit.h"
#include "shared/format/hash.h"
#include "tests/support/random.h"

#define SIZE 512
#define BOOT 0x5eedf00dcafe0001ull
#define BUCKET 77
#define SEED 42
#define VERSION_MAX ((UINT64_C(1) << 48) - 1)

static const uint8_t letters[64] =
    "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz0123456789+";

struct fuzz {
    uint64_t random;
    uint64_t walked, refused; /* images */
    uint8_t base[SIZE];
};

static uint32_t fuzz_below(struct fuzz *fuzz, uint32_t limit)
{
    fuzz->random = fuzz->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((fuzz->random >> 32) * limit >> 32);
}

static struct okv_entry fuzz_entry(struct fuzz *fuzz)
{
    unsigned kind = fuzz_below(fuzz, 3);
    struct okv_entry entry = {
        .is_reference = kind != OKV_ENTRY_INLINE,
        .key_in_extent = kind == OKV_ENTRY_KEY_IN_EXTENT,
        .key_length = 1 + fuzz_below(fuzz, 40),
        .value_length = 1 + fuzz_below(fuzz, 60),
        .expiry_ms = fuzz_below(fuzz, 3) ? 0 : 1 + fuzz_below(fuzz, 1000),
        .key = letters,
        .value = letters,
        .extent = 0x10000,
    };

    entry.tag = okv_hash_tag(okv_hash_key(letters, entry.key_length, SEED));
    return entry;
}

/* Entries of all kinds, so that mutations reach the code of each kind. */
static void fuzz_base(struct fuzz *fuzz)
{
    okv_bucket_begin(fuzz->base, 3, VERSION_MAX >> fuzz_below(fuzz, 40), 0, 0);
    for (int entries = 0; entries < 12; entries++) {
        struct okv_entry entry = fuzz_entry(fuzz);
        uint64_t version = okv_bucket_version(fuzz->base);
        entry.version = version - (version >> fuzz_below(fuzz, 48));
        okv_bucket_append(fuzz->base, SIZE, &entry);
    }
}

/* A mutation of the base, in a buffer of exactly its length, for the sanitizer. */
static uint8_t *fuzz_image(struct fuzz *fuzz, uint32_t *size)
{
    const uint32_t header = (uint32_t)sizeof(struct okv_wire_bucket);
    uint32_t used = okv_bucket_used(fuzz->base);

    if (fuzz_below(fuzz, 4) == 0)
        used = fuzz_below(fuzz, used + 1);
    *size = header + used;
    uint8_t *image = malloc(*size);
    memcpy(image, fuzz->base, *size);
    ((struct okv_wire_bucket *)image)->used = okv_le16_of((uint16_t)used);
    for (uint32_t spoiled = fuzz_below(fuzz, 5); spoiled > 0 && used > 0; spoiled--)
        image[header + fuzz_below(fuzz, used)] =
            (uint8_t)(fuzz_below(fuzz, 3) ? fuzz_below(fuzz, 256) : 0x61u);
    okv_bucket_seal(image, *size, BOOT, BUCKET);
    return image;
}

static void assert_entry_inside(const struct okv_entry *entry, const uint8_t *image, uint32_t from,
                                uint32_t to)
{
    const uint8_t *begin = image + sizeof(struct okv_wire_bucket) + from;
    const uint8_t *end = image + sizeof(struct okv_wire_bucket) + to;

    assert_true(to >= from + OKV_ENTRY_SIZE_MIN && to <= okv_bucket_used(image));
    assert_in_range(entry->key_length, 1, OKV_KEY_MAX);
    assert_true(entry->version <= okv_bucket_version(image));
    if (entry->key_in_extent)
        assert_true(entry->is_reference && !entry->key);
    else
        assert_true(entry->key > begin && entry->key + entry->key_length <= end);
    if (entry->is_reference)
        assert_true(!entry->value && okv_entry_extent_length(entry) > 0);
    else
        assert_ptr_equal(entry->value + entry->value_length, end);
}

static void fuzz_walk(struct fuzz *fuzz, const uint8_t *image)
{
    struct okv_entry entry;
    uint32_t position = 0, before = 0;
    uint32_t key_length = 1 + fuzz_below(fuzz, 40);
    uint64_t hash = okv_hash_key(letters, key_length, SEED);
    int rc;

    while ((rc = okv_bucket_next(image, &position, &entry)) == 1) {
        assert_entry_inside(&entry, image, before, position);
        before = position;
    }
    assert_int_equal(position, before);
    fuzz->walked += rc == 0;
    fuzz->refused += rc == OKV_ECORRUPT;

    position = before = 0;
    while ((rc = okv_bucket_find(image, hash, letters, key_length, &position, &entry)) == 1) {
        assert_true(position > before && position <= okv_bucket_used(image));
        assert_int_equal(entry.key_length, key_length);
        before = position;
    }
    assert_true(rc == 0 || rc == OKV_ECORRUPT);
}

TEST(random_images_stay_inside)
{
    struct fuzz fuzz = {.random = random_seed()};

    for (int round = 0; round < 1000000; round++) {
        uint32_t size;
        if (round % 16 == 0)
            fuzz_base(&fuzz);
        uint8_t *image = fuzz_image(&fuzz, &size);
        assert_int_equal(okv_bucket_check(image, size, BOOT, BUCKET, 0), 0);
        fuzz_walk(&fuzz, image);
        free(image);
    }
    print_message("%llu walked to the end, %llu refused\n", (unsigned long long)fuzz.walked,
                  (unsigned long long)fuzz.refused);
    assert_true(fuzz.walked > 100000 && fuzz.refused > 100000);
}
