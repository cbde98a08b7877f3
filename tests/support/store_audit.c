#include "tests/support/store_audit.h"

#include <stdbool.h>

#include "tests/support/test.h"

#include "shared/format/hash.h"
#include "shared/format/linear.h"

struct piece {
    uint64_t offset, length;
};

struct walk {
    const uint8_t *region;
    struct okv_superblock table;
    uint64_t count;
    uint32_t inline_max;
    store_audit_visit *visit;
    void *context;
    struct store_audit *audit;
    struct piece *pieces;
    size_t piece_count, piece_capacity;
    struct okv_entry *bucket; /* entries of the current bucket */
    size_t bucket_count, bucket_capacity;
};

uint64_t store_size_class(uint64_t size)
{
    if (size > 14336) /* whole pages */
        return (size + 4095) / 4096 * 4096;
    if (size <= 8)
        return 8;
    uint64_t step = 16;
    while (size > 8 * step)
        step *= 2;
    return (size + step - 1) / step * step;
}

static void add_piece(struct walk *walk, uint64_t offset, uint64_t length)
{
    assert_true(offset >= OKV_HEAP_OFFSET);
    assert_true(okv_range_inside(offset, length, walk->table.region_length));
    if (walk->piece_count == walk->piece_capacity) {
        walk->piece_capacity = walk->piece_capacity ? 2 * walk->piece_capacity : 256;
        walk->pieces = realloc(walk->pieces, walk->piece_capacity * sizeof *walk->pieces);
        assert_non_null(walk->pieces);
    }
    walk->pieces[walk->piece_count++] = (struct piece){offset, length};
    walk->audit->piece_bytes += length;
    walk->audit->class_bytes += store_size_class(length);
}

/* Fails if the bucket already has the key. */
static void remember(struct walk *walk, const struct okv_entry *entry)
{
    for (size_t i = 0; i < walk->bucket_count; i++)
        assert_false(walk->bucket[i].key_length == entry->key_length &&
                     memcmp(walk->bucket[i].key, entry->key, entry->key_length) == 0);
    if (walk->bucket_count == walk->bucket_capacity) {
        walk->bucket_capacity = walk->bucket_capacity ? 2 * walk->bucket_capacity : 64;
        walk->bucket = realloc(walk->bucket, walk->bucket_capacity * sizeof *walk->bucket);
        assert_non_null(walk->bucket);
    }
    walk->bucket[walk->bucket_count++] = *entry;
}

/* The reference's key and value, from its extent. */
static void follow(struct walk *walk, struct okv_entry *entry, uint64_t image_version)
{
    const uint8_t *extent = walk->region + entry->extent;
    uint64_t length = okv_entry_extent_length(entry);
    struct okv_entry small = *entry;

    add_piece(walk, entry->extent, length);
    assert_true(okv_extent_checksum(extent, length, walk->table.boot_id) == entry->checksum);
    entry->value = extent;
    if (entry->key_in_extent) {
        entry->key = extent;
        entry->value += entry->key_length;
    }
    walk->audit->references++;
    small.is_reference = false;
    if ((uint64_t)small.key_length + small.value_length <= walk->inline_max)
        walk->audit->small_references += okv_entry_size(&small, image_version) <= walk->inline_max;
}

static void audit_entry(struct walk *walk, uint64_t bucket, unsigned page, const uint8_t *image,
                        struct okv_entry *entry)
{
    uint64_t version = okv_bucket_version(image);

    assert_true(entry->version > 0 && entry->version <= version);
    walk->audit->entry_bytes += okv_entry_size(entry, version);
    uint64_t small_references = walk->audit->small_references;
    if (entry->is_reference)
        follow(walk, entry, version);
    walk->audit->extra_reads += page > 0 || walk->audit->small_references > small_references;
    uint64_t hash = okv_hash_key(entry->key, entry->key_length, walk->table.hash_seed);
    assert_true(okv_linear_bucket(hash, walk->count) == bucket);
    assert_true(!entry->key_in_extent || okv_hash_tag(hash) == entry->tag);
    remember(walk, entry);
    walk->audit->items++;
    walk->audit->user_bytes += (uint64_t)entry->key_length + entry->value_length;
    walk->audit->later_pages += page;
    walk->audit->expiring += entry->expiry_ms != 0;
    if (walk->visit)
        walk->visit(walk->context, entry);
}

static void audit_page(struct walk *walk, uint64_t bucket, unsigned page, const uint8_t *image)
{
    uint32_t position = 0;
    struct okv_entry entry;
    int rc;

    assert_int_equal(
        okv_bucket_check(image, walk->table.bucket_size, walk->table.boot_id, bucket, page), 0);
    assert_int_equal(okv_bucket_depth(image), okv_linear_depth(bucket, walk->count));
    while ((rc = okv_bucket_next(image, &position, &entry)) == 1)
        audit_entry(walk, bucket, page, image, &entry);
    assert_int_equal(rc, 0);
}

static uint64_t segment_offset(const struct walk *walk, uint64_t segment)
{
    return okv_get_u64(walk->region + walk->table.directory_offset + 8 * segment);
}

static void audit_bucket(struct walk *walk, uint64_t bucket)
{
    uint64_t in_segment = bucket % walk->table.segment_buckets;
    uint64_t offset = segment_offset(walk, bucket / walk->table.segment_buckets) +
                      in_segment * walk->table.bucket_size;
    uint64_t version = okv_bucket_version(walk->region + offset);
    unsigned page = 0;

    walk->bucket_count = 0;
    for (; offset; page++) {
        assert_true(page < OKV_BUCKET_PAGES_MAX);
        if (page > 0) {
            add_piece(walk, offset, walk->table.bucket_size);
            walk->audit->overflow_pages++;
        }
        const uint8_t *image = walk->region + offset;
        assert_true(okv_bucket_version(image) == version);
        audit_page(walk, bucket, page, image);
        offset = okv_bucket_chain(image);
    }
    if (page > walk->audit->longest_chain)
        walk->audit->longest_chain = page;
}

static int by_offset(const void *a, const void *b)
{
    uint64_t x = ((const struct piece *)a)->offset, y = ((const struct piece *)b)->offset;

    return x < y ? -1 : x > y;
}

static void audit_pieces(struct walk *walk)
{
    qsort(walk->pieces, walk->piece_count, sizeof *walk->pieces, by_offset);
    for (size_t i = 1; i < walk->piece_count; i++)
        assert_true(walk->pieces[i - 1].offset + walk->pieces[i - 1].length <=
                    walk->pieces[i].offset);
}

static void audit_directory(struct walk *walk)
{
    uint64_t buckets = walk->table.segment_buckets;

    walk->audit->segments = (walk->count + buckets - 1) / buckets;
    assert_true(walk->audit->segments <= OKV_DIRECTORY_ENTRIES);
    for (uint64_t i = 0; i < OKV_DIRECTORY_ENTRIES; i++) {
        uint64_t offset = segment_offset(walk, i);
        assert_true((offset != 0) == (i < walk->audit->segments));
        if (offset)
            add_piece(walk, offset, buckets * walk->table.bucket_size);
    }
}

void store_audit_run(const uint8_t *region, uint64_t length, uint32_t inline_max,
                     store_audit_visit *visit, void *context, struct store_audit *out)
{
    struct walk walk = {
        .region = region,
        .inline_max = inline_max,
        .visit = visit,
        .context = context,
        .audit = out,
    };
    struct okv_table_status status;

    *out = (struct store_audit){0};
    assert_int_equal(okv_superblock_decode(region, length, &walk.table), 0);
    assert_true(walk.table.region_length == length);
    assert_int_equal(okv_status_decode(region + OKV_STATUS_OFFSET, walk.table.boot_id, &status), 0);
    walk.count = out->buckets = status.bucket_count;
    audit_directory(&walk);
    for (uint64_t bucket = 0; bucket < walk.count; bucket++)
        audit_bucket(&walk, bucket);
    audit_pieces(&walk);
    free(walk.pieces);
    free(walk.bucket);
}
