#include "tests/support/store_filler.h"

#include "tests/support/test.h"

#include "shared/base/error.h"

/* A bucket may be full while the region is not, so several puts in a row must fail. */
#define REFUSALS 20u

const struct store_mix store_mixes[STORE_MIXES] = {
    {"8/8", 8, 8},       {"16/32", 16, 32},       {"24/100", 24, 100}, {"32/1K", 32, 1024},
    {"32/4K", 32, 4096}, {"32/100K", 32, 102400}, {"mixed", 0, 0},
};

void store_filler_open(struct store_filler *filler, struct store_region *region, uint64_t seed)
{
    *filler = (struct store_filler){.region = region, .random = {.state = seed}};
    filler->value = malloc(region->store.max_value);
    assert_non_null(filler->value);
}

void store_filler_close(struct store_filler *filler)
{
    free(filler->items);
    free(filler->value);
}

static void make_key(const struct store_filled *item, uint8_t *key)
{
    memset(key, '#', item->key_length);
    okv_put_u64(key, item->number);
}

static void make_value(struct store_filler *filler, const struct store_filled *item)
{
    struct store_random random = {.state = item->number << 20 ^ item->writes};

    for (uint32_t at = 0; at < item->value_length; at += 8) {
        uint8_t word[8];
        uint32_t left = item->value_length - at;
        okv_put_u64(word, store_random_next(&random));
        memcpy(filler->value + at, word, left < 8 ? left : 8);
    }
}

static int put(struct store_filler *filler, struct store_filled *item)
{
    uint8_t key[OKV_KEY_MAX];
    uint64_t version;

    make_key(item, key);
    item->writes++;
    make_value(filler, item);
    filler->operations++;
    int rc = store_region_put(filler->region, key, item->key_length, filler->value,
                              item->value_length, &version);
    if (rc == 0)
        item->version = version;
    else
        item->writes--;
    return rc;
}

static void keep(struct store_filler *filler, const struct store_filled *item)
{
    if (filler->count == filler->capacity) {
        filler->capacity = filler->capacity ? 2 * filler->capacity : 1024;
        filler->items = realloc(filler->items, filler->capacity * sizeof *filler->items);
        assert_non_null(filler->items);
    }
    filler->items[filler->count++] = *item;
    filler->user_bytes += item->key_length + item->value_length;
}

uint64_t store_filler_fill(struct store_filler *filler, const struct store_mix *mix)
{
    uint64_t before = filler->user_bytes;

    for (unsigned refused = 0; refused < REFUSALS;) {
        const struct store_mix *kind = mix;
        if (kind->value_length == 0)
            kind = &store_mixes[store_random_below(&filler->random, STORE_MIXES - 1)];
        struct store_filled item = {
            .number = filler->next_number++,
            .key_length = kind->key_length,
            .value_length = kind->value_length,
        };
        int rc = put(filler, &item);
        if (rc == 0)
            keep(filler, &item);
        else
            assert_int_equal(rc, OKV_EFULL);
        refused = rc ? refused + 1 : 0;
    }
    return filler->user_bytes - before;
}

uint64_t store_filler_delete(struct store_filler *filler, unsigned percent)
{
    uint64_t before = filler->user_bytes;

    for (unsigned i = filler->count; i-- > 0;) {
        struct store_filled *item = &filler->items[i];
        uint8_t key[OKV_KEY_MAX];
        if (store_random_below(&filler->random, 100) >= percent)
            continue;
        make_key(item, key);
        filler->operations++;
        assert_int_equal(store_region_delete(filler->region, key, item->key_length), 0);
        filler->user_bytes -= item->key_length + item->value_length;
        *item = filler->items[--filler->count];
    }
    return before - filler->user_bytes;
}

static void expect(struct store_filler *filler, struct store_filled *item)
{
    struct okv_store *store = &filler->region->store;
    uint8_t key[OKV_KEY_MAX];
    uint64_t version = 0;
    uint32_t length;

    make_key(item, key);
    /* In a full region the version may increase without a write (docs/format.md section 3). */
    assert_int_equal(okv_store_get(store, NULL, key, item->key_length, NULL, 0, &length, &version),
                     OKV_ETOOSMALL);
    assert_true(version >= item->version);
    item->version = version;
    make_value(filler, item);
    store_region_expect(filler->region, key, item->key_length, filler->value, item->value_length,
                        item->version);
}

bool store_filler_overwrite(struct store_filler *filler)
{
    struct store_filled *item = &filler->items[store_random_below(&filler->random, filler->count)];
    int rc = put(filler, item);

    assert_true(rc == 0 || rc == OKV_EFULL);
    expect(filler, item);
    return rc == 0;
}

void store_filler_read(struct store_filler *filler)
{
    filler->operations++;
    expect(filler, &filler->items[store_random_below(&filler->random, filler->count)]);
}
