/*
 * okv_store_modify() and okv_store_look(): what the caller's function sees, what becomes of what it
 * says, and that a look sees what is published only.
 */
#include "tests/support/test.h"

#include "server/store/pending.h"
#include "shared/base/error.h"
#include "tests/support/store_region.h"

#define LONG 3000u /* bytes of a value in an extent */

static const struct okv_store_params params = {.length = 1u << 20, .bucket_size = 512};
static uint8_t bytes[1u << 20];

/* What a call of decide() is to say, and what it saw. */
struct decision {
    int rc;
    struct okv_store_next next;
    bool keeps_value;
    unsigned calls;
    bool was_there;
    uint32_t value_length;
    uint8_t value[LONG];
    uint64_t version, expiry_ms;
};

static int visit(void *user, const struct okv_store_now *now)
{
    struct decision *decision = user;

    decision->was_there = now != NULL;
    if (!now)
        return decision->rc;
    assert_true(now->value_length <= sizeof decision->value);
    decision->value_length = now->value_length;
    if (now->value_length)
        memcpy(decision->value, now->value, now->value_length);
    decision->version = now->version;
    decision->expiry_ms = now->expiry_ms;
    return decision->rc;
}

static int decide(void *user, const struct okv_store_now *now, struct okv_store_next *next)
{
    struct decision *decision = user;

    decision->calls++;
    *next = decision->next;
    if (decision->keeps_value) {
        assert_non_null(now);
        next->value = now->value;
        next->value_length = now->value_length;
    }
    return visit(user, now);
}

static int modify_with(struct store_region *region, const char *key, okv_store_decide *with,
                       struct decision *decision, struct okv_store_outcome *outcome)
{
    const struct okv_store_write write = {
        .key = key, .key_length = (uint32_t)strlen(key), .decide = with, .user = decision};

    return okv_store_modify(&region->store, &region->work, &write, outcome);
}

static int modify(struct store_region *region, const char *key, struct decision *decision,
                  struct okv_store_outcome *outcome)
{
    return modify_with(region, key, decide, decision, outcome);
}

static int look(struct store_region *region, const char *key, struct decision *decision)
{
    static const struct okv_store_view view = {.newest = false};

    return okv_store_look(&region->store, &region->work, key, (uint32_t)strlen(key), &view, visit,
                          decision);
}

static uint64_t put(struct store_region *region, const char *key, uint32_t length)
{
    uint64_t version;

    assert_int_equal(store_region_put(region, key, (uint32_t)strlen(key), bytes, length, &version),
                     0);
    return version;
}

static void expect(struct store_region *region, const char *key, uint32_t length, uint64_t version)
{
    store_region_expect(region, key, (uint32_t)strlen(key), bytes, length, version);
}

static void expect_zeros(const struct okv_store_outcome *outcome)
{
    assert_int_equal(outcome->version, 0);
    assert_int_equal(outcome->number, 0);
    assert_int_equal(outcome->length, 0);
}

static void end(struct store_region *region)
{
    struct store_audit audit;

    store_region_audit(region, NULL, NULL, &audit);
    store_region_close(region);
}

/* ---- what is decided ---- */

TEST(keeping_changes_nothing)
{
    struct decision decision = {.rc = OKV_STORE_KEEP, .next = {bytes, 7, 99}};
    struct okv_store_outcome outcome;
    struct store_region region;

    store_region_open(&region, &params);
    assert_int_equal(modify(&region, "k", &decision, &outcome), 0);
    assert_false(decision.was_there);
    expect_zeros(&outcome);
    expect(&region, "k", 0, 0);
    uint64_t version = put(&region, "k", 5);
    uint64_t changes = atomic_load(&region.store.totals.changes);
    assert_int_equal(modify(&region, "k", &decision, &outcome), 0);
    assert_true(decision.was_there);
    assert_int_equal(decision.version, version);
    expect_zeros(&outcome);
    expect(&region, "k", 5, version);
    assert_int_equal(atomic_load(&region.store.totals.changes), changes);
    end(&region);
}

TEST(removing_needs_an_item)
{
    struct decision decision = {.rc = OKV_STORE_REMOVE};
    struct okv_store_outcome outcome;
    struct store_region region;

    store_region_open(&region, &params);
    assert_int_equal(modify(&region, "k", &decision, &outcome), OKV_ENOTFOUND);
    put(&region, "k", LONG);
    put(&region, "other", 3);
    assert_int_equal(modify(&region, "k", &decision, &outcome), 0);
    assert_int_equal(decision.value_length, LONG);
    expect_zeros(&outcome);
    expect(&region, "k", 0, 0);
    assert_int_equal(modify(&region, "k", &decision, &outcome), OKV_ENOTFOUND);
    assert_int_equal(store_region_delete(&region, "other", 5), 0);
    store_region_expect_empty(&region, true); /* the extent is free again */
    end(&region);
}

TEST(a_code_is_returned_and_changes_nothing)
{
    struct decision decision = {.rc = OKV_ENUMBER, .next = {bytes, 7, 0}};
    struct okv_store_outcome outcome;
    struct store_region region;

    store_region_open(&region, &params);
    uint64_t version = put(&region, "k", 5);
    assert_int_equal(modify(&region, "k", &decision, &outcome), OKV_ENUMBER);
    assert_int_equal(modify(&region, "", &decision, &outcome), OKV_EKEYSIZE);
    assert_int_equal(decision.calls, 1);
    assert_int_equal(look(&region, "k", &decision), OKV_ENUMBER);
    expect(&region, "k", 5, version);
    decision = (struct decision){.next = {bytes, (64u << 10) + 1, 0}};
    assert_int_equal(modify(&region, "k", &decision, &outcome), OKV_EVALUESIZE);
    expect(&region, "k", 5, version);
    end(&region);
}

TEST(an_item_is_made_and_replaced)
{
    static const uint32_t lengths[] = {0, 5, 200, LONG, 1, LONG + 700, 0};
    struct decision decision = {.rc = 0};
    struct okv_store_outcome outcome = {0};
    struct store_region region;
    uint64_t version = 0;

    store_region_open(&region, &params);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths - 1; i++) {
        decision.next = (struct okv_store_next){bytes, lengths[i], 0};
        assert_int_equal(modify(&region, "k", &decision, &outcome), 0);
        assert_int_equal(decision.was_there, i > 0);
        if (i > 0) {
            assert_int_equal(decision.version, version);
            assert_int_equal(decision.value_length, lengths[i - 1]);
            assert_memory_equal(decision.value, bytes, lengths[i - 1]);
        }
        assert_true(outcome.version > version);
        assert_int_equal(outcome.length, lengths[i]);
        version = outcome.version;
        expect(&region, "k", lengths[i], version);
    }
    end(&region);
}

/* ---- a value that stays ---- */

static uint64_t extent_of(struct store_region *region, const char *key, uint64_t *expiry_ms)
{
    struct store_found found;

    assert_int_equal(store_reader_find(&region->reader, key, (uint32_t)strlen(key), &found), 0);
    *expiry_ms = found.expiry_ms;
    return found.extent;
}

TEST(a_value_that_stays_keeps_its_extent)
{
    struct decision decision = {.keeps_value = true, .next.expiry_ms = 5000};
    struct okv_store_outcome outcome;
    struct store_region region;
    uint64_t expiry_ms;

    store_region_open(&region, &params);
    uint64_t version = put(&region, "k", LONG);
    uint64_t extent = extent_of(&region, "k", &expiry_ms);
    uint64_t used = okv_heap_used(&region.store.heap);
    assert_true(extent != 0 && expiry_ms == 0);
    assert_int_equal(modify(&region, "k", &decision, &outcome), 0);
    assert_true(outcome.version > version);
    assert_int_equal(outcome.length, LONG);
    assert_int_equal(extent_of(&region, "k", &expiry_ms), extent);
    assert_int_equal(expiry_ms, 5000);
    assert_int_equal(okv_heap_used(&region.store.heap), used);
    expect(&region, "k", LONG, outcome.version);
    /* The same bytes from elsewhere are another value. */
    decision = (struct decision){.next = {bytes, LONG, 0}};
    assert_int_equal(modify(&region, "k", &decision, &outcome), 0);
    assert_int_equal(decision.expiry_ms, 5000);
    assert_true(extent_of(&region, "k", &expiry_ms) != extent && expiry_ms == 0);
    end(&region);
}

TEST(a_short_value_stays)
{
    struct decision decision = {.keeps_value = true, .next.expiry_ms = 70};
    struct okv_store_outcome outcome;
    struct store_region region;

    store_region_open(&region, &params);
    put(&region, "k", 9);
    assert_int_equal(modify(&region, "k", &decision, &outcome), 0);
    expect(&region, "k", 9, outcome.version);
    assert_int_equal(look(&region, "k", &decision), 0);
    assert_int_equal(decision.expiry_ms, 70);
    end(&region);
}

TEST(an_expired_item_is_not_there)
{
    struct decision decision = {.next = {bytes, 4, 10}};
    struct okv_store_outcome outcome;
    struct store_region region;

    store_region_open(&region, &params);
    assert_int_equal(modify(&region, "k", &decision, &outcome), 0);
    okv_store_set_clock(&region.store, 9, true);
    assert_int_equal(look(&region, "k", &decision), 0);
    assert_int_equal(decision.expiry_ms, 10);
    okv_store_set_clock(&region.store, 10, true);
    assert_int_equal(look(&region, "k", &decision), OKV_ENOTFOUND);
    decision = (struct decision){.rc = OKV_STORE_REMOVE, .was_there = true};
    assert_int_equal(modify(&region, "k", &decision, &outcome), OKV_ENOTFOUND);
    assert_false(decision.was_there);
    decision = (struct decision){.next = {bytes, 6, 0}};
    assert_int_equal(modify(&region, "k", &decision, &outcome), 0);
    assert_false(decision.was_there);
    expect(&region, "k", 6, outcome.version);
    end(&region);
}

/* ---- no room ---- */

static void fill(struct store_region *region)
{
    static const uint32_t lengths[] = {60000, 8000, 1000, 200};
    char key[24];
    unsigned n = 0;

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        do
            snprintf(key, sizeof key, "fill%u", n++);
        while (store_region_put(region, key, (uint32_t)strlen(key), bytes, lengths[i], NULL) == 0);
}

TEST(without_room_the_item_stays)
{
    struct decision decision = {.next = {bytes, 60000, 0}};
    struct okv_store_outcome outcome;
    struct store_region region;

    store_region_open(&region, &params);
    uint64_t version = put(&region, "k", 50);
    fill(&region);
    assert_int_equal(modify(&region, "k", &decision, &outcome), OKV_EFULL);
    assert_true(decision.calls > 1); /* again, after making room */
    assert_true(decision.was_there);
    assert_int_equal(outcome.version, 0);
    expect(&region, "k", 50, version);
    end(&region);
}

/* Another caller has changed the item between two calls, and this one wants another value now. */
static int decide_anew(void *user, const struct okv_store_now *now, struct okv_store_next *next)
{
    struct decision *decision = user;
    int rc = decide(user, now, next);

    if (decision->calls > 1)
        next->value_length = 40;
    return rc;
}

TEST(what_is_decided_last_counts)
{
    struct decision decision = {.next = {bytes, 60000, 0}};
    struct okv_store_outcome outcome;
    struct store_region region;

    store_region_open(&region, &params);
    put(&region, "k", 50);
    fill(&region);
    assert_int_equal(modify_with(&region, "k", decide_anew, &decision, &outcome), 0);
    assert_int_equal(decision.calls, 2);
    assert_int_equal(outcome.length, 40);
    expect(&region, "k", 40, outcome.version);
    end(&region);
}

/* ---- images that wait for a log ---- */

struct log {
    size_t made;
    struct okv_store_record last; /* its pointers are not valid any more */
    bool is_gone;
    int rc, add_rc;
};

static int log_check(void *user)
{
    const struct log *log = user;

    return log->rc;
}

static int log_add(void *user, const struct okv_store_record *records, size_t count)
{
    struct log *log = user;

    log->made += log->add_rc ? 0 : count;
    log->last = records[count - 1];
    log->is_gone = log->last.value == NULL;
    return log->add_rc;
}

static bool log_is_crowded(void *user)
{
    (void)user;
    return false;
}

static void log_wake(void *user)
{
    (void)user;
}

static void collect(struct store_region *region, struct log *log)
{
    const struct okv_store_log calls = {.check = log_check,
                                        .add = log_add,
                                        .is_throttled = log_is_crowded,
                                        .wake = log_wake,
                                        .user = log};

    *log = (struct log){.rc = 0};
    assert_int_equal(okv_store_pending_begin(&region->store, &calls), 0);
    okv_store_pending_set_direct(&region->store, false);
}

TEST(a_change_sees_what_waits_and_a_look_does_not)
{
    struct decision decision = {.next = {bytes, 30, 0}}, keep = {.rc = OKV_STORE_KEEP};
    struct okv_store_outcome outcome;
    struct store_region region;
    struct log log;

    store_region_open(&region, &params);
    uint64_t before = put(&region, "k", 20);
    collect(&region, &log);
    assert_int_equal(modify(&region, "k", &decision, &outcome), 0);
    uint64_t version = outcome.version;
    assert_int_equal(modify(&region, "k", &keep, &outcome), 0);
    assert_int_equal(keep.value_length, 30);
    assert_int_equal(keep.version, version);
    assert_int_equal(log.made, 1); /* a look has no record */
    keep.rc = 0;
    assert_int_equal(look(&region, "k", &keep), 0);
    assert_int_equal(keep.value_length, 20);
    assert_int_equal(keep.version, before);
    expect(&region, "k", 20, before);
    okv_store_pending_publish(&region.store);
    assert_int_equal(look(&region, "k", &keep), 0);
    assert_int_equal(keep.version, version);
    expect(&region, "k", 30, version);
    okv_store_pending_end(&region.store);
    end(&region);
}

TEST(what_is_removed_waits_too)
{
    struct decision decision = {.rc = OKV_STORE_REMOVE}, keep = {.rc = OKV_STORE_KEEP};
    struct okv_store_outcome outcome;
    struct store_region region;
    struct log log;

    store_region_open(&region, &params);
    uint64_t version = put(&region, "k", LONG);
    collect(&region, &log);
    assert_int_equal(modify(&region, "k", &decision, &outcome), 0);
    assert_true(log.is_gone);
    assert_int_equal(modify(&region, "k", &keep, &outcome), 0);
    assert_false(keep.was_there);
    keep.rc = 0;
    assert_int_equal(look(&region, "k", &keep), 0);
    expect(&region, "k", LONG, version);
    okv_store_pending_publish(&region.store);
    assert_int_equal(look(&region, "k", &keep), OKV_ENOTFOUND);
    okv_store_pending_end(&region.store);
    end(&region);
}

TEST(a_value_that_stays_has_a_record)
{
    struct decision decision = {.keeps_value = true, .next.expiry_ms = 4000};
    struct okv_store_outcome outcome;
    struct store_region region;
    uint64_t expiry_ms;
    struct log log;

    store_region_open(&region, &params);
    put(&region, "k", LONG);
    uint64_t extent = extent_of(&region, "k", &expiry_ms);
    collect(&region, &log);
    assert_int_equal(modify(&region, "k", &decision, &outcome), 0);
    assert_int_equal(log.last.value_length, LONG);
    assert_int_equal(log.last.expiry_ms, 4000);
    okv_store_pending_publish(&region.store);
    assert_int_equal(extent_of(&region, "k", &expiry_ms), extent);
    assert_int_equal(expiry_ms, 4000);
    expect(&region, "k", LONG, outcome.version);
    okv_store_pending_end(&region.store);
    end(&region);
}

TEST(a_log_that_refuses_leaves_the_item)
{
    struct decision decision = {.next = {bytes, 30, 0}}, keep = {.rc = OKV_STORE_KEEP};
    struct okv_store_outcome outcome;
    struct store_region region;
    struct log log;

    store_region_open(&region, &params);
    uint64_t version = put(&region, "k", 20);
    collect(&region, &log);
    log.rc = OKV_EREADONLY;
    assert_int_equal(modify(&region, "k", &decision, &outcome), OKV_EREADONLY);
    log.rc = 0;
    log.add_rc = OKV_ENOMEM; /* when all of the change is prepared */
    uint64_t used = okv_heap_used(&region.store.heap);
    assert_int_equal(modify(&region, "k", &decision, &outcome), OKV_ENOMEM);
    decision.next.value_length = LONG;
    assert_int_equal(modify(&region, "k", &decision, &outcome), OKV_ENOMEM);
    assert_int_equal(okv_heap_used(&region.store.heap), used);
    assert_int_equal(modify(&region, "k", &keep, &outcome), 0);
    assert_int_equal(keep.version, version);
    assert_int_equal(log.made, 0);
    okv_store_pending_publish(&region.store);
    expect(&region, "k", 20, version);
    okv_store_pending_end(&region.store);
    end(&region);
}

int main(void)
{
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7 + 3);
    return test_run();
}
