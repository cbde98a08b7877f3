#include "tests/support/store_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shared/error.h"

#define KEYS 700u
#define VALUE_MAX 3000u
#define STEPS 60000u

struct expected {
    char key[24];
    uint64_t version; /* 0: not there */
    uint32_t size;
    uint32_t pattern;
};

struct model {
    struct store_region region;
    struct store_random random;
    struct expected items[KEYS];
    uint64_t last_version[KEYS];
    uint8_t value[VALUE_MAX];
    struct store_model_seen seen;
};

static void make_value(struct model *model, const struct expected *item)
{
    for (uint32_t i = 0; i < item->size; i++)
        model->value[i] = (uint8_t)(item->pattern + i * 31);
}

static void expect(struct model *model, const struct expected *item)
{
    make_value(model, item);
    store_region_expect(&model->region, item->key, (uint32_t)strlen(item->key), model->value,
                        item->size, item->version);
}

static uint32_t random_size(struct store_random *random)
{
    switch (store_random_below(random, 8)) {
    case 0:
        return store_random_below(random, VALUE_MAX + 1);
    case 1:
    case 2:
        return store_random_below(random, 400);
    default:
        return store_random_below(random, 50);
    }
}

static void put(struct model *model, unsigned index)
{
    struct expected *item = &model->items[index];
    struct expected next = *item;
    uint64_t version = 0;

    next.size = random_size(&model->random);
    next.pattern = store_random_below(&model->random, 256);
    make_value(model, &next);
    int rc = okv_store_put(&model->region.store, &model->region.work, item->key,
                           (uint32_t)strlen(item->key), model->value, next.size, &version);
    if (rc == OKV_EFULL) {
        model->seen.full++;
    } else {
        assert_int_equal(rc, 0);
        assert_true(version > model->last_version[index]);
        model->last_version[index] = next.version = version;
        *item = next;
    }
    expect(model, item);
}

static void delete_item(struct model *model, unsigned index)
{
    struct expected *item = &model->items[index];
    int rc = okv_store_delete(&model->region.store, &model->region.work, item->key,
                              (uint32_t)strlen(item->key));

    assert_int_equal(rc, item->version ? 0 : OKV_ENOTFOUND);
    item->version = 0;
    expect(model, item);
}

static void check_all(struct model *model)
{
    struct store_audit audit;
    uint64_t items = 0, user_bytes = 0;

    for (unsigned i = 0; i < KEYS; i++) {
        const struct expected *item = &model->items[i];
        expect(model, item);
        items += item->version != 0;
        user_bytes += item->version ? strlen(item->key) + item->size : 0;
    }
    store_region_audit(&model->region, &audit);
    assert_int_equal(audit.items, items);
    assert_int_equal(audit.user_bytes, user_bytes);
    model->seen.spilled += audit.references > 0;
    if (audit.longest_chain > model->seen.longest)
        model->seen.longest = (unsigned)audit.longest_chain;
}

/* Writes prevail, then deletes, in turn: the region fills and empties. */
static void run(struct model *model, unsigned steps)
{
    for (unsigned step = 0; step < steps; step++) {
        bool filling = step / 4000 % 2 == 0;
        unsigned index = store_random_below(&model->random, KEYS);
        unsigned choice = store_random_below(&model->random, 10);
        if (choice < (filling ? 7u : 2u))
            put(model, index);
        else if (choice < 9)
            delete_item(model, index);
        else
            expect(model, &model->items[index]);
        if (step % 1000 == 999)
            check_all(model);
    }
}

static void model_open(struct model *model, const struct store_model_params *params)
{
    store_random_init(&model->random);
    store_region_open(&model->region, params->length, params->bucket_size, params->inline_max);
    for (unsigned i = 0, number = 0; i < KEYS; i++)
        store_region_key(&model->region, params->buckets, &number, model->items[i].key);
}

static void model_close(struct model *model)
{
    struct store_audit audit;

    for (unsigned i = 0; i < KEYS; i++)
        delete_item(model, i);
    store_region_audit(&model->region, &audit);
    assert_int_equal(audit.items, 0);
    assert_int_equal(audit.heap_bytes, 0);
    assert_int_equal(audit.overflow_parts, 0);
    assert_int_equal(okv_heap_used(&model->region.store.heap), 0);
    store_region_close(&model->region);
    free(model);
}

static unsigned steps(void)
{
    const char *text = getenv("OKV_TEST_STEPS");

    return text ? (unsigned)strtoul(text, NULL, 0) : STEPS;
}

void store_model_run(const struct store_model_params *params, struct store_model_seen *seen)
{
    struct model *model = calloc(1, sizeof *model);

    assert_non_null(model);
    model_open(model, params);
    run(model, steps() / params->shorten);
    *seen = model->seen;
    model_close(model);
}
