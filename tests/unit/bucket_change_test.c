/* Changing one entry of an image: the others stay the same, one version older. */
#include "tests/support/test.h"

#include "shared/base/error.h"
#include "shared/format/bucket_edit.h"
#include "shared/format/hash.h"

#define SIZE 512
#define BOOT 0x5eedf00dcafe0001ull
#define BUCKET 77
#define SEED 42
#define INLINE_MAX 100
#define VERSION UINT64_C(0x20000)

static uint8_t letters[256];

static struct okv_entry inline_entry(const char *key, const char *value, uint64_t version)
{
    return (struct okv_entry){
        .key_length = (uint32_t)strlen(key),
        .value_length = (uint32_t)strlen(value),
        .version = version,
        .key = (const uint8_t *)key,
        .value = (const uint8_t *)value,
    };
}

static struct okv_entry reference(const char *key, bool key_in_extent)
{
    struct okv_entry entry = inline_entry(key, "", VERSION - 1);

    entry.is_reference = true;
    entry.key_in_extent = key_in_extent;
    entry.tag = okv_hash_tag(okv_hash_key(key, entry.key_length, SEED));
    entry.value_length = 1000;
    entry.extent = 4096;
    entry.checksum = 7;
    return entry;
}

static void build(uint8_t *image, const struct okv_entry *entries, size_t count)
{
    memset(image, 0xee, SIZE);
    okv_bucket_begin(image, 3, VERSION, 8192, 2);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(okv_bucket_append(image, SIZE, &entries[i]), 0);
    okv_bucket_seal(image, SIZE, BOOT, BUCKET);
}

static bool bump_for(uint8_t *image, const uint8_t *from, const char *key,
                     struct okv_bucket_cursor *cursor)
{
    uint32_t length = (uint32_t)strlen(key);

    memset(image, 0xdd, SIZE);
    return okv_bucket_bump_ages(image, from, SIZE, INLINE_MAX, okv_hash_key(key, length, SEED), key,
                                length, cursor);
}

static void expect_entry(const struct okv_entry *found, const struct okv_entry *wanted)
{
    assert_int_equal(found->key_length, wanted->key_length);
    assert_int_equal(found->value_length, wanted->value_length);
    assert_int_equal(found->version, wanted->version);
    assert_int_equal(found->expiry_ms, wanted->expiry_ms);
    assert_int_equal(found->is_reference, wanted->is_reference);
    assert_int_equal(found->key_in_extent, wanted->key_in_extent);
    if (found->key)
        assert_memory_equal(found->key, wanted->key, wanted->key_length);
    if (found->is_reference) {
        assert_int_equal(found->extent, wanted->extent);
        assert_int_equal(found->checksum, wanted->checksum);
    } else if (found->value_length) {
        assert_memory_equal(found->value, wanted->value, wanted->value_length);
    }
}

/* The image is whole, one version on, and has these entries in this order. */
static void expect_image(uint8_t *image, const struct okv_entry *entries, size_t count)
{
    struct okv_entry found;
    uint32_t position = 0;

    okv_bucket_seal(image, SIZE, BOOT, BUCKET);
    assert_int_equal(okv_bucket_check(image, SIZE, BOOT, BUCKET, 2), 0);
    assert_int_equal(okv_bucket_version(image), VERSION + 1);
    assert_int_equal(okv_bucket_chain(image), 8192);
    assert_int_equal(okv_bucket_depth(image), 3);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(okv_bucket_next(image, &position, &found), 1);
        expect_entry(&found, &entries[i]);
    }
    assert_int_equal(okv_bucket_next(image, &position, &found), 0);
    for (uint32_t i = (uint32_t)sizeof(struct okv_wire_bucket) + position; i < SIZE; i++)
        assert_int_equal(image[i], 0);
}

/* Entries of each kind, with ages of each length. */
#define EXAMPLES 8
static void make_examples(struct okv_entry *entries)
{
    entries[0] = inline_entry("alpha", "one", VERSION);
    entries[1] = inline_entry("beta", "", VERSION - 254);
    entries[2] = reference("gamma", true);
    entries[3] = reference("delta", false);
    entries[4] = inline_entry("epsilon", "five", VERSION - 0xfffe);
    entries[4].expiry_ms = 5000;
    entries[5] = inline_entry("zeta", "six", VERSION - 0x10000);
    entries[6] = inline_entry("theta", "read often", VERSION - 3);
    entries[6].is_quiet = true;
    entries[7] = reference("iota", false);
    entries[7].is_quiet = true;
}

TEST(each_entry_is_found_and_kept)
{
    struct okv_entry entries[EXAMPLES];
    uint8_t image[SIZE], from[SIZE];
    struct okv_bucket_cursor cursor;

    make_examples(entries);
    build(from, entries, EXAMPLES);
    for (int i = 0; i < EXAMPLES; i++) {
        assert_true(bump_for(image, from, (const char *)entries[i].key, &cursor));
        assert_int_equal(cursor.length, okv_entry_size(&entries[i], VERSION));
        assert_int_equal(cursor.earliest_expiry, 5000);
        assert_true(cursor.inline_need == UINT32_MAX);
        struct okv_entry found;
        assert_true(okv_bucket_cursor_read(from, &cursor, &found));
        expect_entry(&found, &entries[i]);
        expect_image(image, entries, EXAMPLES);
    }
    assert_true(bump_for(image, from, "eta", &cursor));
    assert_int_equal(cursor.length, 0);
    assert_int_equal(cursor.position, okv_bucket_used(from));
    build(from, entries, 2);
    assert_true(bump_for(image, from, "alpha", &cursor));
    assert_true(cursor.earliest_expiry == UINT64_MAX && cursor.inline_need == UINT32_MAX);
}

static uint32_t need_of(const struct okv_entry *entry)
{
    struct okv_entry plain = *entry;

    plain.is_reference = false;
    uint32_t size = okv_entry_size(&plain, VERSION);
    return size <= INLINE_MAX ? size - okv_entry_size(entry, VERSION) : UINT32_MAX;
}

TEST(what_could_be_inline_is_told)
{
    struct okv_entry entries[] = {reference("alpha", true), reference("beta", false),
                                  reference("gamma", true)};
    uint8_t image[SIZE], from[SIZE];
    struct okv_bucket_cursor cursor;

    for (uint32_t length = 70; length < 110; length++) {
        for (uint32_t i = 0; i < 3; i++)
            entries[i].value_length = length + i;
        build(from, entries, 3);
        for (int i = 0; i < 3; i++) {
            uint32_t a = need_of(&entries[(i + 1) % 3]), b = need_of(&entries[(i + 2) % 3]);
            assert_true(bump_for(image, from, (const char *)entries[i].key, &cursor));
            assert_int_equal(cursor.inline_need, a < b ? a : b);
        }
    }
}

TEST(an_entry_is_exchanged_for_any_other)
{
    struct okv_entry entries[EXAMPLES], changed[EXAMPLES];
    uint8_t image[SIZE], from[SIZE];
    struct okv_bucket_cursor cursor;

    make_examples(entries);
    build(from, entries, EXAMPLES);
    for (int i = 0; i < EXAMPLES; i++)
        for (uint32_t length = 0; length < 200; length++) {
            memcpy(changed, entries, sizeof entries);
            changed[i] = inline_entry((const char *)entries[i].key, "", VERSION + 1);
            changed[i].value = letters;
            changed[i].value_length = length;
            changed[i].expiry_ms = length % 2;
            assert_true(bump_for(image, from, (const char *)entries[i].key, &cursor));
            assert_int_equal(okv_bucket_replace(image, SIZE, &cursor, &changed[i]), 0);
            expect_image(image, changed, EXAMPLES);
        }
}

TEST(entries_come_and_go)
{
    struct okv_entry entries[EXAMPLES + 1];
    uint8_t image[SIZE], from[SIZE];
    struct okv_bucket_cursor cursor;

    make_examples(entries);
    build(from, entries, EXAMPLES);
    entries[EXAMPLES] = inline_entry("eta", "seven", VERSION + 1);
    assert_true(bump_for(image, from, "eta", &cursor));
    assert_int_equal(okv_bucket_replace(image, SIZE, &cursor, &entries[EXAMPLES]), 0);
    expect_image(image, entries, EXAMPLES + 1);
    for (int i = 0; i < EXAMPLES; i++) {
        struct okv_entry left[EXAMPLES];
        make_examples(entries);
        memcpy(left, entries, i * sizeof *left);
        memcpy(left + i, entries + i + 1, (EXAMPLES - 1 - i) * sizeof *left);
        assert_true(bump_for(image, from, (const char *)entries[i].key, &cursor));
        assert_int_equal(okv_bucket_replace(image, SIZE, &cursor, NULL), 0);
        expect_image(image, left, EXAMPLES - 1);
    }
}

static int replace_with(const uint8_t *from, const char *key, uint32_t value_length)
{
    struct okv_entry entry = inline_entry(key, "", VERSION + 1);
    uint8_t image[SIZE];
    struct okv_bucket_cursor cursor;

    entry.value = letters;
    entry.value_length = value_length;
    assert_true(bump_for(image, from, key, &cursor));
    int rc = okv_bucket_replace(image, SIZE, &cursor, &entry);
    assert_true(rc || okv_bucket_used(image) <= okv_bucket_room(SIZE));
    return rc;
}

TEST(the_last_byte_is_used_and_no_more)
{
    struct okv_entry entries[] = {
        inline_entry("k", "v", VERSION),
        inline_entry("long", "", VERSION),
    };
    uint8_t from[SIZE];

    entries[1].value = letters;
    entries[1].value_length = 250;
    build(from, entries, 2);
    /* lengths and age take a byte each, the flags another */
    uint32_t left = okv_bucket_room(SIZE) - (4 + 4 + 250) - (4 + 1);
    assert_int_equal(replace_with(from, "k", left), 0);
    assert_int_equal(replace_with(from, "k", left + 1), OKV_EFULL);
    left -= 1 + 4 + 3;
    assert_int_equal(replace_with(from, "new", left), 0);
    assert_int_equal(replace_with(from, "new", left + 1), OKV_EFULL);
}

TEST(an_age_that_takes_a_further_byte_is_refused)
{
    static const uint64_t last[] = {0xff, 0xffff, 0xffffffff};
    uint8_t image[SIZE], from[SIZE];
    struct okv_bucket_cursor cursor;

    for (size_t i = 0; i < sizeof last / sizeof *last; i++)
        for (int off = -1; off <= 1; off++) {
            uint64_t version = UINT64_C(0x100000100);
            uint64_t age = last[i] + (uint64_t)off;
            const struct okv_entry entry = inline_entry("k", "v", version - age);
            okv_bucket_begin(from, 0, version, 0, 0);
            assert_int_equal(okv_bucket_append(from, SIZE, &entry), 0);
            okv_bucket_seal(from, SIZE, BOOT, BUCKET);
            assert_int_equal(bump_for(image, from, "other", &cursor), off != 0);
        }
}

TEST(doubtful_images_are_refused)
{
    const struct okv_entry entries[] = {reference("gamma", true), reference("gamma", true)};
    uint8_t image[SIZE], from[SIZE];
    struct okv_bucket_cursor cursor;

    build(from, entries, 2);
    assert_false(bump_for(image, from, "gamma", &cursor)); /* either may be it */
    assert_true(bump_for(image, from, "delta", &cursor));
    ((struct okv_wire_bucket *)from)->used = okv_le16_of((uint16_t)(okv_bucket_room(SIZE) + 1));
    assert_false(bump_for(image, from, "delta", &cursor));
    build(from, entries, 2);
    from[sizeof(struct okv_wire_bucket)] |= OKV_ENTRY_KIND;
    assert_false(bump_for(image, from, "delta", &cursor));

    const struct okv_entry twice[] = {inline_entry("beta", "1", VERSION),
                                      inline_entry("beta", "2", VERSION)};
    build(from, twice, 2);
    assert_false(bump_for(image, from, "beta", &cursor));
    assert_true(bump_for(image, from, "zeta", &cursor));

    const struct okv_entry older = inline_entry("zeta", "six", VERSION);
    build(from, &older, 1);
    uint32_t used = okv_bucket_used(from);
    for (uint32_t more = 0; more < OKV_ENTRY_SIZE_MIN; more++) { /* too few bytes for another one */
        ((struct okv_wire_bucket *)from)->used = okv_le16_of((uint16_t)(used + more));
        assert_int_equal(bump_for(image, from, "zeta", &cursor), more == 0);
    }
    build(from, &older, 1);
    ((struct okv_wire_bucket *)from)->version = okv_le48_of(0);
    from[sizeof(struct okv_wire_bucket) + 3] = 1; /* its age: it is older than the table */
    assert_true(bump_for(image, from, "zeta", &cursor));
    struct okv_entry found;
    assert_false(okv_bucket_cursor_read(from, &cursor, &found));
}
