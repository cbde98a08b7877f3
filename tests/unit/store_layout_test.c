/* The layout of a bucket: items inline, in extents, in overflow pages; and that a full region
 * changes nothing. */
#include <inttypes.h>

#include "tests/support/test.h"

#include "shared/base/error.h"
#include "shared/format/linear.h"
#include "tests/support/store_region.h"

#define REGION (1u << 20)
#define BUCKET 256u
#define ROOM (BUCKET - (unsigned)sizeof(struct okv_wire_bucket))
#define HEAD 4u       /* of an entry whose lengths and age need a byte each */
#define REFERENCE 21u /* entry of a reference with the key in the extent, lengths as above */
#define REFERENCE_OLDEST (REFERENCE + 5u) /* when its age takes six bytes */
/* Bytes of references, at their oldest, that a bucket takes. */
#define LIMIT (OKV_BUCKET_PAGES_MAX * (ROOM - ROOM / 3))
#define LONG_KEY (ROOM / 8) /* the longest that stays in its entry */
#define VALUE_MAX (64u << 10)

/* A table whose index never grows. */
static const struct okv_store_params fixed = {
    .length = REGION, .bucket_size = BUCKET, .index_percent = 1};

static uint8_t bytes[VALUE_MAX + 1];

static int put_size(struct store_region *region, const char *key, uint32_t size, uint64_t *version)
{
    return store_region_put(region, key, (uint32_t)strlen(key), bytes, size, version);
}

static uint64_t put_text(struct store_region *region, const char *key, const char *value)
{
    uint64_t version;

    assert_int_equal(store_region_put(region, key, (uint32_t)strlen(key), value,
                                      (uint32_t)strlen(value), &version),
                     0);
    return version;
}

static int remove_key(struct store_region *region, const char *key)
{
    return store_region_delete(region, key, (uint32_t)strlen(key));
}

static void expect_size(struct store_region *region, const char *key, uint32_t size,
                        uint64_t version)
{
    store_region_expect(region, key, (uint32_t)strlen(key), bytes, size, version);
}

/* Offset of the key's extent; 0 when it is inline. */
static uint64_t extent_of(struct store_region *region, const char *key)
{
    struct store_found found;

    assert_int_equal(store_reader_find(&region->reader, key, (uint32_t)strlen(key), &found), 0);
    return found.extent;
}

static int append(struct store_region *region, const char *key, uint32_t size,
                  struct okv_store_outcome *outcome)
{
    const struct okv_store_write write = {
        .key = key, .key_length = (uint32_t)strlen(key), .value = bytes, .value_length = size};

    return store_region_append(region, &write, 1000, outcome);
}

/* ---- layout ---- */

TEST(large_entries_go_to_extents)
{
    struct store_region region;
    uint64_t version;

    store_region_open(&region, &fixed);
    uint32_t largest = ROOM / 3 - HEAD - 1; /* the default */
    assert_int_equal(put_size(&region, "k", largest, &version), 0);
    assert_true(extent_of(&region, "k") == 0);
    assert_int_equal(put_size(&region, "k", largest + 1, &version), 0);
    assert_true(extent_of(&region, "k") != 0);
    expect_size(&region, "k", largest + 1, version);
    assert_int_equal(put_size(&region, "k", 0, &version), 0);
    assert_true(extent_of(&region, "k") == 0);
    assert_int_equal(okv_heap_used(&region.store.heap), region.empty_used);
    expect_size(&region, "k", 0, version);
    store_region_close(&region);

    struct okv_store_params params = fixed;
    params.inline_max = 40;
    store_region_open(&region, &params);
    assert_int_equal(put_size(&region, "k", 40 - HEAD - 1, &version), 0);
    assert_true(extent_of(&region, "k") == 0);
    assert_int_equal(put_size(&region, "k", 40 - HEAD, &version), 0);
    assert_true(extent_of(&region, "k") != 0);
    store_region_close(&region);
}

/* Entries of 70, 80 and 60 bytes fit 232. A fourth one moves the largest to an extent. */
TEST(the_largest_is_spilled_first_and_returns)
{
    static const uint32_t sizes[] = {70, 80, 60, 50};
    struct store_region region;
    char keys[4][24];
    uint64_t versions[4], extent;
    unsigned number = 0;
    struct okv_store_params params = fixed;

    params.inline_max = ROOM;
    store_region_open(&region, &params);
    for (unsigned i = 0; i < 4; i++) {
        store_region_key(&region, 12, &number, keys[i]);
        uint32_t size = sizes[i] - HEAD - (uint32_t)strlen(keys[i]);
        assert_int_equal(put_size(&region, keys[i], size, &versions[i]), 0);
        for (unsigned j = 0; j <= i; j++)
            assert_int_equal(extent_of(&region, keys[j]) != 0, i == 3 && j == 1);
    }
    extent = extent_of(&region, keys[1]);
    /* An extent does not move when other items change. */
    assert_int_equal(
        put_size(&region, keys[2], 60 - HEAD - (uint32_t)strlen(keys[2]), &versions[2]), 0);
    assert_int_equal(extent_of(&region, keys[1]), extent);
    assert_int_equal(remove_key(&region, keys[3]), 0);
    for (unsigned j = 0; j < 3; j++) {
        assert_true(extent_of(&region, keys[j]) == 0);
        expect_size(&region, keys[j], sizes[j] - HEAD - (uint32_t)strlen(keys[j]), versions[j]);
    }
    assert_int_equal(okv_heap_used(&region.store.heap), region.empty_used);
    store_region_close(&region);
}

/* References that do not fit go to overflow pages, up to the limit of a bucket. */
TEST(a_bucket_has_a_limit)
{
    struct store_region region;
    struct store_audit audit;
    char key[24];
    unsigned n = 0, number = 0;
    int rc;

    store_region_open(&region, &fixed);
    for (;; n++) {
        store_region_key(&region, 6, &number, key);
        rc = put_size(&region, key, 110 + n % 100, NULL);
        if (rc)
            break;
        store_region_audit(&region, NULL, NULL, &audit);
        assert_true(audit.longest_chain <= n / (ROOM / (REFERENCE + 8 + 4)) + 1);
    }
    assert_int_equal(rc, OKV_EBUCKETFULL);
    assert_in_range(n, LIMIT / (REFERENCE_OLDEST + 8 + 4), LIMIT / REFERENCE_OLDEST);
    put_text(&region, "elsewhere", "fits");
    number = 0;
    for (unsigned i = 0; i < n; i++) {
        store_region_key(&region, 6, &number, key);
        assert_int_equal(remove_key(&region, key), 0);
        store_region_audit(&region, NULL, NULL, &audit);
        assert_int_equal(audit.items, n - i);
    }
    assert_int_equal(audit.overflow_pages, 0);
    assert_int_equal(remove_key(&region, "elsewhere"), 0);
    store_region_expect_empty(&region, true);
    store_region_close(&region);
}

/* Puts items of this size into bucket 0 until one does not fit. */
static void fill_bucket(struct store_region *region, uint32_t size)
{
    unsigned number = 0;
    char key[24];
    int rc;

    do {
        store_region_key(region, 6, &number, key);
        rc = put_size(region, key, size, NULL);
    } while (rc == 0);
    assert_int_equal(rc, OKV_EBUCKETFULL);
}

/* The value gets too long to be inline, and so long that its reference has the key. In a full
 * bucket there is no place for that: the extent that was made for both is given back. */
TEST(a_refused_append_gives_its_extent_back)
{
    struct store_region region;
    struct store_audit before, after;
    struct okv_store_outcome outcome;
    char key[LONG_KEY + 1];
    unsigned number = 0;

    store_region_open(&region, &fixed);
    do
        snprintf(key, sizeof key, "%0*u", (int)LONG_KEY, number++);
    while (store_region_bucket(&region, key) != 0);
    assert_int_equal(put_size(&region, key, 1, NULL), 0);
    fill_bucket(&region, 110);
    assert_int_equal(extent_of(&region, key), 0);
    store_region_audit(&region, NULL, NULL, &before);
    assert_int_equal(append(&region, key, 2 * OKV_BUCKET_SIZE_MAX - 1, &outcome), OKV_EBUCKETFULL);
    store_region_audit(&region, NULL, NULL, &after);
    assert_memory_equal(&before, &after, sizeof before);
    store_region_close(&region);
}

/* ---- a full region ---- */

TEST(a_refused_put_changes_nothing)
{
    struct store_region region;
    struct store_audit before, after;
    struct okv_store_outcome outcome = {0};
    uint64_t kept, version = 0;
    unsigned n = 0;
    char key[24];

    store_region_open(&region, &fixed);
    assert_int_equal(put_size(&region, "k", 30000, &kept), 0);
    for (;; n++) {
        snprintf(key, sizeof key, "f%u", n);
        if (put_size(&region, key, 2000, &version))
            break;
    }
    uint64_t used = okv_heap_used(&region.store.heap);
    store_region_audit(&region, NULL, NULL, &before);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(put_size(&region, "k", VALUE_MAX, &version), OKV_EFULL);
        assert_int_equal(put_size(&region, "other", VALUE_MAX, &version), OKV_EFULL);
        assert_int_equal(append(&region, "k", 20000, &outcome), OKV_EFULL);
        assert_int_equal(outcome.version, 0);
    }
    expect_size(&region, "k", 30000, kept);
    assert_int_equal(okv_heap_used(&region.store.heap), used);
    store_region_audit(&region, NULL, NULL, &after);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(remove_key(&region, "k"), 0);
    while (n-- > 0) {
        snprintf(key, sizeof key, "f%u", n);
        assert_int_equal(remove_key(&region, key), 0);
    }
    store_region_expect_empty(&region, true);
    store_region_close(&region);
}

int main(void)
{
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7 + (i >> 8) + 1);
    return test_run();
}
