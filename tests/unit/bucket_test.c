/* Bucket images and extents: what is found and what is refused. */
#include "tests/support/test.h"

#include "shared/base/error.h"
#include "shared/format/bucket_edit.h"
#include "shared/format/hash.h"

#define SIZE 512
#define BOOT 0x5eedf00dcafe0001ull
#define BUCKET 77
#define SEED 42
#define VERSION_MAX ((UINT64_C(1) << 48) - 1)

enum kind { INLINE, KEY_IN_EXTENT, KEY_HERE, KINDS };

static uint8_t letters[OKV_BUCKET_SIZE_MAX];

static int letters_fill(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof letters; i++)
        letters[i] = (uint8_t)(i * 167 + (i >> 8));
    return 0;
}

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

static struct okv_entry entry_of_kind(enum kind kind, uint32_t key_length, uint32_t value_length)
{
    struct okv_entry entry = {
        .tag = okv_hash_tag(okv_hash_key(letters, key_length, SEED)),
        .is_reference = kind != INLINE,
        .key_in_extent = kind == KEY_IN_EXTENT,
        .key_length = key_length,
        .value_length = value_length,
        .version = 1,
        .key = letters,
    };

    if (kind == INLINE) {
        entry.value = letters + 7;
    } else {
        entry.extent = 0xfedcba987654;
        entry.checksum = 0x1122334455667788;
    }
    return entry;
}

static int find(const uint8_t *image, const char *key, struct okv_entry *out)
{
    uint32_t position = 0;
    uint32_t length = (uint32_t)strlen(key);

    return okv_bucket_find(image, okv_hash_key(key, length, SEED), key, length, &position, out);
}

/* Two small items and a reference of each kind. */
static void build_example(uint8_t *image, uint64_t version)
{
    const struct okv_entry entries[] = {
        entry_of("alpha", "one", 1),
        entry_of("beta", "", 2),
        entry_of_kind(KEY_IN_EXTENT, 40, 1000),
        entry_of_kind(KEY_HERE, 40, 4096),
    };

    okv_bucket_begin(image, 3, version, 0, 0);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        assert_int_equal(okv_bucket_append(image, SIZE, &entries[i]), 0);
    okv_bucket_seal(image, SIZE, BOOT, BUCKET);
}

TEST(finds_what_is_there)
{
    uint8_t image[SIZE];
    struct okv_entry entry;

    build_example(image, 9);
    assert_int_equal(okv_bucket_check(image, SIZE, BOOT, BUCKET, 0), 0);
    assert_int_equal(find(image, "alpha", &entry), 1);
    assert_int_equal(entry.value_length, 3);
    assert_memory_equal(entry.value, "one", 3);
    assert_int_equal(entry.version, 1);
    assert_int_equal(find(image, "beta", &entry), 1);
    assert_int_equal(entry.value_length, 0);
    assert_int_equal(find(image, "gamma", &entry), 0);
    assert_int_equal(find(image, "alphb", &entry), 0);
    assert_int_equal(find(image, "blpha", &entry), 0);
    assert_int_equal(find(image, "alph", &entry), 0);
    assert_int_equal(find(image, "", &entry), 0);
    assert_int_equal(okv_bucket_depth(image), 3);
    assert_int_equal(okv_bucket_version(image), 9);
}

/* Keys with one tag and length: a reader tries each until an extent has its key. */
TEST(finds_every_possible_entry)
{
    uint8_t image[SIZE];
    struct okv_entry out, first = entry_of_kind(KEY_IN_EXTENT, 40, 10);
    struct okv_entry other_tag = first, longer = first, second = first;
    uint64_t hash = okv_hash_key(letters, 40, SEED);
    uint32_t position = 0;

    other_tag.tag ^= 0x8000;
    longer.key_length = 41;
    second.extent = 4096;
    okv_bucket_begin(image, 0, 1, 0, 0);
    assert_int_equal(okv_bucket_append(image, SIZE, &other_tag), 0);
    assert_int_equal(okv_bucket_append(image, SIZE, &first), 0);
    assert_int_equal(okv_bucket_append(image, SIZE, &longer), 0);
    assert_int_equal(okv_bucket_append(image, SIZE, &second), 0);
    assert_int_equal(okv_bucket_find(image, hash, letters, 40, &position, &out), 1);
    assert_int_equal(out.extent, first.extent);
    assert_int_equal(okv_bucket_find(image, hash, letters, 40, &position, &out), 1);
    assert_int_equal(out.extent, 4096);
    assert_int_equal(okv_bucket_find(image, hash, letters, 40, &position, &out), 0);
    assert_int_equal(position, okv_bucket_used(image));
    assert_int_equal(okv_bucket_find(image, hash, letters, 40, &position, &out), 0);
}

/* ---- every kind of entry, at the limits of each width ---- */

/* As docs/format.md section 3 has it. */
static uint32_t documented_size(const struct okv_entry *entry, uint64_t age)
{
    uint32_t size = 1 + (entry->key_length > 255 ? 2 : 1);

    size += age > 0xffffffff ? 6 : age > 0xffff ? 4 : age > 0xff ? 2 : 1;
    size += entry->expiry_ms ? 6 : 0;
    if (!entry->is_reference)
        return size + (entry->value_length > 255 ? 2 : 1) + entry->key_length + entry->value_length;
    size += (entry->value_length > 65535 ? 4 : 2) + 6 + 8;
    return size + (entry->key_in_extent ? 2 : entry->key_length);
}

static void assert_entries_equal(const struct okv_entry *a, const struct okv_entry *b)
{
    assert_int_equal(a->is_reference, b->is_reference);
    assert_int_equal(a->key_in_extent, b->key_in_extent);
    assert_int_equal(a->is_quiet, b->is_quiet);
    assert_int_equal(a->key_length, b->key_length);
    assert_int_equal(a->value_length, b->value_length);
    assert_int_equal(a->version, b->version);
    assert_int_equal(a->expiry_ms, b->expiry_ms);
    assert_int_equal(a->extent, b->extent);
    assert_int_equal(a->checksum, b->checksum);
    if (a->key_in_extent) {
        assert_int_equal(a->tag, b->tag);
        assert_null(a->key);
    } else {
        assert_memory_equal(a->key, b->key, b->key_length);
    }
    if (a->is_reference)
        assert_null(a->value);
    else
        assert_memory_equal(a->value, b->value, b->value_length);
}

static void round_trip(const struct okv_entry *entry)
{
    static uint8_t image[OKV_BUCKET_SIZE_MAX];
    uint64_t hash = okv_hash_key(entry->key, entry->key_length, SEED);
    uint32_t size = documented_size(entry, VERSION_MAX - entry->version), position = 0;
    struct okv_entry back;

    assert_int_equal(okv_entry_size(entry, VERSION_MAX), size);
    okv_bucket_begin(image, OKV_DEPTH_MAX, VERSION_MAX, 0, 0);
    if (size > okv_bucket_room(sizeof image)) {
        assert_int_equal(okv_bucket_append(image, sizeof image, entry), OKV_EFULL);
        return;
    }
    assert_int_equal(okv_bucket_append(image, sizeof image, entry), 0);
    assert_int_equal(okv_bucket_used(image), size);
    okv_bucket_seal(image, sizeof image, BOOT, BUCKET);
    assert_int_equal(okv_bucket_check(image, sizeof image, BOOT, BUCKET, 0), 0);
    assert_int_equal(okv_bucket_next(image, &position, &back), 1);
    assert_entries_equal(&back, entry);
    assert_int_equal(position, size);
    assert_int_equal(okv_bucket_next(image, &position, &back), 0);
    position = 0;
    assert_int_equal(okv_bucket_find(image, hash, entry->key, entry->key_length, &position, &back),
                     1);
    assert_entries_equal(&back, entry);
    assert_int_equal(position, size);
}

TEST(every_width_comes_back)
{
    const uint32_t keys[] = {1, 2, 254, 255, 256, 257, 1023, OKV_KEY_MAX};
    const uint32_t inline_values[] = {0, 1, 254, 255, 256, 257, 2000, 4000};
    const uint32_t extent_values[] = {1, 255, 256, 65534, 65535, 65536, OKV_VALUE_MAX, UINT32_MAX};
    const uint64_t ages[] = {0,     1,     254,        255,         256,
                             65535, 65536, 0xffffffff, 0x100000000, VERSION_MAX};
    const uint64_t expiries[] = {0, 1, VERSION_MAX};

    for (unsigned n = 0; n < KINDS * 8 * 8 * 10 * 3; n++) {
        enum kind kind = (enum kind)(n % KINDS);
        unsigned i = n / KINDS;
        uint32_t value = (kind == INLINE ? inline_values : extent_values)[i / 8 % 8];
        struct okv_entry entry = entry_of_kind(kind, keys[i % 8], value);
        entry.version = VERSION_MAX - ages[i / 64 % 10];
        entry.expiry_ms = expiries[i / 640];
        round_trip(&entry);
        entry.is_quiet = true;
        round_trip(&entry);
    }
    struct okv_entry entry = entry_of_kind(KEY_IN_EXTENT, 5, 0);
    round_trip(&entry);
}

TEST(full_image_takes_no_more)
{
    uint8_t image[SIZE];
    struct okv_entry entry = entry_of("k", "0123456789", 1);
    uint32_t size = okv_entry_size(&entry, 1);
    uint32_t fit = okv_bucket_room(SIZE) / size;
    uint32_t rest = okv_bucket_room(SIZE) - fit * size;

    okv_bucket_begin(image, 0, 1, 0, 0);
    for (uint32_t i = 0; i < fit; i++)
        assert_int_equal(okv_bucket_append(image, SIZE, &entry), 0);
    assert_int_equal(okv_bucket_append(image, SIZE, &entry), OKV_EFULL);
    assert_in_range(rest, OKV_ENTRY_SIZE_MIN, 15);
    entry.value_length = rest - OKV_ENTRY_SIZE_MIN + 1;
    assert_int_equal(okv_bucket_append(image, SIZE, &entry), OKV_EFULL);
    entry.value_length--;
    assert_int_equal(okv_bucket_append(image, SIZE, &entry), 0);
    assert_int_equal(okv_bucket_used(image), okv_bucket_room(SIZE));
    okv_bucket_seal(image, SIZE, BOOT, BUCKET);
    assert_int_equal(okv_bucket_check(image, SIZE, BOOT, BUCKET, 0), 0);
}

TEST(expiry)
{
    struct okv_entry entry = {.expiry_ms = 0};

    assert_false(okv_entry_is_expired(&entry, UINT64_MAX));
    entry.expiry_ms = 100;
    assert_false(okv_entry_is_expired(&entry, 99));
    assert_true(okv_entry_is_expired(&entry, 100));
}

/* ---- torn, stale and misplaced images ---- */

TEST(every_flipped_bit_is_seen)
{
    uint8_t image[SIZE];

    build_example(image, 9);
    uint32_t covered = (uint32_t)sizeof(struct okv_wire_bucket) + okv_bucket_used(image);
    for (uint32_t bit = 0; bit < covered * 8; bit++) {
        image[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(okv_bucket_check(image, SIZE, BOOT, BUCKET, 0), OKV_ECORRUPT);
        image[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    memset(image + covered, 0xee, SIZE - covered);
    assert_int_equal(okv_bucket_check(image, SIZE, BOOT, BUCKET, 0), 0);
}

TEST(another_bucket_page_or_boot_does_not_pass)
{
    uint8_t image[SIZE];

    build_example(image, 9);
    assert_int_equal(okv_bucket_check(image, SIZE, BOOT, BUCKET, 0), 0);
    for (unsigned bit = 0; bit < 64; bit++)
        assert_int_equal(okv_bucket_check(image, SIZE, BOOT ^ UINT64_C(1) << bit, BUCKET, 0),
                         OKV_ECORRUPT);
    for (uint64_t bucket = 0; bucket < 100000; bucket++)
        if (bucket != BUCKET)
            assert_int_equal(okv_bucket_check(image, SIZE, BOOT, bucket, 0), OKV_ECORRUPT);
    for (unsigned page = 1; page < OKV_BUCKET_PAGES_MAX; page++)
        assert_int_equal(okv_bucket_check(image, SIZE, BOOT, BUCKET, page), OKV_ECORRUPT);
    ((struct okv_wire_bucket *)image)->page =
        1; /* the page number is checked apart from the checksum */
    assert_int_equal(okv_bucket_check(image, SIZE, BOOT, BUCKET, 0), OKV_ECORRUPT);
    assert_int_equal(okv_bucket_check(image, SIZE, BOOT, BUCKET, 1), OKV_ECORRUPT);
}

/* Every mixture of two images, each cache line from either, is refused; they have one
 * version and the same lengths: only the checksum can tell. */
TEST(torn_images_are_refused)
{
    static uint8_t image[2][SIZE], torn[SIZE];
    const unsigned all = (1u << SIZE / 64) - 1;

    for (int i = 0; i < 2; i++) {
        struct okv_entry entry = entry_of_kind(INLINE, 8, okv_bucket_room(SIZE) - 8 - 5);
        entry.value += i;
        okv_bucket_begin(image[i], 0, 1, 0, 0);
        assert_int_equal(okv_bucket_append(image[i], SIZE, &entry), 0);
        okv_bucket_seal(image[i], SIZE, BOOT, BUCKET);
    }
    for (unsigned lines = 0; lines <= all; lines++) {
        for (unsigned line = 0; line < SIZE / 64; line++)
            memcpy(torn + line * 64, image[lines >> line & 1] + line * 64, 64);
        int expected = lines == 0 || lines == all ? 0 : OKV_ECORRUPT;
        assert_int_equal(okv_bucket_check(torn, SIZE, BOOT, BUCKET, 0), expected);
    }
}

TEST(header_is_checked)
{
    uint8_t image[SIZE];
    struct okv_wire_bucket *header = (struct okv_wire_bucket *)image;

    build_example(image, 9);
    header->depth = OKV_DEPTH_MAX;
    okv_bucket_seal(image, SIZE, BOOT, BUCKET);
    assert_int_equal(okv_bucket_check(image, SIZE, BOOT, BUCKET, 0), 0);
    for (unsigned depth = OKV_DEPTH_MAX + 1; depth <= UINT8_MAX; depth++) {
        header->depth = (uint8_t)depth;
        okv_bucket_seal(image, SIZE, BOOT, BUCKET);
        assert_int_equal(okv_bucket_check(image, SIZE, BOOT, BUCKET, 0), OKV_ECORRUPT);
    }
    header->depth = 3;
    for (unsigned used = okv_bucket_room(SIZE) + 1; used <= UINT16_MAX; used++) {
        header->used = okv_le16_of((uint16_t)used);
        assert_int_equal(okv_bucket_check(image, SIZE, BOOT, BUCKET, 0), OKV_ECORRUPT);
    }
}

/* ---- whole images with malformed entries ---- */

/* An image of one entry that was written by hand, of exactly its size, for the sanitizer; to be
 * freed. */
static uint8_t *image_of(uint64_t version, const uint8_t *entry, uint32_t length)
{
    uint32_t size = (uint32_t)sizeof(struct okv_wire_bucket) + length;
    uint8_t *image = malloc(size);

    okv_bucket_begin(image, 0, version, 0, 0);
    memcpy(image + sizeof(struct okv_wire_bucket), entry, length);
    ((struct okv_wire_bucket *)image)->used = okv_le16_of((uint16_t)length);
    okv_bucket_seal(image, size, BOOT, BUCKET);
    assert_int_equal(okv_bucket_check(image, size, BOOT, BUCKET, 0), 0);
    return image;
}

static int next_of(uint64_t version, const uint8_t *entry, uint32_t length)
{
    uint8_t *image = image_of(version, entry, length);
    struct okv_entry out;
    uint32_t position = 0;

    int rc = okv_bucket_next(image, &position, &out);
    assert_int_equal(position, rc == 1 ? length : 0);
    free(image);
    return rc;
}

/* The result of a search for another key. */
static int search_of(uint64_t version, const uint8_t *entry, uint32_t length)
{
    uint8_t *image = image_of(version, entry, length);
    struct okv_entry out;

    int rc = find(image, "?", &out);
    free(image);
    return rc;
}

TEST(malformed_entries_are_refused)
{
    uint8_t bytes[2000] = {0};

    bytes[1] = bytes[2] = 1; /* a key and a value of one byte */
    assert_int_equal(next_of(0, bytes, 6), 1);
    for (unsigned flags = 0; flags < 256; flags++) {
        if ((flags & OKV_ENTRY_KIND) != 3)
            continue;
        bytes[0] = (uint8_t)flags;
        for (uint32_t length = 5; length < 64; length++)
            assert_int_equal(next_of(1000, bytes, length), OKV_ECORRUPT);
    }

    /* age 1 in an image of version 0; 256 in one of 255 */
    assert_int_equal(next_of(0, (const uint8_t[]){0, 1, 1, 1, 'k', 'v'}, 6), OKV_ECORRUPT);
    assert_int_equal(next_of(1, (const uint8_t[]){0, 1, 1, 1, 'k', 'v'}, 6), 1);
    assert_int_equal(next_of(255, (const uint8_t[]){0x20, 1, 1, 0, 1, 'k', 'v'}, 7), OKV_ECORRUPT);
    assert_int_equal(next_of(256, (const uint8_t[]){0x20, 1, 1, 0, 1, 'k', 'v'}, 7), 1);

    /* an expiry that says there is none */
    const uint8_t expiring[] = {OKV_ENTRY_EXPIRY, 1, 1, 0, 0, 0, 0, 0, 0, 0, 'k', 'v'};
    assert_int_equal(next_of(0, expiring, sizeof expiring), OKV_ECORRUPT);

    /* an extent of no bytes */
    uint8_t here[6 + 14] = {OKV_ENTRY_KEY_HERE, 1, 0, 0, 0, 'k'};
    assert_int_equal(next_of(0, here, sizeof here), OKV_ECORRUPT);
    here[2] = 1;
    assert_int_equal(next_of(0, here, sizeof here), 1);
}

TEST(key_lengths_are_checked)
{
    uint8_t bytes[2000] = {0};

    for (unsigned kind = 0; kind < 3; kind++) {
        unsigned value = kind ? 2 : 1;
        uint32_t rest = kind == 0 ? 1 : 1 + 14;

        bytes[0] = (uint8_t)kind;
        bytes[1] = 0;
        bytes[2] = 1;
        assert_int_equal(next_of(0, bytes, 3 + value + rest), OKV_ECORRUPT);
        bytes[0] |= OKV_ENTRY_WIDE_KEY;
        for (unsigned key = OKV_KEY_MAX - 1; key <= OKV_KEY_MAX + 1; key++) {
            okv_put_u16(bytes + 1, (uint16_t)key);
            bytes[3] = 1;
            uint32_t length = 4 + value + (kind == 1 ? 2 + 14 : key + rest - (kind == 2));
            assert_int_equal(next_of(0, bytes, length), key <= OKV_KEY_MAX ? 1 : OKV_ECORRUPT);
        }
        okv_put_u16(bytes + 1, 0);
        assert_int_equal(next_of(0, bytes, 4 + value + 16), OKV_ECORRUPT);
    }
}

/* Every entry cut off at every byte. */
TEST(truncated_entries_are_refused)
{
    uint8_t image[OKV_BUCKET_SIZE_MAX];
    struct okv_wire_bucket *header = (struct okv_wire_bucket *)image;

    for (unsigned n = 0; n < KINDS * 2 * 2 * 4 * 2; n++) {
        enum kind kind = (enum kind)(n % KINDS);
        unsigned i = n / KINDS;
        uint32_t wide_value = kind == INLINE ? 300 : 70000;
        struct okv_entry entry = entry_of_kind(kind, i & 1 ? 300 : 3, i & 2 ? wide_value : 5);
        entry.expiry_ms = i & 4 ? 5 : 0;
        entry.version = VERSION_MAX - (UINT64_C(1) << 12 * (i >> 3 & 3));
        okv_bucket_begin(image, 0, VERSION_MAX, 0, 0);
        assert_int_equal(okv_bucket_append(image, sizeof image, &entry), 0);
        uint32_t whole = okv_le16_get(header->used);
        for (uint32_t used = 1; used < whole; used++) {
            assert_int_equal(next_of(VERSION_MAX, image + sizeof *header, used), OKV_ECORRUPT);
            assert_int_equal(search_of(VERSION_MAX, image + sizeof *header, used), OKV_ECORRUPT);
        }
        assert_int_equal(next_of(VERSION_MAX, image + sizeof *header, whole), 1);
        assert_int_equal(search_of(VERSION_MAX, image + sizeof *header, whole), 0);
    }
}

TEST(positions_outside_are_refused)
{
    uint8_t image[SIZE];
    struct okv_entry entry;
    uint32_t position;

    build_example(image, 9);
    const uint32_t positions[] = {okv_bucket_used(image) + 1, SIZE, UINT32_MAX};
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
        position = positions[i];
        assert_int_equal(okv_bucket_next(image, &position, &entry), OKV_ECORRUPT);
        position = positions[i];
        assert_int_equal(okv_bucket_find(image, 0, "k", 1, &position, &entry), OKV_ECORRUPT);
    }
}

TEST(an_extent_is_checked_for_key_and_checksum)
{
    uint8_t extent[] = "keyvalue";
    struct okv_entry reference = {
        .is_reference = true,
        .key_in_extent = true,
        .key_length = 3,
        .value_length = 5,
        .checksum = okv_extent_checksum(extent, 8, BOOT),
    };

    assert_int_equal(okv_entry_extent_length(&reference), 8);
    assert_int_equal(okv_extent_check(&reference, extent, BOOT, "key", 3), 0);
    assert_int_equal(okv_extent_check(&reference, extent, BOOT, "kez", 3), OKV_ENOTFOUND);
    assert_int_equal(okv_extent_check(&reference, extent, BOOT, "ke", 2), OKV_ENOTFOUND);
    assert_int_equal(okv_extent_check(&reference, extent, BOOT + 1, "key", 3), OKV_ECORRUPT);
    for (unsigned bit = 0; bit < 64; bit++) {
        extent[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(okv_extent_check(&reference, extent, BOOT, "key", 3), OKV_ECORRUPT);
        extent[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }

    reference.key_in_extent = false; /* the extent is the value alone */
    reference.checksum = okv_extent_checksum(extent + 3, 5, BOOT);
    assert_int_equal(okv_entry_extent_length(&reference), 5);
    assert_int_equal(okv_extent_check(&reference, extent + 3, BOOT, "key", 3), 0);
    assert_int_equal(okv_extent_check(&reference, extent + 2, BOOT, "key", 3), OKV_ECORRUPT);
}

TEST(sizes)
{
    for (uint64_t size = 0; size <= 10000; size++)
        assert_int_equal(okv_bucket_size_valid(size), size == 256 || size == 512 || size == 1024 ||
                                                          size == 2048 || size == 4096);
    assert_false(okv_bucket_size_valid((UINT64_C(1) << 32) + 512));
    assert_true(okv_range_inside(10, 0, 10));
    assert_false(okv_range_inside(11, 0, 10));
    assert_false(okv_range_inside(UINT64_MAX, 2, 10));
    assert_false(okv_range_inside(2, UINT64_MAX, 10));
}

TEST_PROGRAM(letters_fill, NULL)
