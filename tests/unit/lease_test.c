/* The lease of a server that is a member of a cluster: what it writes for READs, what its welcome
 * and its answer to a PING say, and that it tells nothing of its table while no lease holds. */
#include <unistd.h>

#include "tests/support/test.h"

#include "server/store/status.h"
#include "tests/support/resp_fixture.h"
#include "tests/support/session_fixture.h"

#define EPOCH 3

static const struct okv_store_params params = {
    .length = 1u << 20, .bucket_size = 256, .extra_reads = 1, .max_value = 100000};

static struct okv_store *ends_in; /* the lease of this store ends while a GET is evaluated */

static void lease_until(struct okv_store *store, uint64_t valid_until_us)
{
    const struct okv_store_lease lease = {
        .table = {valid_until_us, EPOCH, 41, 4096, OKV_LEASE_MEMBER}, .longest_ms = 1000};

    okv_store_set_lease(store, &lease);
}

static void lease(struct okv_store *store)
{
    lease_until(store, okv_clock_lease_us() + UINT64_C(3600000000));
}

static void lease_ends(struct okv_store *store)
{
    lease_until(store, 1);
}

int __real_okv_store_get(struct okv_store *store, struct okv_store_work *work, const void *key,
                         uint32_t key_length, void *buffer, uint32_t size, uint32_t *length,
                         uint64_t *version);
int __wrap_okv_store_get(struct okv_store *store, struct okv_store_work *work, const void *key,
                         uint32_t key_length, void *buffer, uint32_t size, uint32_t *length,
                         uint64_t *version);

int __wrap_okv_store_get(struct okv_store *store, struct okv_store_work *work, const void *key,
                         uint32_t key_length, void *buffer, uint32_t size, uint32_t *length,
                         uint64_t *version)
{
    int rc = __real_okv_store_get(store, work, key, key_length, buffer, size, length, version);

    if (store == ends_in)
        lease_ends(store);
    return rc;
}

static struct okv_table_status status_of(const struct okv_store *store)
{
    struct okv_table_status status;

    assert_int_equal(
        okv_status_decode(store->table.base + OKV_STATUS_OFFSET, store->table.boot_id, &status), 0);
    return status;
}

/* ---- native clients ---- */

#define FIXTURE_TEST(name) TEST_WITH(name, fixture_setup, fixture_teardown)

static struct okv_store *store_of(struct fixture *fixture)
{
    return &fixture->core.database->store;
}

/* Whatever else the server writes it for. */
FIXTURE_TEST(the_status_keeps_the_lease)
{
    struct okv_store *store = store_of(*state);
    const struct okv_table_lease none = {.flags = 0}, some = {5, EPOCH, 41, 4096, OKV_LEASE_MEMBER};

    struct okv_table_lease seen = status_of(store).lease;
    assert_memory_equal(&seen, &none, sizeof seen);
    assert_true(okv_store_lease_holds(store));
    lease_until(store, 5);
    assert_false(okv_store_lease_holds(store));
    okv_store_set_clock(store, 100000, true);
    assert_int_equal(status_of(store).clock_ms, 100000);
    seen = status_of(store).lease;
    assert_memory_equal(&seen, &some, sizeof seen);
    assert_int_equal(okv_store_get_lease(store).longest_ms, 1000);
}

FIXTURE_TEST(a_get_waits_for_a_lease)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];

    lease_ends(store_of(fixture));
    fixture_arrive(fixture, client, OKV_OP_GET, 0, 1);
    assert_int_equal(fixture_next_pass(fixture), 0);
    assert_int_equal(client->posted, 0);
    assert_true(fixture->worker.sessions->is_held_up);
    lease(store_of(fixture));
    assert_int_equal(fixture_next_pass(fixture), 1);
    assert_int_equal(client->posted, 1);
}

FIXTURE_TEST(a_lease_that_ends_during_a_get_does_not_cover_it)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];

    lease(store_of(fixture));
    ends_in = store_of(fixture);
    fixture_arrive(fixture, client, OKV_OP_GET, 0, 1);
    ends_in = NULL;
    assert_int_equal(client->posted, 0);
}

/* Its clients measure the clock by it, for the next lease. A server alone has none to tell. */
FIXTURE_TEST(a_ping_waits_for_nothing)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];

    fixture_arrive(fixture, client, OKV_OP_PING, 0, 1);
    lease_ends(store_of(fixture));
    uint64_t before_us = okv_clock_lease_us();
    fixture_arrive(fixture, client, OKV_OP_PING, 0, 2);
    assert_int_equal(client->posted, 2);
    assert_int_equal(client->replies[0].value_length, sizeof(struct okv_wire_number));
    assert_int_equal(okv_get_u64(client->values[0]), 0);
    assert_in_range(okv_get_u64(client->values[1]), before_us, okv_clock_lease_us());
}

/* ---- clients of Redis ---- */

static struct resp_fixture resp;

static int resp_setup(void **state)
{
    (void)state;
    resp_fixture_open(&resp, &params);
    return 0;
}

static int resp_teardown(void **state)
{
    (void)state;
    resp_fixture_close(&resp);
    return 0;
}

/* Of any database: the client may have selected another one since. */
TEST_WITH(replies_wait_for_a_lease, resp_setup, resp_teardown)
{
    struct okv_store *stores[] = {&resp.core.server->databases[0].store,
                                  &resp.core.server->databases[1].store};
    int fd = resp_fixture_connect(&resp);

    for (unsigned i = 0; i < 2; i++) {
        lease_ends(stores[i]);
        resp_fixture_say(fd, "GET a\r\n");
        resp_fixture_hear_nothing(&resp, fd);
        assert_true(resp_fixture_poll(&resp)); /* nothing tells when it goes on */
        lease(stores[i]);
        resp_fixture_hear(&resp, fd, "$-1\r\n");
        assert_false(resp_fixture_poll(&resp));
    }
    resp_fixture_leave(&resp, fd);
}
