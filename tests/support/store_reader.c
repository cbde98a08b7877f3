#include "tests/support/store_reader.h"

#include <stdbool.h>

#include "tests/support/test.h"
#include <sched.h>

#include "shared/base/error.h"
#include "shared/base/ordering.h"
#include "shared/format/hash.h"
#include "shared/format/linear.h"

/* Attempts before a table counts as damaged; each yields to the writer. */
#define ATTEMPTS 100000

__attribute__((no_sanitize("thread"), noinline)) void store_reader_copy(void *to, const void *from,
                                                                        uint64_t length)
{
    const volatile uint64_t *words = from;
    const volatile uint8_t *bytes = from;
    uint64_t at = 0;

    for (; at + sizeof *words <= length && (uintptr_t)from % sizeof *words == 0;
         at += sizeof *words) {
        uint64_t word = words[at / sizeof *words];
        memcpy((uint8_t *)to + at, &word, sizeof word);
    }
    for (; at < length; at++)
        ((volatile uint8_t *)to)[at] = bytes[at];
    okv_snapshot_fence();
}

/* Reads bucket count and directory again, as a client does after a rejected image. */
static void refresh(struct store_reader *reader)
{
    struct okv_table_status status;
    uint8_t bytes[sizeof(struct okv_wire_status)];
    okv_le64 entries[OKV_DIRECTORY_ENTRIES];

    store_reader_copy(bytes, reader->base + OKV_STATUS_OFFSET, sizeof bytes);
    if (okv_status_decode(bytes, reader->table.boot_id, &status) == 0)
        reader->count = status.bucket_count;
    store_reader_copy(entries, reader->base + reader->table.directory_offset, sizeof entries);
    for (unsigned i = 0; i < OKV_DIRECTORY_ENTRIES; i++)
        reader->directory[i] = okv_le64_get(entries[i]);
}

void store_reader_open(struct store_reader *reader, const void *base, uint64_t length,
                       uint32_t value_max)
{
    *reader = (struct store_reader){.base = base, .count = 1};
    assert_int_equal(okv_superblock_decode(base, length, &reader->table), 0);
    assert_int_equal(reader->table.region_length, length);
    reader->extent_size = (uint64_t)OKV_KEY_MAX + value_max;
    reader->extent = malloc(reader->extent_size);
    assert_non_null(reader->extent);
    refresh(reader);
}

void store_reader_close(struct store_reader *reader)
{
    free(reader->extent);
}

enum verdict { FOUND, MISS, AGAIN, WRONG };

struct search {
    const void *key;
    uint32_t key_length;
    uint64_t hash;
    uint64_t bucket;
    struct store_found *out;
};

static enum verdict read_extent(struct store_reader *reader, const struct search *search,
                                const struct okv_entry *entry)
{
    uint64_t length = okv_entry_extent_length(entry);

    if (entry->extent < OKV_HEAP_OFFSET || length > reader->extent_size ||
        !okv_range_inside(entry->extent, length, reader->table.region_length))
        return WRONG;
    store_reader_copy(reader->extent, reader->base + entry->extent, length);
    reader->reads++;
    search->out->reads++;
    switch (okv_extent_check(entry, reader->extent, reader->table.boot_id, search->key,
                             search->key_length)) {
    case 0:
        search->out->value = reader->extent + (entry->key_in_extent ? entry->key_length : 0);
        search->out->extent = entry->extent;
        return FOUND;
    case OKV_ENOTFOUND:
        return MISS;
    default:
        return AGAIN;
    }
}

/* Searches the current image. */
static enum verdict search_image(struct store_reader *reader, const struct search *search)
{
    uint32_t position = 0;
    struct okv_entry entry;
    int rc;

    while ((rc = okv_bucket_find(reader->image, search->hash, search->key, search->key_length,
                                 &position, &entry)) == 1) {
        search->out->value = entry.value;
        search->out->value_length = entry.value_length;
        search->out->version = entry.version;
        search->out->expiry_ms = entry.expiry_ms;
        search->out->extent = 0;
        enum verdict verdict = entry.is_reference ? read_extent(reader, search, &entry) : FOUND;
        if (verdict != MISS)
            return verdict;
    }
    return rc == 0 ? MISS : WRONG;
}

static enum verdict read_image(struct store_reader *reader, const struct search *search,
                               uint64_t offset, unsigned page)
{
    uint32_t size = reader->table.bucket_size;

    if (offset < OKV_HEAP_OFFSET || !okv_range_inside(offset, size, reader->table.region_length))
        return WRONG;
    store_reader_copy(reader->image, reader->base + offset, size);
    reader->reads++;
    search->out->reads++;
    if (okv_bucket_check(reader->image, size, reader->table.boot_id, search->bucket, page))
        return AGAIN;
    return FOUND;
}

/* Reads and searches the overflow pages of a bucket whose primary page is the current image. */
static enum verdict search_pages(struct store_reader *reader, const struct search *search)
{
    uint64_t version = okv_bucket_version(reader->image);

    for (search->out->page = 0;; search->out->page++) {
        enum verdict verdict = search_image(reader, search);
        uint64_t chain = okv_bucket_chain(reader->image);
        if (verdict != MISS || chain == 0)
            return verdict;
        if (search->out->page + 1 == OKV_BUCKET_PAGES_MAX)
            return WRONG;
        verdict = read_image(reader, search, chain, search->out->page + 1);
        if (verdict != FOUND)
            return verdict;
        if (okv_bucket_version(reader->image) != version)
            return AGAIN;
    }
}

static enum verdict attempt(struct store_reader *reader, struct search *search)
{
    search->bucket = okv_linear_bucket(search->hash, reader->count);
    uint64_t segment = search->bucket / reader->table.segment_buckets;

    if (segment >= OKV_DIRECTORY_ENTRIES || reader->directory[segment] == 0)
        return AGAIN;
    uint64_t offset = reader->directory[segment] +
                      search->bucket % reader->table.segment_buckets * reader->table.bucket_size;
    enum verdict verdict = read_image(reader, search, offset, 0);
    if (verdict != FOUND)
        return verdict;
    unsigned depth = okv_bucket_depth(reader->image);
    bool home = okv_hash_bucket(search->hash, depth) == search->bucket;
    if (!home && okv_hash_bucket(search->bucket, depth) != search->bucket)
        reader->directory[segment] = 0; /* its segment may have moved */
    reader->count = okv_linear_learn(reader->count, search->bucket, depth);
    if (home)
        return search_pages(reader, search);
    reader->led_on++;
    return AGAIN;
}

int store_reader_find(struct store_reader *reader, const void *key, uint32_t key_length,
                      struct store_found *out)
{
    struct search search = {
        .key = key,
        .key_length = key_length,
        .hash = okv_hash_key(key, key_length, reader->table.hash_seed),
        .out = out,
    };

    for (unsigned i = 0; i < ATTEMPTS; i++) {
        uint64_t led_on = reader->led_on;
        *out = (struct store_found){0};
        switch (attempt(reader, &search)) {
        case FOUND:
            return 0;
        case MISS:
            return OKV_ENOTFOUND;
        case WRONG:
            return OKV_EPROTO;
        case AGAIN:
            break;
        }
        if (reader->led_on != led_on)
            continue;
        reader->rejected++;
        refresh(reader);
        if (i > 2)
            sched_yield();
    }
    return OKV_ECORRUPT;
}
