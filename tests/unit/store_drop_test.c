/* A batch that is dropped: table, totals and heap are as before it. */
#include "tests/support/test.h"

#include "server/store/evict.h"
#include "server/store/pending.h"
#include "shared/base/error.h"
#include "tests/support/store_region.h"

#define KEYS 300u
#define VALUE_MAX 3000u
#define CHANGES 400u /* of a batch, so that many are of the same key */
#define BATCHES (60u / STORE_TEST_SLOWNESS)

static uint8_t bytes[2 * VALUE_MAX];

/* What the table is to have: a value is the bytes from its length on. */
struct model {
    bool is_there[KEYS];
    uint32_t length[KEYS];
    uint64_t version[KEYS];
};

struct trial {
    struct store_region region;
    struct store_random random;
    struct model model;
};

static int accept(void *user)
{
    (void)user;
    return 0;
}

static int accept_records(void *user, const struct okv_store_record *records, size_t count)
{
    (void)user, (void)records, (void)count;
    return 0;
}

static bool never(void *user)
{
    (void)user;
    return false;
}

static void wake(void *user)
{
    (void)user;
}

static struct trial *trial_begin(enum okv_store_full full)
{
    static const struct okv_store_log log = {
        .check = accept, .add = accept_records, .is_throttled = never, .wake = wake};
    const struct okv_store_params params = {.length = 2u << 20, .bucket_size = 256, .full = full};
    struct trial *trial = calloc(1, sizeof *trial);

    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    store_random_init(&trial->random);
    store_region_open(&trial->region, &params);
    assert_int_equal(okv_store_pending_begin(&trial->region.store, &log), 0);
    return trial;
}

static void trial_end(struct trial *trial)
{
    okv_store_pending_end(&trial->region.store);
    store_region_close(&trial->region);
    free(trial);
}

/* ---- changes ---- */

static uint32_t choose_length(struct trial *trial)
{
    return store_random_below(&trial->random,
                              store_random_below(&trial->random, 4) ? 60 : VALUE_MAX);
}

/* A long value is there before the put, in an extent of its own. */
static void put(struct trial *trial, uint32_t key, struct model *model)
{
    struct store_region *region = &trial->region;
    uint32_t length = choose_length(trial);
    struct okv_store_long_value value = {.extent = 0};
    struct okv_store_outcome outcome;
    struct okv_store_write write = {.key = &key,
                                    .key_length = sizeof key,
                                    .value = bytes + length,
                                    .value_length = length,
                                    .ttl_ms = store_random_below(&trial->random, 2) * 1000000};

    if (length > 1000 && store_region_make_long(region, &write, &value)) {
        write.long_value = &value;
        write.value = NULL;
    }
    assert_int_equal(okv_store_put(&region->store, &region->work, &write, &outcome), 0);
    okv_store_long_release(&region->store, &value);
    model->is_there[key] = true;
    model->length[key] = length;
    model->version[key] = outcome.version;
}

static void delete (struct trial *trial, uint32_t key, struct model *model)
{
    int rc = store_region_delete(&trial->region, &key, sizeof key);

    assert_int_equal(rc, model->is_there[key] ? 0 : OKV_ENOTFOUND);
    model->is_there[key] = false;
}

/* Returns what the table has if the batch is published. */
static struct model change(struct trial *trial)
{
    unsigned deletes = 1 + store_random_below(&trial->random, 4); /* of 5 changes */
    struct model model = trial->model;

    for (unsigned i = 0; i < CHANGES; i++) {
        uint32_t key = store_random_below(&trial->random, KEYS);
        if (store_random_below(&trial->random, 5) < deletes)
            delete (trial, key, &model);
        else
            put(trial, key, &model);
    }
    return model;
}

static void expect_model(struct trial *trial)
{
    const struct model *model = &trial->model;
    struct store_audit audit;

    store_region_audit(&trial->region, NULL, NULL, &audit);
    for (uint32_t key = 0; key < KEYS; key++)
        store_region_expect(&trial->region, &key, sizeof key, bytes + model->length[key],
                            model->length[key], model->is_there[key] ? model->version[key] : 0);
}

/* ---- the tests ---- */

TEST(a_dropped_batch_leaves_no_trace)
{
    struct trial *trial = trial_begin(OKV_STORE_REFUSE);
    struct okv_store *store = &trial->region.store;

    for (unsigned i = 0; i < BATCHES; i++) {
        uint64_t used = okv_heap_used(&store->heap);
        struct model next = change(trial);
        if (store_random_below(&trial->random, 2)) {
            okv_store_pending_publish(store);
            trial->model = next;
        } else {
            okv_store_pending_drop(store);
            assert_int_equal(okv_heap_used(&store->heap), used);
        }
        expect_model(trial);
    }
    trial_end(trial);
}

/* Puts that evict; what was evicted in the batch is there again. */
TEST(a_dropped_batch_has_evicted_nothing)
{
    struct trial *trial = trial_begin(OKV_STORE_EVICT);
    struct store_region *region = &trial->region;
    struct okv_store *store = &region->store;
    struct store_audit audit;
    uint32_t key = 0;

    for (unsigned batch = 0; batch < BATCHES; batch++) {
        uint64_t used = okv_heap_used(&store->heap), items = store->totals.items;
        for (unsigned i = 0; i < 200; i++, key++) {
            store_region_put(region, &key, sizeof key, bytes, VALUE_MAX / 2, NULL);
            okv_store_evict(store, &region->work);
        }
        if (batch % 2) {
            okv_store_pending_drop(store);
            assert_int_equal(okv_heap_used(&store->heap), used);
            assert_int_equal(store->totals.items, items);
        } else {
            okv_store_pending_publish(store);
        }
        store_region_audit(region, NULL, NULL, &audit);
    }
    assert_true(store->eviction.evicted_new + store->eviction.evicted_main > 0);
    trial_end(trial);
}
