/* What each operation of the mix does to the target, and what counts as what. */
#include "tests/support/test.h"

#include "tests/support/loop_fixture.h"

TEST(wrong_and_missing_values_are_counted)
{
    struct fixture *fixture = fixture_create(1, 32);

    assert_int_equal(fixture_run(fixture, OPERATION_GET, 10, 2, 0), OKV_OK);
    assert_int_equal(fixture->tally->missing, 10);
    assert_int_equal(fixture_latency(fixture, OPERATION_GET)->count, 10);
    fixture_load(fixture);
    fixture->stubs[0]->corrupts = true;
    assert_int_equal(fixture_run(fixture, OPERATION_GET, 10, 2, 0), OKV_OK);
    assert_int_equal(fixture->tally->wrong, 10);
    fixture->stubs[0]->corrupts = false;
    fixture->values.low = fixture->values.high = 24; /* not what was put */
    assert_int_equal(fixture_run(fixture, OPERATION_GET, 10, 2, 0), OKV_OK);
    assert_int_equal(fixture->tally->wrong, 20);
    assert_int_equal(fixture->tally->failed, 0);
    fixture_destroy(fixture);
}

/* A value that is whole but shorter than its record's. */
TEST(a_value_of_another_size_is_wrong)
{
    struct fixture *fixture = fixture_create(1, 32);

    fixture_load(fixture);
    for (int i = 0; i < RECORDS; i++) {
        struct stub_item *item = &fixture->stubs[0]->items[i];
        workload_value_write((uint64_t)i, 1, item->value, 24);
        item->value_length = 24;
    }
    assert_int_equal(fixture_run(fixture, OPERATION_GET, RECORDS, 2, 0), OKV_OK);
    assert_int_equal(fixture->tally->wrong, RECORDS);
    fixture_destroy(fixture);
}

/* ---- misses that are stored ------------------------------------------------ */

/* Gets of `count` records at a depth; misses are stored. */
static int run_and_store(struct fixture *fixture, uint64_t count, uint32_t depth)
{
    struct loop_run_config config = {.next = fixture_next,
                                     .user = fixture,
                                     .depth = depth,
                                     .stores_misses = true,
                                     .tally = fixture->tally};

    fixture->operation = OPERATION_GET;
    fixture->next = 0;
    fixture->remaining = count;
    return loop_run(fixture->loop, &config);
}

TEST(a_miss_is_stored_and_then_a_hit)
{
    struct fixture *fixture = fixture_create(1, 32);

    assert_int_equal(run_and_store(fixture, 3 * RECORDS, 1), OKV_OK);
    assert_int_equal(fixture->tally->missing, RECORDS);
    assert_int_equal(fixture_latency(fixture, OPERATION_GET)->count, 3 * RECORDS);
    assert_int_equal(fixture_latency(fixture, OPERATION_PUT)->count, RECORDS);
    assert_int_equal(fixture->stubs[0]->counts[OKV_PUT], RECORDS);
    /* each timed alone, and a request ends once */
    assert_in_range(fixture_latency(fixture, OPERATION_GET)->max, 10000, 12000);
    assert_in_range(fixture_latency(fixture, OPERATION_PUT)->max, 10000, 12000);
    assert_int_equal(fixture->done, 3 * RECORDS);
    assert_int_equal(fixture->tally->wrong + fixture->tally->failed, 0);
    fixture_destroy(fixture);
}

TEST(misses_are_stored_at_any_depth)
{
    struct fixture *fixture = fixture_create(2, 32);

    assert_int_equal(run_and_store(fixture, 10 * RECORDS, 32), OKV_OK);
    assert_int_equal(fixture_latency(fixture, OPERATION_GET)->count, 10 * RECORDS);
    assert_int_equal(fixture_latency(fixture, OPERATION_PUT)->count, fixture->tally->missing);
    assert_in_range(fixture->tally->missing, RECORDS, 3 * RECORDS);
    assert_int_equal(fixture->tally->wrong + fixture->tally->failed, 0);
    fixture_destroy(fixture);
}

TEST(a_full_server_refuses_and_the_run_goes_on)
{
    struct fixture *fixture = fixture_create(1, 32);

    fixture->stubs[0]->put_code = OKV_EFULL;
    assert_int_equal(run_and_store(fixture, 50, 4), OKV_OK);
    assert_int_equal(fixture->tally->refused, 50);
    assert_int_equal(fixture->tally->missing, 50);
    assert_int_equal(fixture->tally->failed, 0);
    assert_int_equal(fixture_latency(fixture, OPERATION_PUT)->count, 50);
    fixture_destroy(fixture);
}

/* ---- two commands in one operation ------------------------------------------ */

TEST(rmw_is_a_get_and_a_put)
{
    struct fixture *fixture = fixture_create(1, 32);

    fixture_load(fixture);
    uint64_t version = fixture->stubs[0]->items[0].version;
    assert_int_equal(fixture_run(fixture, OPERATION_RMW, RECORDS, 3, 0), OKV_OK);
    assert_int_equal(fixture_latency(fixture, OPERATION_RMW)->count, RECORDS);
    assert_int_equal(fixture->stubs[0]->counts[OKV_GET], RECORDS);
    assert_int_equal(fixture->stubs[0]->counts[OKV_PUT], 2 * RECORDS);
    assert_int_equal(fixture->stubs[0]->items[0].version, version + 1);
    /* timed as one: both take 10 us */
    assert_in_range(fixture_latency(fixture, OPERATION_RMW)->min, 20000, 22000);
    assert_int_equal(fixture->done, 2 * RECORDS);
    assert_int_equal(fixture->tally->value_bytes, 2 * RECORDS * 32);
    assert_int_equal(fixture_run(fixture, OPERATION_GET, RECORDS, 3, 0), OKV_OK);
    assert_int_equal(fixture->tally->wrong + fixture->tally->missing, 0);
    fixture_destroy(fixture);
}

TEST(rmw_puts_a_deleted_record)
{
    struct fixture *fixture = fixture_create(1, 32);

    assert_int_equal(fixture_run(fixture, OPERATION_RMW, 10, 1, 0), OKV_OK);
    assert_int_equal(fixture->tally->missing, 10);
    assert_int_equal(fixture->stubs[0]->counts[OKV_PUT], 10);
    assert_int_equal(fixture_latency(fixture, OPERATION_RMW)->count, 10);
    fixture_destroy(fixture);
}

/* The put of an rmw whose get was before the deadline is after it. */
TEST(an_rmw_is_finished_after_the_deadline)
{
    struct fixture *fixture = fixture_create(1, 32);

    fixture_load(fixture);
    assert_int_equal(fixture_run(fixture, OPERATION_RMW, 1000, 4, stub_target_now() + 15000),
                     OKV_OK);
    assert_int_equal(fixture_latency(fixture, OPERATION_RMW)->count, 4);
    assert_int_equal(fixture->stubs[0]->counts[OKV_PUT], RECORDS + 4);
    fixture_destroy(fixture);
}

TEST(cas_puts_on_the_version_of_its_get)
{
    struct fixture *fixture = fixture_create(1, 32);

    fixture_load(fixture);
    assert_int_equal(fixture_run(fixture, OPERATION_CAS, 50, 4, 0), OKV_OK);
    assert_int_equal(fixture_latency(fixture, OPERATION_CAS)->count, 50);
    assert_int_equal(fixture->tally->conflicts, 0);
    fixture->stubs[0]->meddles = true;
    assert_int_equal(fixture_run(fixture, OPERATION_CAS, 50, 4, 0), OKV_OK);
    assert_int_equal(fixture_latency(fixture, OPERATION_CAS)->count, 100);
    assert_int_equal(fixture->tally->conflicts, 50);
    assert_int_equal(fixture->tally->failed, 0);
    fixture_destroy(fixture);
}

TEST(cas_of_nothing_is_a_miss)
{
    struct fixture *fixture = fixture_create(1, 32);

    assert_int_equal(fixture_run(fixture, OPERATION_CAS, 10, 1, 0), OKV_OK);
    assert_int_equal(fixture->tally->missing, 10);
    assert_int_equal(fixture->stubs[0]->counts[OKV_PUT], 0);
    assert_int_equal(fixture_latency(fixture, OPERATION_CAS)->count, 10);
    fixture_destroy(fixture);
}

TEST(deletes_may_find_nothing)
{
    struct fixture *fixture = fixture_create(1, 32);

    fixture_load(fixture);
    assert_int_equal(fixture_run(fixture, OPERATION_DELETE, 2 * RECORDS, 1, 0), OKV_OK);
    assert_int_equal(fixture_latency(fixture, OPERATION_DELETE)->count, 2 * RECORDS);
    assert_int_equal(fixture->tally->missing + fixture->tally->failed, 0);
    assert_int_equal(fixture_run(fixture, OPERATION_GET, RECORDS, 1, 0), OKV_OK);
    assert_int_equal(fixture->tally->missing, RECORDS);
    fixture_destroy(fixture);
}

TEST(numbers_have_keys_of_their_own)
{
    struct fixture *fixture = fixture_create(1, 32);
    char key[KEY_SIZE];

    fixture_load(fixture);
    assert_int_equal(fixture_run(fixture, OPERATION_INCR, 3 * RECORDS, 4, 0), OKV_OK);
    workload_number_key_write(7, key, sizeof key);
    assert_int_equal(stub_target_item(fixture->stubs[0], key, sizeof key)->number, 3);
    assert_int_equal(fixture_run(fixture, OPERATION_GET, RECORDS, 4, 0), OKV_OK);
    assert_int_equal(fixture->tally->wrong + fixture->tally->missing, 0);
    /* a sum below what was added */
    stub_target_item(fixture->stubs[0], key, sizeof key)->number = -5;
    assert_int_equal(fixture_run(fixture, OPERATION_INCR, RECORDS, 4, 0), OKV_OK);
    assert_int_equal(fixture->tally->wrong, 1);
    fixture_destroy(fixture);
}

static bool next_insert(void *user, struct loop_order *order)
{
    struct fixture *fixture = user;

    if (fixture->remaining == 0)
        return false;
    fixture->remaining--;
    *order = (struct loop_order){.operation = OPERATION_INSERT};
    return inserts_take(fixture->inserts, &order->record);
}

TEST(inserts_are_there_when_they_have_ended)
{
    struct fixture *fixture = fixture_create(2, 32);
    struct loop_run_config config = {
        .next = next_insert, .user = fixture, .depth = 8, .tally = fixture->tally};
    char key[KEY_SIZE];

    fixture->remaining = 500;
    assert_int_equal(loop_run(fixture->loop, &config), OKV_OK);
    assert_int_equal(inserts_visible(fixture->inserts), RECORDS + 500);
    assert_int_equal(fixture_latency(fixture, OPERATION_INSERT)->count, 500);
    workload_key_write(RECORDS + 499, key, sizeof key);
    assert_true(stub_target_item(fixture->stubs[0], key, sizeof key)->version ||
                stub_target_item(fixture->stubs[1], key, sizeof key)->version);
    fixture_destroy(fixture);
}

TEST(a_ping_has_no_payload)
{
    struct fixture *fixture = fixture_create(1, 32);

    assert_int_equal(fixture_run(fixture, OPERATION_PING, 10, 1, 0), OKV_OK);
    assert_int_equal(fixture->stubs[0]->counts[OKV_PING], 10);
    assert_int_equal(fixture->stubs[0]->last_value_length, 0);
    assert_int_equal(fixture_latency(fixture, OPERATION_PING)->count, 10);
    fixture_destroy(fixture);
}
