/* Several changes as one: all of them are made, or the table is as it was. */
#include "tests/support/test.h"

#include "server/store/change_set.h"
#include "server/store/pending.h"
#include "shared/base/error.h"
#include "tests/support/store_region.h"

#define KEYS 200u
#define SET_MAX 40u
#define VALUE_MAX 3000u

static const struct okv_store_params params = {.length = 1u << 20, .bucket_size = 256};
static uint8_t bytes[1u << 20];

/* What the table is to have: a value is the bytes from its length on. */
struct model {
    uint32_t length[KEYS]; /* + 1; 0: there is none */
    uint64_t version[KEYS];
};

static struct store_region region;
static struct model model;
static char names[KEYS][24];

static int begin(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    for (unsigned i = 0; i < KEYS; i++)
        snprintf(names[i], sizeof names[i], "key%u", i);
    memset(&model, 0, sizeof model);
    store_region_open(&region, &params);
    return 0;
}

static int end(void **state)
{
    struct store_audit audit;

    (void)state;
    store_region_audit(&region, NULL, NULL, &audit);
    store_region_close(&region);
    return 0;
}

#define SET_TEST(name) TEST_WITH(name, begin, end)

static struct okv_store_set_change change_of(unsigned key, enum okv_store_set_kind kind,
                                             uint32_t length)
{
    return (struct okv_store_set_change){.kind = kind,
                                         .key = names[key],
                                         .key_length = (uint32_t)strlen(names[key]),
                                         .value = bytes + length,
                                         .value_length = length,
                                         .version = model.version[key]};
}

static unsigned key_of(const struct okv_store_set_change *change)
{
    return (unsigned)atoi((const char *)change->key + strlen("key"));
}

static int apply(struct okv_store_set_change *changes, uint32_t count)
{
    unsigned steps = 100;
    const struct okv_store_set set = {changes, count, .compares = true, .steps = &steps};

    return okv_store_change_set(&region.store, &region.work, &set);
}

/* What a set that succeeded means. */
static void note(const struct okv_store_set_change *changes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        unsigned key = key_of(&changes[i]);
        if (changes[i].kind == OKV_STORE_SET_READ)
            continue;
        bool is_put = changes[i].kind == OKV_STORE_SET_PUT;
        assert_true(!is_put || changes[i].next_version > model.version[key]);
        model.length[key] = is_put ? changes[i].value_length + 1 : 0;
        model.version[key] = is_put ? changes[i].next_version : 0;
    }
}

static void expect_model(void)
{
    for (unsigned i = 0; i < KEYS; i++) {
        uint32_t length = model.length[i] ? model.length[i] - 1 : 0;
        store_region_expect(&region, names[i], (uint32_t)strlen(names[i]), bytes + length, length,
                            model.version[i]);
    }
}

/* A random set, of different keys. */
static uint32_t make_set(struct store_random *random, struct okv_store_set_change *changes)
{
    uint32_t count = 1 + store_random_below(random, SET_MAX);
    unsigned first = store_random_below(random, KEYS);

    for (uint32_t i = 0; i < count; i++) {
        unsigned key = (first + i * 3) % KEYS;
        enum okv_store_set_kind kind = store_random_below(random, 4);
        if (kind > OKV_STORE_SET_PUT || !model.version[key])
            kind = OKV_STORE_SET_PUT;
        changes[i] =
            change_of(key, kind,
                      store_random_below(random, 10) ? store_random_below(random, 100)
                                                     : store_random_below(random, VALUE_MAX));
    }
    return count;
}

/* Until the table is full most of the time. */
SET_TEST(all_changes_or_none)
{
    struct okv_store_set_change changes[SET_MAX];
    struct store_random random;
    unsigned made = 0;

    store_random_init(&random);
    for (unsigned round = 0; round < 3000 / STORE_TEST_SLOWNESS; round++) {
        uint32_t count = make_set(&random, changes);
        int rc = apply(changes, count);
        assert_int_equal(rc, 0);
        note(changes, count);
        made++;
        if (round % 50 == 0)
            expect_model();
    }
    expect_model();
    assert_true(made > 0);
}

SET_TEST(a_set_that_others_were_faster_than)
{
    struct okv_store_set_change changes[3];

    changes[0] = change_of(1, OKV_STORE_SET_PUT, 10);
    assert_int_equal(apply(changes, 1), 0);
    note(changes, 1);
    for (unsigned wrong = 0; wrong < 3; wrong++) {
        changes[0] = change_of(1, OKV_STORE_SET_READ, 0);
        changes[1] = change_of(2, OKV_STORE_SET_PUT, 2000);
        changes[2] = change_of(3, OKV_STORE_SET_PUT, 20);
        changes[wrong].version++;
        assert_int_equal(apply(changes, 3), OKV_ECONFLICT);
        expect_model();
    }
    changes[0] = change_of(1, OKV_STORE_SET_REMOVE, 0);
    changes[0].version++;
    assert_int_equal(apply(changes, 1), OKV_ECONFLICT);
    expect_model();
}

/* ---- no room ---- */

static void fill(void)
{
    char key[24];
    unsigned n = 0;

    for (uint32_t length = 60000; length > 20; length /= 2)
        do
            snprintf(key, sizeof key, "fill%u", n++);
        while (store_region_put(&region, key, (uint32_t)strlen(key), bytes, length, NULL) == 0);
}

/* The last one has no room: nothing is there, and nothing is lost. */
SET_TEST(a_set_without_room)
{
    struct okv_store_set_change changes[SET_MAX];

    for (unsigned key = 0; key < 10; key++) {
        changes[0] = change_of(key, OKV_STORE_SET_PUT, 2000);
        assert_int_equal(apply(changes, 1), 0);
        note(changes, 1);
    }
    fill();
    uint64_t used = okv_heap_used(&region.store.heap);
    for (unsigned i = 0; i < 10; i++)
        changes[i] = change_of(i, OKV_STORE_SET_PUT, 10);
    changes[10] = change_of(10, OKV_STORE_SET_PUT, 60000);
    assert_int_equal(apply(changes, 11), OKV_EFULL);
    assert_int_equal(okv_heap_used(&region.store.heap), used);
    expect_model();
    for (unsigned i = 0; i < 10; i++)
        changes[i] = change_of(i, i % 2 ? OKV_STORE_SET_REMOVE : OKV_STORE_SET_PUT, 10);
    assert_int_equal(apply(changes, 10), 0);
    note(changes, 10);
    expect_model();
}

/* ---- the log ---- */

struct fake_log {
    int result;
    size_t calls, records;
    uint64_t versions;
};

static int accept(void *user)
{
    (void)user;
    return 0;
}

static int add(void *user, const struct okv_store_record *records, size_t count)
{
    struct fake_log *log = user;

    log->calls++;
    for (size_t i = 0; i < count; i++)
        log->versions += records[i].version > 0;
    log->records += count;
    return log->result;
}

static bool never(void *user)
{
    (void)user;
    return false;
}

static void nothing(void *user)
{
    (void)user;
}

SET_TEST(a_set_that_the_log_refuses)
{
    struct fake_log log = {.result = OKV_EDISKFULL};
    const struct okv_store_log calls = {
        .check = accept, .add = add, .is_throttled = never, .wake = nothing, .user = &log};
    struct okv_store_set_change changes[3];

    assert_int_equal(okv_store_pending_begin(&region.store, &calls), 0);
    changes[0] = change_of(1, OKV_STORE_SET_PUT, 2000);
    changes[1] = change_of(2, OKV_STORE_SET_PUT, 20);
    changes[2] = change_of(3, OKV_STORE_SET_READ, 0);
    assert_int_equal(apply(changes, 3), OKV_EDISKFULL);
    assert_int_equal(log.calls, 1);
    assert_int_equal(log.records, 2);
    okv_store_pending_publish(&region.store);
    expect_model();
    log.result = 0;
    assert_int_equal(apply(changes, 3), 0);
    assert_int_equal(log.calls, 2);
    assert_int_equal(log.versions, 4);
    note(changes, 3);
    okv_store_pending_publish(&region.store);
    expect_model();
    okv_store_pending_end(&region.store);
}
