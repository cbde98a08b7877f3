#include "tests/support/store_model.h"

#include <inttypes.h>

#include "tests/support/test.h"

#include "server/store/expire.h"
#include "server/store/flush.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"

/* Operations between two comparisons of the whole table. */
#define CHECK_EVERY 1000u
/* Operations while the table fills, then empties. */
#define PHASE 5000u
/* Characters of INT64_MIN, and a NUL. */
#define SLICE_MAX 50000u /* bytes of a step of a long append */
#define NUMBER_TEXT 21

struct expected {
    uint8_t key[OKV_KEY_MAX];
    uint32_t key_length;
    bool there;  /* unless it has expired */
    bool ghost;  /* it expired and was counted */
    bool walked; /* seen by the current walk */
    uint8_t *value;
    uint32_t length;
    uint64_t version, last_version, expiry;
};

struct model {
    const struct store_model_params *params;
    struct store_region region;
    struct store_random random;
    struct expected *items;
    uint64_t clock;
    uint64_t ghosts, ghosts_flushed; /* since the start */
    uint8_t *scratch;                /* one byte more than the largest value */
    struct store_model_seen seen;
};

static bool is_live(const struct model *model, const struct expected *item)
{
    return item->there && (item->expiry == 0 || item->expiry > model->clock);
}

static void expect(struct model *model, const struct expected *item)
{
    store_region_expect(&model->region, item->key, item->key_length, item->value, item->length,
                        is_live(model, item) ? item->version : 0);
}

/* In a full region an item may get a higher version without having been written
 * (docs/format.md section 3). */
static void catch_up(struct model *model, struct expected *item)
{
    uint64_t version = 0;
    uint32_t length;

    if (model->params->roomy || !is_live(model, item))
        return;
    int rc = okv_store_get(&model->region.store, NULL, item->key, item->key_length, NULL, 0,
                           &length, &version);
    assert_true(rc == OKV_ETOOSMALL || (rc == 0 && item->length == 0));
    assert_true(version >= item->version);
    item->version = item->last_version = version;
}

static struct okv_store_write write_of(const struct expected *item)
{
    return (struct okv_store_write){.key = item->key, .key_length = item->key_length};
}

static uint64_t random_ttl(struct model *model)
{
    switch (store_random_below(&model->random, 8)) {
    case 0:
        return 1;
    case 1:
        return UINT64_C(1) << 40;
    case 2:
        return 1 + store_random_below(&model->random, 5000);
    default:
        return 0;
    }
}

static uint32_t random_length(struct model *model)
{
    uint32_t max = model->region.store.max_value;

    switch (store_random_below(&model->random, 24)) {
    case 0:
        return store_random_below(&model->random, max + 2); /* one past the limit */
    case 1:
        return store_random_below(&model->random, 6000);
    case 2:
    case 3:
        return store_random_below(&model->random, 600);
    default:
        return store_random_below(&model->random, model->params->usual_value);
    }
}

static void random_bytes(struct model *model, uint32_t length)
{
    uint64_t first = store_random_next(&model->random);

    for (uint32_t i = 0; i < length; i++)
        model->scratch[i] = (uint8_t)(first + i * (first >> 56 | 1));
}

/* Checks the outcome of a write and updates `item`. */
static void settle(struct model *model, struct expected *item, int rc, int wanted,
                   const struct okv_store_outcome *outcome, const uint8_t *value, uint32_t length,
                   uint64_t expiry)
{
    if (wanted == 0 && (rc == OKV_EFULL || rc == OKV_EBUCKETFULL)) {
        assert_false(model->params->roomy);
        model->seen.full += rc == OKV_EFULL;
        model->seen.bucket_full += rc == OKV_EBUCKETFULL;
        assert_int_equal(outcome->version, 0);
    } else {
        assert_int_equal(rc, wanted);
        bool told = rc == OKV_ECONFLICT || rc == OKV_EEXISTS;
        if (rc)
            assert_int_equal(outcome->version, told ? item->version : 0);
    }
    if (rc == 0) {
        assert_true(outcome->version > item->last_version);
        item->version = item->last_version = outcome->version;
        if (value != item->value) {
            item->value = realloc(item->value, length + 1u);
            assert_non_null(item->value);
            memcpy(item->value, value, length);
        }
        item->length = length;
        item->expiry = expiry;
        item->there = true;
        item->ghost = false;
    }
    expect(model, item);
}

static int condition(const struct model *model, const struct expected *item,
                     const struct okv_store_write *write)
{
    bool live = is_live(model, item);

    if (write->if_absent && live)
        return OKV_EEXISTS;
    if (write->if_version && !live)
        return OKV_ENOTFOUND;
    return write->if_version && write->version != item->version ? OKV_ECONFLICT : 0;
}

static void random_condition(struct model *model, const struct expected *item,
                             struct okv_store_write *write)
{
    write->if_version = true;
    write->version = item->version;
    if (store_random_below(&model->random, 3) == 0)
        write->version += store_random_below(&model->random, 2) ? 1 : UINT64_MAX;
}

static void put(struct model *model, struct expected *item)
{
    struct okv_store *store = &model->region.store;
    struct okv_store_write write = write_of(item);
    struct okv_store_outcome outcome = {.version = 1};
    struct okv_store_long_value value;

    write.value_length = random_length(model);
    random_bytes(model, write.value_length);
    write.value = model->scratch;
    write.ttl_ms = random_ttl(model);
    uint32_t kind = store_random_below(&model->random, 8);
    bool live = is_live(model, item);
    write.if_absent = kind == 0;
    if (kind == 1)
        random_condition(model, item, &write);
    write.keep_ttl = kind == 1 || kind == 3 || kind == 5;
    if (write.keep_ttl)
        write.ttl_ms = 0;
    int wanted = condition(model, item, &write);
    if (write.value_length > store->max_value)
        wanted = OKV_EVALUESIZE;
    else if (kind >= 2 && kind < 4 && store_region_make_long(&model->region, &write, &value))
        write.long_value = &value;
    int rc = okv_store_put(store, &model->region.work, &write, &outcome);
    if (write.long_value)
        okv_store_long_release(store, &value);
    settle(model, item, rc, wanted, &outcome, model->scratch, write.value_length,
           write.keep_ttl && live ? item->expiry
           : write.ttl_ms         ? model->clock + write.ttl_ms + 1
                                  : 0);
}

static void append(struct model *model, struct expected *item)
{
    struct okv_store_write write = write_of(item);
    struct okv_store_outcome outcome = {.version = 1};
    uint32_t before = is_live(model, item) ? item->length : 0;
    uint32_t max = model->region.store.max_value;

    /* Also up to the limit, and one past it. */
    uint32_t exact = max - before + store_random_below(&model->random, 2);
    write.value_length = store_random_below(&model->random, 20) ? random_length(model) : exact;
    random_bytes(model, write.value_length);
    write.value = model->scratch;
    int wanted = write.value_length > max - before ? OKV_EVALUESIZE : 0;
    int rc = store_region_append(&model->region, &write,
                                 1 + store_random_below(&model->random, SLICE_MAX), &outcome);
    if (rc == 0) {
        assert_int_equal(outcome.length, before + write.value_length);
        memmove(model->scratch + before, model->scratch, write.value_length);
        if (before)
            memcpy(model->scratch, item->value, before);
    }
    settle(model, item, rc, wanted, &outcome, model->scratch, before + write.value_length,
           is_live(model, item) ? item->expiry : 0);
}

/* Parses the value as a number. 0, OKV_ENUMBER. */
static int number_of(const struct expected *item, int64_t *number)
{
    char text[NUMBER_TEXT] = "";
    uint32_t sign = item->length > 0 && item->value[0] == '-';

    if (item->length == sign || item->length - sign > 19)
        return OKV_ENUMBER;
    memcpy(text, item->value, item->length);
    if (text[sign] == '0' && item->length > 1)
        return OKV_ENUMBER;
    if (strspn(text + sign, "0123456789") != item->length - sign)
        return OKV_ENUMBER;
    __int128 sum = 0;
    for (uint32_t i = sign; i < item->length; i++)
        sum = sum * 10 + (text[i] - '0');
    sum = sign ? -sum : sum;
    *number = (int64_t)sum;
    return sum == *number ? 0 : OKV_ENUMBER;
}

static void incr(struct model *model, struct expected *item)
{
    struct okv_store_write write = write_of(item);
    struct okv_store_outcome outcome = {.version = 1};
    bool live = is_live(model, item);
    int64_t number = 0;
    char text[NUMBER_TEXT];

    write.delta = (int64_t)store_random_next(&model->random);
    write.delta >>= store_random_below(&model->random, 64);
    write.ttl_ms = random_ttl(model);
    int wanted = live ? number_of(item, &number) : 0;
    if (!wanted && __builtin_add_overflow(number, write.delta, &number))
        wanted = OKV_EOVERFLOW;
    int rc = okv_store_incr(&model->region.store, &model->region.work, &write, &outcome);
    if (rc == 0)
        assert_int_equal(outcome.number, number);
    int length = snprintf(text, sizeof text, "%" PRId64, number);
    settle(model, item, rc, wanted, &outcome, (const uint8_t *)text, (uint32_t)length,
           live           ? item->expiry
           : write.ttl_ms ? model->clock + write.ttl_ms + 1
                          : 0);
}

static void touch(struct model *model, struct expected *item)
{
    struct okv_store_write write = write_of(item);
    struct okv_store_outcome outcome = {.version = 1};
    bool live = is_live(model, item);

    int wanted = live ? 0 : OKV_ENOTFOUND;

    write.ttl_ms = random_ttl(model);
    if (store_random_below(&model->random, 2)) {
        write.room = model->scratch;
        write.room_size = store_random_below(&model->random, 2) ? model->region.store.max_value
                                                                : random_length(model);
        if (live && write.room_size < item->length)
            wanted = OKV_EVALUESIZE;
    }
    int rc = okv_store_touch(&model->region.store, &model->region.work, &write, &outcome);
    assert_int_equal(outcome.length, rc == 0 && write.room ? item->length : 0);
    if (outcome.length)
        assert_memory_equal(write.room, item->value, item->length);
    settle(model, item, rc, wanted, &outcome, item->value, item->length,
           write.ttl_ms ? model->clock + write.ttl_ms + 1 : 0);
}

static void delete_item(struct model *model, struct expected *item)
{
    struct okv_store_write write = write_of(item);
    struct okv_store_outcome outcome = {.version = 1};
    bool live = is_live(model, item);

    if (store_random_below(&model->random, 4) == 0)
        random_condition(model, item, &write);
    int wanted = live ? condition(model, item, &write) : OKV_ENOTFOUND;
    int rc = okv_store_delete(&model->region.store, &model->region.work, &write, &outcome);
    assert_int_equal(rc, wanted);
    assert_int_equal(outcome.version, rc == OKV_ECONFLICT ? item->version : 0);
    if (rc == 0)
        item->there = false;
    expect(model, item);
}

/* ---- the whole table ---- */

static void advance_clock(struct model *model)
{
    model->clock += 1 + store_random_below(&model->random, 2000);
    okv_store_set_clock(&model->region.store, model->clock, store_random_below(&model->random, 2));
    okv_store_set_clock(&model->region.store, model->clock - 1,
                        false); /* an earlier time must be ignored */
    for (unsigned i = 0; i < model->params->keys; i++) {
        struct expected *item = &model->items[i];
        if (item->there && !item->ghost && !is_live(model, item)) {
            item->ghost = true;
            model->ghosts++;
        }
    }
}

static void flush(struct model *model)
{
    uint64_t next = 0, splits = 0;

    do
        assert_int_equal(okv_store_flush(&model->region.store, &model->region.work, &next, &splits),
                         0);
    while (next);
    for (unsigned i = 0; i < model->params->keys; i++) {
        model->ghosts_flushed += model->items[i].ghost;
        model->items[i].there = model->items[i].ghost = false;
    }
}

/* A key begins with its number: model_open(). */
static struct expected *item_of(struct model *model, const struct okv_entry *entry)
{
    uint32_t index = entry->key_length == 1 ? entry->key[0] : okv_get_u32(entry->key);

    assert_true(index < model->params->keys);
    return &model->items[index];
}

static void walk_item(void *context, const struct okv_entry *entry)
{
    struct model *model = context;
    struct expected *item = item_of(model, entry);

    assert_int_equal(entry->key_length, item->key_length);
    assert_memory_equal(entry->key, item->key, entry->key_length);
    assert_true(item->there && !item->walked);
    if (is_live(model, item))
        assert_int_equal(entry->version, item->version);
    assert_int_equal(entry->expiry_ms, item->expiry);
    assert_int_equal(entry->value_length, item->length);
    assert_true(item->length == 0 || memcmp(entry->value, item->value, item->length) == 0);
    item->walked = true;
}

static void check_all(struct model *model)
{
    struct store_audit audit;
    uint64_t ghosts = 0;

    for (unsigned i = 0; i < model->params->keys; i++) {
        model->items[i].walked = false;
        catch_up(model, &model->items[i]);
        expect(model, &model->items[i]);
    }
    store_region_audit(&model->region, walk_item, model, &audit);
    for (unsigned i = 0; i < model->params->keys; i++) {
        struct expected *item = &model->items[i];
        assert_true(item->walked || !is_live(model, item));
        ghosts += item->ghost && item->walked;
    }
    /* Flush may or may not count expired items. */
    uint64_t expired = atomic_load(&model->region.store.totals.expired);
    assert_in_range(expired + ghosts, model->ghosts - model->ghosts_flushed, model->ghosts);
    model->seen.references += audit.references > 0;
    if (audit.longest_chain > model->seen.longest)
        model->seen.longest = (unsigned)audit.longest_chain;
    if (audit.buckets > model->seen.most_buckets)
        model->seen.most_buckets = audit.buckets;
}

/* A sweep over all buckets removes every expired item, if there is room to do so. */
static void sweep_all(struct model *model)
{
    struct store_audit audit;
    unsigned live = 0;

    okv_store_sweep(&model->region.store, &model->region.work,
                    (unsigned)atomic_load(&model->region.store.bucket_count));
    store_region_audit(&model->region, NULL, NULL, &audit);
    for (unsigned i = 0; i < model->params->keys; i++)
        live += is_live(model, &model->items[i]);
    assert_int_equal(audit.items, live);
}

static void change(struct model *model, bool filling)
{
    struct expected *item = &model->items[store_random_below(&model->random, model->params->keys)];
    uint32_t choice = store_random_below(&model->random, 100);

    catch_up(model, item);
    if (choice < (filling ? 60u : 15u))
        put(model, item);
    else if (choice < 65)
        delete_item(model, item);
    else if (choice < 75)
        append(model, item);
    else if (choice < 85)
        incr(model, item);
    else if (choice < 95)
        touch(model, item);
    else if (choice < 98)
        okv_store_sweep(&model->region.store, &model->region.work,
                        store_random_below(&model->random, 20));
    else
        advance_clock(model);
}

static void run(struct model *model, unsigned steps)
{
    for (unsigned step = 1; step <= steps; step++) {
        change(model, step / PHASE % 2 == 0);
        if (step % CHECK_EVERY == 0)
            check_all(model);
        if (step % (3 * CHECK_EVERY) == 0)
            sweep_all(model);
        if (store_random_below(&model->random, 4 * PHASE) == 0)
            flush(model);
    }
}

/* Key lengths at every limit of the format, and common ones. */
static uint32_t key_length_of(unsigned index)
{
    static const uint32_t special[] = {4, 255, 256, OKV_KEY_MAX, 28, 29, 30, 57, 58, 59};

    if (index < 8)
        return 1;
    if (index % 8 == 0)
        return special[index / 8 % (sizeof special / sizeof *special)];
    return 8 + index % 23;
}

static void make_key(struct model *model, unsigned index)
{
    struct expected *item = &model->items[index];
    uint64_t hash;

    item->key_length = key_length_of(index);
    if (item->key_length < 8) {
        uint8_t number[4];
        okv_put_u32(number, index);
        memcpy(item->key, number, item->key_length);
        return;
    }
    do { /* 8 bytes or more: enough of them vary for any common_bits */
        okv_put_u32(item->key, index);
        for (uint32_t i = 4; i < item->key_length; i++)
            item->key[i] = (uint8_t)(store_random_next(&model->random) >> 32);
        hash = okv_hash_key(item->key, item->key_length, model->region.reader.table.hash_seed);
    } while (okv_hash_bucket(hash, model->params->common_bits) != 0);
}

static struct model *model_open(const struct store_model_params *params)
{
    struct model *model = calloc(1, sizeof *model);

    assert_non_null(model);
    model->params = params;
    model->clock = 1;
    store_random_init(&model->random);
    store_region_open(&model->region, &params->store);
    model->items = calloc(params->keys, sizeof *model->items);
    model->scratch = malloc(2u * model->region.store.max_value + 2);
    assert_true(model->items && model->scratch);
    for (unsigned i = 0; i < params->keys; i++)
        make_key(model, i);
    return model;
}

static void model_close(struct model *model, struct store_model_seen *seen)
{
    for (unsigned i = 0; i < model->params->keys; i++)
        while (is_live(model, &model->items[i])) { /* a random condition may fail */
            catch_up(model, &model->items[i]);
            delete_item(model, &model->items[i]);
        }
    check_all(model);
    sweep_all(model);
    store_region_expect_empty(&model->region, false);
    model->seen.splits = atomic_load(&model->region.store.totals.splits);
    model->seen.merges = atomic_load(&model->region.store.totals.merges);
    model->seen.expired = atomic_load(&model->region.store.totals.expired);
    *seen = model->seen;
    store_region_close(&model->region);
    for (unsigned i = 0; i < model->params->keys; i++)
        free(model->items[i].value);
    free(model->items);
    free(model->scratch);
    free(model);
}

void store_model_run(const struct store_model_params *params, struct store_model_seen *seen)
{
    struct model *model = model_open(params);

    run(model, params->steps * (store_test_is_long() ? 20 : 1) / STORE_TEST_SLOWNESS);
    model_close(model, seen);
}
