#include "tests/support/store_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shared/bucket.h"
#include "shared/error.h"
#include "shared/hash.h"
#include "shared/superblock.h"

struct found {
    struct okv_entry entry;
    const uint8_t *value;
    unsigned part;
};

static int find_in_part(const uint8_t *region, const struct okv_superblock *table,
                        const uint8_t *image, uint64_t hash, const void *key, uint32_t key_length,
                        struct found *out)
{
    uint32_t position = 0;
    int rc;

    while ((rc = okv_bucket_find(image, hash, key, key_length, &position, &out->entry)) == 1) {
        const struct okv_entry *entry = &out->entry;
        out->value = entry->value;
        if (!entry->is_reference)
            return 1;
        uint64_t bytes = entry->key_length + entry->value_length;
        if (!okv_range_inside(entry->extent, bytes, table->region_length))
            return OKV_ECORRUPT;
        rc = okv_extent_check(entry, region + entry->extent, table->boot_id, key, key_length);
        out->value = region + entry->extent + key_length;
        if (rc == 0)
            return 1;
        if (rc != OKV_ENOTFOUND)
            return rc;
    }
    return rc;
}

static int find(const uint8_t *region, uint64_t length, const void *key, uint32_t key_length,
                struct found *out)
{
    struct okv_superblock table;
    uint64_t version = 0;

    if (okv_superblock_decode(region, length, &table) || table.region_length != length)
        return OKV_ECORRUPT;
    uint64_t hash = okv_hash_key(key, key_length, table.hash_seed);
    uint64_t bucket = okv_hash_bucket(hash, table.depth);
    uint64_t offset = table.index_offset + bucket * table.bucket_size;
    for (out->part = 0; offset; out->part++) {
        if (out->part == OKV_BUCKET_PARTS_MAX ||
            !okv_range_inside(offset, table.bucket_size, length))
            return OKV_ECORRUPT;
        const uint8_t *image = region + offset;
        if (okv_bucket_check(image, table.bucket_size, table.boot_id, bucket, out->part) ||
            okv_bucket_depth(image) != table.depth)
            return OKV_ECORRUPT;
        if (out->part == 0)
            version = okv_bucket_version(image);
        if (okv_bucket_version(image) != version)
            return OKV_ECORRUPT;
        int rc = find_in_part(region, &table, image, hash, key, key_length, out);
        if (rc)
            return rc < 0 ? rc : 0;
        offset = okv_bucket_chain(image);
    }
    return OKV_ENOTFOUND;
}

int store_reader_get(const uint8_t *region, uint64_t length, const void *key, uint32_t key_length,
                     uint8_t *buffer, uint32_t size, uint32_t *value_length, uint64_t *version)
{
    struct found found;
    int rc = find(region, length, key, key_length, &found);

    if (rc)
        return rc;
    *value_length = found.entry.value_length;
    *version = found.entry.version;
    if (*value_length > size)
        return OKV_ETOOSMALL;
    memcpy(buffer, found.value, *value_length);
    return 0;
}

int store_reader_place(const uint8_t *region, uint64_t length, const void *key, uint32_t key_length,
                       uint64_t *extent, unsigned *part)
{
    struct found found;
    int rc = find(region, length, key, key_length, &found);

    if (rc)
        return rc;
    *extent = found.entry.is_reference ? found.entry.extent : 0;
    *part = found.part;
    return 0;
}

/* ---- audit ---- */

struct piece {
    uint64_t offset, length;
};

struct walk {
    const uint8_t *region;
    struct okv_superblock table;
    struct store_audit *audit;
    struct piece *pieces;
    size_t piece_count, piece_capacity;
};

static void add_piece(struct walk *walk, uint64_t offset, uint64_t length)
{
    uint64_t heap = walk->table.index_offset + walk->table.index_length;

    assert_true(offset >= heap);
    assert_true(okv_range_inside(offset, length, walk->table.region_length));
    if (walk->piece_count == walk->piece_capacity) {
        walk->piece_capacity = walk->piece_capacity ? 2 * walk->piece_capacity : 256;
        walk->pieces = realloc(walk->pieces, walk->piece_capacity * sizeof *walk->pieces);
        assert_non_null(walk->pieces);
    }
    walk->pieces[walk->piece_count++] = (struct piece){offset, length};
    walk->audit->heap_bytes += length;
}

static void audit_entry(struct walk *walk, uint64_t bucket, const struct okv_entry *entry)
{
    const uint8_t *key = entry->key;
    uint32_t bytes = entry->key_length + entry->value_length;

    if (entry->is_reference) {
        add_piece(walk, entry->extent, bytes);
        key = walk->region + entry->extent;
        assert_int_equal(okv_extent_checksum(key, bytes, walk->table.boot_id), entry->checksum);
        walk->audit->references++;
    }
    uint64_t hash = okv_hash_key(key, entry->key_length, walk->table.hash_seed);
    assert_int_equal(okv_hash_bucket(hash, walk->table.depth), bucket);
    assert_int_equal(okv_hash_tag(hash), entry->tag);

    struct found found;
    assert_int_equal(find(walk->region, walk->table.region_length, key, entry->key_length, &found),
                     0);
    assert_int_equal(found.entry.version, entry->version); /* else the key is there twice */
    walk->audit->items++;
    walk->audit->user_bytes += bytes;
}

static void audit_bucket(struct walk *walk, uint64_t bucket)
{
    uint64_t offset = walk->table.index_offset + bucket * walk->table.bucket_size;
    unsigned part = 0;

    for (; offset; part++) {
        const uint8_t *image = walk->region + offset;
        uint32_t position = 0;
        struct okv_entry entry;
        int rc;
        assert_int_equal(
            okv_bucket_check(image, walk->table.bucket_size, walk->table.boot_id, bucket, part), 0);
        if (part > 0) {
            add_piece(walk, offset, walk->table.bucket_size);
            walk->audit->overflow_parts++;
        }
        while ((rc = okv_bucket_next(image, &position, &entry)) == 1) {
            assert_true(entry.version <= okv_bucket_version(image));
            audit_entry(walk, bucket, &entry);
        }
        assert_int_equal(rc, 0);
        offset = okv_bucket_chain(image);
    }
    if (part > walk->audit->longest_chain)
        walk->audit->longest_chain = part;
}

static int by_offset(const void *a, const void *b)
{
    uint64_t x = ((const struct piece *)a)->offset, y = ((const struct piece *)b)->offset;

    return x < y ? -1 : x > y;
}

void store_reader_audit(const uint8_t *region, uint64_t length, struct store_audit *out)
{
    struct walk walk = {.region = region, .audit = out};

    *out = (struct store_audit){0};
    assert_int_equal(okv_superblock_decode(region, length, &walk.table), 0);
    assert_int_equal(walk.table.region_length, length);
    for (uint64_t bucket = 0; bucket < walk.table.index_length / walk.table.bucket_size; bucket++)
        audit_bucket(&walk, bucket);
    if (walk.piece_count)
        qsort(walk.pieces, walk.piece_count, sizeof *walk.pieces, by_offset);
    for (size_t i = 1; i < walk.piece_count; i++)
        assert_true(walk.pieces[i - 1].offset + walk.pieces[i - 1].length <= walk.pieces[i].offset);
    free(walk.pieces);
}
