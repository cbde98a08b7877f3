/* Work between requests. The tests set the clock; nothing waits. */
#include "tests/support/test.h"

#include "server/command/housekeeping.h"
#include "shared/format/superblock.h"
#include "tests/support/server_core.h"

#define BEGIN_MS 1000000u

struct fixture {
    struct server_core core;
    struct okv_housekeeping housekeeping;
};

static int setup(void **state)
{
    static const struct okv_store_params params = {.length = UINT64_C(4) << 20, .max_value = 10000};
    struct fixture *fixture = calloc(1, sizeof *fixture);

    assert_non_null(fixture);
    server_core_open(&fixture->core, &params);
    server_core_open_second(&fixture->core, &params);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    server_core_close(&fixture->core);
    free(fixture);
    return 0;
}

/* Runs the housekeeper as if the clock stood at this time. */
static void run_at(struct fixture *fixture, uint64_t clock_ms)
{
    struct okv_server *server = fixture->core.server;

    fixture->housekeeping.clock_ms = clock_ms;
    for (unsigned i = 0; i < server->database_count; i++)
        okv_store_set_clock(&server->databases[i].store, clock_ms, false);
    okv_housekeeping_run(&fixture->housekeeping, fixture->core.server, fixture->core.works);
}

/* The clock that readers of a database see. */
static uint64_t published_in(const struct okv_database *database)
{
    struct okv_table_status status;

    assert_int_equal(okv_status_decode((const uint8_t *)database->region.base + OKV_STATUS_OFFSET,
                                       database->store.table.boot_id, &status),
                     0);
    return status.clock_ms;
}

static uint64_t published(const struct fixture *fixture)
{
    return published_in(fixture->core.server->databases);
}

#define FIXTURE_TEST(name) TEST_WITH(name, setup, teardown)

FIXTURE_TEST(the_store_gets_the_servers_clock)
{
    struct fixture *fixture = *state;
    struct okv_server *server = fixture->core.server;

    okv_housekeeping_update_clock(&fixture->housekeeping, server);
    uint64_t first = atomic_load(&server->databases[0].store.clock_ms);
    assert_true(first >= 1 && first <= okv_server_clock_ms(server));
    server->clock_origin_ms -= BEGIN_MS;
    okv_housekeeping_update_clock(&fixture->housekeeping, server);
    assert_true(atomic_load(&server->databases[0].store.clock_ms) >= first + BEGIN_MS);
    for (unsigned i = 0; i < server->database_count; i++)
        assert_int_equal(atomic_load(&server->databases[i].store.clock_ms),
                         fixture->housekeeping.clock_ms);
}

/* An idle server sleeps for ever and touches nothing. */
FIXTURE_TEST(without_expiring_items_nothing_is_done)
{
    struct fixture *fixture = *state;
    uint64_t before = published(fixture);

    server_core_put(&fixture->core, "stays", 's', 100, 0);
    for (uint64_t ms = 0; ms < 1000; ms += 100)
        run_at(fixture, BEGIN_MS + ms);
    assert_int_equal(published(fixture), before);
    assert_int_equal(okv_housekeeping_sleep_ms(fixture->core.server, -1), -1);
    assert_int_equal(okv_housekeeping_sleep_ms(fixture->core.server, 10), 10);
    assert_int_equal(okv_housekeeping_sleep_ms(fixture->core.server, 5000), 5000);
}

FIXTURE_TEST(the_first_expiring_item_publishes_the_clock)
{
    struct fixture *fixture = *state;

    run_at(fixture, BEGIN_MS);
    assert_int_not_equal(published(fixture), BEGIN_MS);
    server_core_put(&fixture->core, "goes", 'g', 100, 500);
    run_at(fixture, BEGIN_MS);
    assert_int_equal(published(fixture), BEGIN_MS);
}

FIXTURE_TEST(the_clock_is_published_at_an_interval)
{
    struct fixture *fixture = *state;
    unsigned publications = 0;
    uint64_t last = 0;

    server_core_put(&fixture->core, "goes", 'g', 100, 60000000);
    for (uint64_t ms = BEGIN_MS; ms < BEGIN_MS + 10000; ms++) {
        run_at(fixture, ms);
        uint64_t seen = published(fixture);
        assert_true(seen <= ms);
        assert_in_range(ms - seen, 0, 100);
        publications += seen != last;
        last = seen;
    }
    assert_in_range(publications, 100, 250);
    assert_int_equal(okv_housekeeping_sleep_ms(fixture->core.server, -1), 100);
    assert_int_equal(okv_housekeeping_sleep_ms(fixture->core.server, 10), 10);
    assert_int_equal(okv_housekeeping_sleep_ms(fixture->core.server, 5000), 100);
}

/* Each has its own times: what is done in one does not put off another. */
FIXTURE_TEST(every_database_is_kept)
{
    struct fixture *fixture = *state;
    struct okv_database *first = &fixture->core.server->databases[0];
    struct okv_database *second = &fixture->core.server->databases[1];

    run_at(fixture, BEGIN_MS);
    fixture->core.database = second;
    server_core_put(&fixture->core, "goes", 'g', 100, 150);
    run_at(fixture, BEGIN_MS);
    assert_int_equal(published_in(second), BEGIN_MS);
    assert_int_not_equal(published_in(first), BEGIN_MS);
    assert_int_equal(okv_housekeeping_sleep_ms(fixture->core.server, -1), 100);
    fixture->core.database = first;
    server_core_put(&fixture->core, "goes", 'g', 100, 150);
    run_at(fixture, BEGIN_MS + 1);
    assert_int_equal(published_in(first), BEGIN_MS + 1);
    run_at(fixture, BEGIN_MS + 300);
    assert_int_equal(atomic_load(&first->store.totals.items), 0);
    assert_int_equal(atomic_load(&second->store.totals.items), 0);
}

/* Memory is freed even though no request touches the items. */
FIXTURE_TEST(expired_items_are_swept)
{
    enum { ITEMS = 200 };
    struct fixture *fixture = *state;
    struct okv_store *store = &fixture->core.database->store;
    uint64_t now = BEGIN_MS;
    char key[16];

    run_at(fixture, now);
    server_core_put(&fixture->core, "stays", 's', 5000, 0);
    server_core_put(&fixture->core, "stays longer", 'l', 5000, 3600000);
    uint64_t user_bytes = atomic_load(&store->totals.user_bytes);
    for (int i = 0; i < ITEMS; i++) {
        snprintf(key, sizeof key, "goes-%d", i);
        server_core_put(&fixture->core, key, i, i % 4 ? 20 : 5000, 1 + (uint64_t)i);
    }
    run_at(fixture, now += ITEMS + 1);
    for (int round = 0; round < 100 && atomic_load(&store->totals.items) > 2; round++)
        run_at(fixture, now += 100);
    assert_int_equal(atomic_load(&store->totals.items), 2);
    assert_int_equal(atomic_load(&store->totals.expired), ITEMS);
    assert_int_equal(atomic_load(&store->totals.expiring), 1);
    assert_int_equal(atomic_load(&store->totals.user_bytes), user_bytes);
    run_at(fixture, now + 3600000);
    run_at(fixture, now + 3600100);
    assert_int_equal(atomic_load(&store->totals.items), 1);
    assert_int_equal(okv_housekeeping_sleep_ms(fixture->core.server, -1), -1);
}

FIXTURE_TEST(sweeps_keep_an_interval)
{
    struct fixture *fixture = *state;
    unsigned sweeps = 0;

    server_core_put(&fixture->core, "goes", 'g', 100, 60000000);
    for (uint64_t ms = BEGIN_MS; ms < BEGIN_MS + 1000; ms++) {
        uint64_t before = atomic_load(&fixture->core.database->store.swept);
        run_at(fixture, ms);
        sweeps += atomic_load(&fixture->core.database->store.swept) != before;
    }
    assert_int_equal(sweeps, 10);
}
