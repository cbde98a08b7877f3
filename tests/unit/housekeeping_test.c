/* Work between requests. The tests set the clock; nothing waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "server/housekeeping.h"
#include "shared/format/superblock.h"
#include "tests/support/server_core.h"

#define BEGIN_MS 1000000u

struct house {
    struct server_core core;
    struct okv_housekeeping housekeeping;
};

static int setup(void **state)
{
    static const struct okv_store_params params = {.length = UINT64_C(4) << 20, .max_value = 10000};
    struct house *house = calloc(1, sizeof *house);

    assert_non_null(house);
    server_core_open(&house->core, &params);
    *state = house;
    return 0;
}

static int teardown(void **state)
{
    struct house *house = *state;

    server_core_close(&house->core);
    free(house);
    return 0;
}

/* Runs the housekeeper as if the clock stood at this time. */
static void run_at(struct house *house, uint64_t clock_ms)
{
    house->housekeeping.clock_ms = clock_ms;
    okv_store_set_clock(&house->core.server->store, clock_ms, false);
    okv_housekeeping_run(&house->housekeeping, house->core.server, &house->core.work);
}

/* The clock that readers see. */
static uint64_t published(const struct house *house)
{
    const struct okv_server *server = house->core.server;
    struct okv_table_status status;

    assert_int_equal(okv_status_decode((const uint8_t *)server->region.base + OKV_STATUS_OFFSET,
                                       server->store.table.boot_id, &status),
                     0);
    return status.clock_ms;
}

static void the_store_gets_the_servers_clock(void **state)
{
    struct house *house = *state;
    struct okv_server *server = house->core.server;

    okv_housekeeping_update_clock(&house->housekeeping, server);
    uint64_t first = atomic_load(&server->store.clock_ms);
    assert_true(first >= 1 && first <= okv_server_clock_ms(server));
    server->clock_origin_ms -= BEGIN_MS;
    okv_housekeeping_update_clock(&house->housekeeping, server);
    assert_true(atomic_load(&server->store.clock_ms) >= first + BEGIN_MS);
    assert_int_equal(atomic_load(&server->store.clock_ms), house->housekeeping.clock_ms);
}

/* An idle server sleeps for ever and touches nothing. */
static void without_expiring_items_nothing_is_done(void **state)
{
    struct house *house = *state;
    uint64_t before = published(house);

    server_core_put(&house->core, "stays", 's', 100, 0);
    for (uint64_t ms = 0; ms < 1000; ms += 100)
        run_at(house, BEGIN_MS + ms);
    assert_int_equal(published(house), before);
    assert_int_equal(okv_housekeeping_sleep_ms(house->core.server, -1), -1);
    assert_int_equal(okv_housekeeping_sleep_ms(house->core.server, 10), 10);
    assert_int_equal(okv_housekeeping_sleep_ms(house->core.server, 5000), 5000);
}

static void the_first_expiring_item_publishes_the_clock(void **state)
{
    struct house *house = *state;

    run_at(house, BEGIN_MS);
    assert_int_not_equal(published(house), BEGIN_MS);
    server_core_put(&house->core, "goes", 'g', 100, 500);
    run_at(house, BEGIN_MS);
    assert_int_equal(published(house), BEGIN_MS);
}

static void the_clock_is_published_at_an_interval(void **state)
{
    struct house *house = *state;
    unsigned publications = 0;
    uint64_t last = 0;

    server_core_put(&house->core, "goes", 'g', 100, 60000000);
    for (uint64_t ms = BEGIN_MS; ms < BEGIN_MS + 10000; ms++) {
        run_at(house, ms);
        uint64_t seen = published(house);
        assert_true(seen <= ms);
        assert_in_range(ms - seen, 0, 100);
        publications += seen != last;
        last = seen;
    }
    assert_in_range(publications, 100, 250);
    assert_int_equal(okv_housekeeping_sleep_ms(house->core.server, -1), 100);
    assert_int_equal(okv_housekeeping_sleep_ms(house->core.server, 10), 10);
    assert_int_equal(okv_housekeeping_sleep_ms(house->core.server, 5000), 100);
}

/* Memory is freed even though no request touches the items. */
static void expired_items_are_swept(void **state)
{
    enum { ITEMS = 200 };
    struct house *house = *state;
    struct okv_store *store = &house->core.server->store;
    uint64_t now = BEGIN_MS;
    char key[16];

    run_at(house, now);
    server_core_put(&house->core, "stays", 's', 5000, 0);
    server_core_put(&house->core, "stays longer", 'l', 5000, 3600000);
    uint64_t user_bytes = atomic_load(&store->totals.user_bytes);
    for (int i = 0; i < ITEMS; i++) {
        snprintf(key, sizeof key, "goes-%d", i);
        server_core_put(&house->core, key, i, i % 4 ? 20 : 5000, 1 + (uint64_t)i);
    }
    run_at(house, now += ITEMS + 1);
    for (int round = 0; round < 100 && atomic_load(&store->totals.items) > 2; round++)
        run_at(house, now += 100);
    assert_int_equal(atomic_load(&store->totals.items), 2);
    assert_int_equal(atomic_load(&store->totals.expired), ITEMS);
    assert_int_equal(atomic_load(&store->totals.expiring), 1);
    assert_int_equal(atomic_load(&store->totals.user_bytes), user_bytes);
    run_at(house, now + 3600000);
    run_at(house, now + 3600100);
    assert_int_equal(atomic_load(&store->totals.items), 1);
    assert_int_equal(okv_housekeeping_sleep_ms(house->core.server, -1), -1);
}

static void sweeps_keep_an_interval(void **state)
{
    struct house *house = *state;
    unsigned sweeps = 0;

    server_core_put(&house->core, "goes", 'g', 100, 60000000);
    for (uint64_t ms = BEGIN_MS; ms < BEGIN_MS + 1000; ms++) {
        uint64_t before = atomic_load(&house->core.server->store.swept);
        run_at(house, ms);
        sweeps += atomic_load(&house->core.server->store.swept) != before;
    }
    assert_int_equal(sweeps, 10);
}

#define HOUSE_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HOUSE_TEST(the_store_gets_the_servers_clock),
        HOUSE_TEST(without_expiring_items_nothing_is_done),
        HOUSE_TEST(the_first_expiring_item_publishes_the_clock),
        HOUSE_TEST(the_clock_is_published_at_an_interval),
        HOUSE_TEST(expired_items_are_swept),
        HOUSE_TEST(sweeps_keep_an_interval),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
