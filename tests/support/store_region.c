#include "tests/support/store_region.h"

#include <sys/mman.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"
#include "tests/support/random.h"

void store_region_open(struct store_region *region, const struct okv_store_params *wanted)
{
    struct okv_store_params params = *wanted;

    region->length = params.length;
    region->base =
        mmap(NULL, params.length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(region->base != MAP_FAILED);
    params.base = region->base;
    params.boot_id = 0x1122334455667788;
    params.hash_seed = 42;
    if (params.max_value == 0)
        params.max_value = 64u << 10;
    assert_int_equal(okv_store_init(&region->store, &params), 0);
    assert_int_equal(okv_store_work_init(&region->work, params.bucket_size), 0);
    store_reader_open(&region->reader, region->base, params.length, params.max_value);
    region->buffer = malloc(params.max_value);
    assert_non_null(region->buffer);
    region->empty_used = okv_heap_used(&region->store.heap);
}

void store_region_close(struct store_region *region)
{
    free(region->buffer);
    store_reader_close(&region->reader);
    okv_store_work_fini(&region->work);
    okv_store_fini(&region->store);
    munmap(region->base, region->length);
}

int store_region_put(struct store_region *region, const void *key, uint32_t key_length,
                     const void *value, uint32_t value_length, uint64_t *version)
{
    const struct okv_store_write write = {
        .key = key, .key_length = key_length, .value = value, .value_length = value_length};
    struct okv_store_outcome outcome = {0};
    int rc = okv_store_put(&region->store, &region->work, &write, &outcome);

    assert_true((rc == 0) == (outcome.version != 0));
    if (version)
        *version = outcome.version;
    return rc;
}

static void complete(struct store_region *region, const struct okv_store_write *write,
                     uint64_t slice, struct okv_store_long_value *value)
{
    okv_store_long_begin(&region->store, value, write);
    while (!okv_store_long_is_complete(value))
        okv_store_long_step(&region->store, value, slice);
}

int store_region_append(struct store_region *region, const struct okv_store_write *write,
                        uint64_t slice, struct okv_store_outcome *outcome)
{
    struct okv_store_long_value value = {.extent = 0};
    struct okv_store_write long_write = *write;

    long_write.long_value = &value;
    int rc = okv_store_append(&region->store, &region->work, &long_write, outcome);
    if (rc != OKV_STORE_LONG)
        return rc;
    rc = okv_store_long_reserve(&region->store, &region->work, &value, write->key_length,
                                value.before_length + write->value_length, false);
    if (rc == 0) {
        complete(region, write, slice, &value);
        rc = okv_store_append(&region->store, &region->work, &long_write, outcome);
    }
    okv_store_long_release(&region->store, &value);
    return rc;
}

bool store_region_make_long(struct store_region *region, const struct okv_store_write *write,
                            struct okv_store_long_value *value)
{
    *value = (struct okv_store_long_value){.extent = 0};
    if (okv_store_long_reserve(&region->store, &region->work, value, write->key_length,
                               write->value_length, false))
        return false;
    memcpy(region->base + okv_store_long_offset(value), write->value, write->value_length);
    complete(region, write, write->value_length + 1u, value);
    return true;
}

int store_region_delete(struct store_region *region, const void *key, uint32_t key_length)
{
    const struct okv_store_write write = {.key = key, .key_length = key_length};
    struct okv_store_outcome outcome;

    return okv_store_delete(&region->store, &region->work, &write, &outcome);
}

static void expect_found(int rc, bool there, const uint8_t *found, uint32_t found_length,
                         uint64_t found_version, const void *value, uint32_t value_length,
                         uint64_t version)
{
    assert_int_equal(rc, there ? 0 : OKV_ENOTFOUND);
    if (!there)
        return;
    assert_int_equal(found_version, version);
    assert_int_equal(found_length, value_length);
    assert_true(value_length == 0 || memcmp(found, value, value_length) == 0);
}

/* Without writers a reader needs at most one refresh. */
static int find_at_rest(struct store_region *region, const void *key, uint32_t key_length,
                        struct store_found *found)
{
    uint64_t rejected = region->reader.rejected;
    int rc = store_reader_find(&region->reader, key, key_length, found);

    assert_true(region->reader.rejected <= rejected + 1);
    if (rc == 0 && found->expiry_ms && found->expiry_ms <= atomic_load(&region->store.clock_ms))
        return OKV_ENOTFOUND;
    return rc;
}

void store_region_expect(struct store_region *region, const void *key, uint32_t key_length,
                         const void *value, uint32_t value_length, uint64_t version)
{
    struct store_found found;
    uint32_t length = 0;
    uint64_t other = 0;

    int rc = okv_store_get(&region->store, NULL, key, key_length, region->buffer,
                           region->store.max_value, &length, &other);
    expect_found(rc, version != 0, region->buffer, length, other, value, value_length, version);
    rc = find_at_rest(region, key, key_length, &found);
    expect_found(rc, version != 0, found.value, found.value_length, found.version, value,
                 value_length, version);
}

void store_region_audit(struct store_region *region, store_audit_visit *visit, void *context,
                        struct store_audit *audit)
{
    struct okv_store *store = &region->store;
    struct okv_store_totals *totals = &store->totals;

    store_audit_run(region->base, region->length, store->table.inline_max, visit, context, audit);
    assert_int_equal(atomic_load(&store->bucket_count), audit->buckets);
    assert_int_equal(atomic_load(&totals->items), audit->items);
    assert_int_equal(atomic_load(&totals->user_bytes), audit->user_bytes);
    assert_int_equal(atomic_load(&totals->entry_bytes), audit->entry_bytes);
    assert_int_equal(atomic_load(&totals->references), audit->references);
    assert_int_equal(atomic_load(&totals->extra_reads), audit->extra_reads);
    assert_int_equal(atomic_load(&totals->overflow_pages), audit->overflow_pages);
    assert_int_equal(atomic_load(&totals->expiring), audit->expiring);
    uint64_t segment = (uint64_t)store->table.segment_buckets * store->table.bucket_size;
    uint64_t reserve = store->reserve ? store_size_class(segment) : 0;
    assert_int_equal(okv_heap_used(&store->heap), audit->class_bytes + reserve);
    assert_int_equal(okv_store_index_length(store),
                     audit->segments * store_size_class(segment) + reserve);
    assert_int_equal(okv_store_overflow_length(store),
                     audit->overflow_pages * store_size_class(store->table.bucket_size));
}

/* The index shrinks by a few buckets per change, so further changes are needed. */
static void change_until_small(struct store_region *region)
{
    for (unsigned i = 0; i < 100000; i++) {
        if (atomic_load(&region->store.bucket_count) == OKV_STORE_BUCKETS_MIN)
            return;
        assert_int_equal(store_region_put(region, "x", 1, "", 0, NULL), 0);
        assert_int_equal(store_region_delete(region, "x", 1), 0);
    }
}

void store_region_expect_empty(struct store_region *region, bool as_made)
{
    struct store_audit audit;

    if (as_made)
        change_until_small(region);
    store_region_audit(region, NULL, NULL, &audit);
    assert_int_equal(audit.items, 0);
    assert_int_equal(audit.overflow_pages, 0);
    if (as_made)
        assert_int_equal(okv_heap_used(&region->store.heap), region->empty_used);
}

void store_region_key(const struct store_region *region, unsigned bits, unsigned *number,
                      char key[24])
{
    uint64_t hash;

    do {
        int length = snprintf(key, 24, "k%u", (*number)++);
        hash = okv_hash_key(key, (size_t)length, region->reader.table.hash_seed);
    } while (okv_hash_bucket(hash, bits) != 0);
}

uint64_t store_region_bucket(const struct store_region *region, const char *key)
{
    uint64_t hash = okv_hash_key(key, strlen(key), region->store.table.hash_seed);

    return okv_linear_bucket(hash, atomic_load(&region->store.bucket_count));
}

void store_random_init(struct store_random *random)
{
    random->state = random_seed();
}

/* splitmix64: https://prng.di.unimi.it/splitmix64.c */
uint64_t store_random_next(struct store_random *random)
{
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint32_t store_random_below(struct store_random *random, uint32_t limit)
{
    return (uint32_t)(store_random_next(random) >> 32) % limit;
}

bool store_test_is_long(void)
{
    const char *text = getenv("OKV_LONG");

    return text && strcmp(text, "1") == 0;
}
