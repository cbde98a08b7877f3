/* Part of the list in transport_list.c: waking up, ends of connections, several at once. */
#include <poll.h>

#include "tests/support/test.h"

#include "shared/base/error.h"
#include "tests/support/transport_client.h"
#include "tests/unit/transport_list.h"

#define CONNECTS 50u
#define CLIENTS 8u
#define ROUNDS 100u /* of each of several clients at once */

/* Sleeping on the descriptor. */

static void assert_fd_wakes(struct okv_endpoint *endpoint)
{
    struct pollfd watched = {.fd = endpoint->fd, .events = POLLIN};

    assert_int_equal(poll(&watched, 1, (int)(FIXTURE_GUARD_NS / 1000000u)), 1);
}

/* After arm: takes what comes until the descriptor has nothing to announce. */
static void arm_until_quiet(struct client *client)
{
    struct pollfd watched = {.fd = client->conn->endpoint->fd, .events = POLLIN};

    do {
        assert_int_equal(client->ops->arm(client->conn->endpoint), 0);
        client_expect_nothing(client);
    } while (poll(&watched, 1, 0) > 0);
}

static void *wake_from_elsewhere(void *argument)
{
    struct okv_endpoint *endpoint = argument;

    endpoint->ops->wake(endpoint);
    return NULL;
}

TEST(an_armed_descriptor_wakes)
{
    struct client *client = client_create(state);
    struct okv_endpoint *endpoint = client->conn->endpoint;
    pthread_t thread;

    for (unsigned i = 0; i < 10; i++) {
        /* for a message */
        fixture_pause(client->fixture);
        assert_int_equal(client_send(client, i, 10, i), 0);
        arm_until_quiet(client);
        fixture_resume(client->fixture);
        assert_fd_wakes(endpoint);
        client_expect_message(client, i, 10, i);

        /* for a READ */
        struct okv_read read = client_make_read(client, 0, 8, 0, i);
        arm_until_quiet(client);
        assert_int_equal(client->ops->post_read(client->conn, &read, 1), 0);
        assert_fd_wakes(endpoint);
        assert_int_equal(client_next_event(client).type, OKV_EVENT_READ);

        /* for another thread */
        arm_until_quiet(client);
        assert_int_equal(pthread_create(&thread, NULL, wake_from_elsewhere, endpoint), 0);
        assert_fd_wakes(endpoint);
        pthread_join(thread, NULL);
        client_expect_nothing(client);
    }
    /* for the end */
    arm_until_quiet(client);
    fixture_order(client->fixture, &client->fixture->close_all);
    assert_fd_wakes(endpoint);
    client_expect_closed(client);
    client_destroy(client);
}

TEST(a_close_of_our_own_wakes)
{
    struct client *client = client_create(state);

    arm_until_quiet(client);
    client->ops->close(client->conn);
    assert_fd_wakes(client->conn->endpoint);
    client_expect_closed(client);
    client_destroy(client);
}

/* Ends. */

static void assert_conn_is_dead(struct client *client)
{
    struct okv_read read = client_make_read(client, 0, 8, 0, 1);

    assert_int_equal(client->ops->post_read(client->conn, &read, 1), OKV_EDISCONNECTED);
    assert_int_equal(client->ops->post_send(client->conn, 0, 0), OKV_EDISCONNECTED);
    assert_int_equal(client->ops->heartbeat(client->conn), OKV_EDISCONNECTED);
    client->ops->flush(client->conn);
    client_expect_nothing(client);
}

TEST(the_server_closes)
{
    struct client *client = client_create(state);

    client_echo(client, 1, 10, 1);
    fixture_order(client->fixture, &client->fixture->close_all);
    client_expect_closed(client);
    assert_conn_is_dead(client);
    client->ops->close(client->conn);
    client_expect_nothing(client);
    client_destroy(client);
}

TEST(the_client_closes)
{
    struct client *client = client_create(state);

    client_read(client, 0, 8, 0);
    client->ops->close(client->conn);
    client->ops->close(client->conn);
    client_expect_closed(client);
    assert_conn_is_dead(client);
    assert_true(fixture_is_empty(client->fixture));
    client_destroy(client);
}

TEST(a_close_ends_what_is_under_way)
{
    struct client *client = client_create(state);
    unsigned reads = client->conn->max_reads;
    struct okv_event event;

    for (unsigned i = 0; i < reads; i++) {
        struct okv_read read = client_make_read(client, i, 1, i, i);
        assert_int_equal(client->ops->post_read(client->conn, &read, 1), 0);
    }
    client->ops->close(client->conn);
    for (unsigned seen = 0;; seen++) {
        event = client_next_event(client);
        if (event.type == OKV_EVENT_CLOSED) {
            assert_int_equal(seen, reads);
            break;
        }
        assert_int_equal(event.type, OKV_EVENT_READ);
        assert_true(event.status == 0 || event.status == OKV_EDISCONNECTED);
    }
    client_expect_nothing(client);
    client_destroy(client);
}

TEST(a_client_may_vanish_at_any_time)
{
    for (unsigned round = 0; round < 10; round++) {
        struct client *client = client_create(state);
        struct okv_read read = client_make_read(client, 0, CLIENT_LARGE_READ, 0, 1);
        for (unsigned i = 0; i < FIXTURE_CREDITS; i++)
            assert_int_equal(client_send(client, i, FIXTURE_SLOT_SIZE, i), 0);
        assert_int_equal(client->ops->post_read(client->conn, &read, 1), 0);
        if (round & 1)
            client->ops->close(client->conn);
        client_destroy(client);
    }
}

TEST(connections_leave_nothing_behind)
{
    struct fixture *fixture = *state;
    unsigned before = atomic_load(&fixture->opened);

    for (unsigned i = 0; i < CONNECTS; i++) {
        struct client *client = client_create(state);
        client_echo(client, i, 20, i);
        client_read(client, i, 20, 0);
        client_destroy(client);
    }
    assert_int_equal(atomic_load(&fixture->opened), before + CONNECTS);
    assert_int_equal(atomic_load(&fixture->closed), before + CONNECTS);
}

/* One of several clients at once. Fails no test itself: that is for one thread only. */
struct worker {
    struct fixture *fixture;
    unsigned number;
    const char *failure;
    uint8_t bytes[512];
};

static const char *work(struct worker *worker, struct okv_conn *conn, struct okv_memory *memory)
{
    const struct okv_transport_ops *ops = conn->ops;
    struct okv_event event;

    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t offset = (worker->number * 65537u + i * 4099u) % (FIXTURE_REGION - 512);
        uint8_t *buffer = ops->send_buffer(conn);
        if (!buffer)
            return "no send buffer";
        fixture_fill_message(buffer, worker->number + i, 100 + i);
        if (ops->post_send(conn, 100 + i, worker->number))
            return "send failed";
        ops->flush(conn);
        if (!fixture_wait(conn->endpoint, &event) || event.immediate != worker->number ||
            !fixture_is_message(&event, worker->number + i, 100 + i))
            return "another message came";
        ops->recv_release(conn->endpoint, &event);

        struct okv_read read = {offset, worker->bytes, memory, sizeof worker->bytes, i};
        if (ops->post_read(conn, &read, 1) || !fixture_wait(conn->endpoint, &event) ||
            event.type != OKV_EVENT_READ || event.status || event.cookie != i)
            return "READ failed";
        for (unsigned k = 0; k < sizeof worker->bytes; k++) {
            if (worker->bytes[k] != fixture_region_byte(offset + k))
                return "READ brought other bytes";
        }
    }
    return NULL;
}

static void *run_worker(void *argument)
{
    struct worker *worker = argument;
    const struct okv_transport_ops *ops = worker->fixture->ops;
    struct okv_answer welcome;
    struct okv_memory *memory;
    struct okv_conn *conn;

    if (fixture_try_connect(worker->fixture, FIXTURE_ACCEPT, fixture_soon(), &welcome, &conn,
                            NULL)) {
        worker->failure = "connect failed";
        return NULL;
    }
    if (fixture_set_remote(conn, &welcome) ||
        ops->memory_register(conn->endpoint, worker->bytes, sizeof worker->bytes, &memory)) {
        worker->failure = "no memory or no region";
    } else {
        worker->failure = work(worker, conn, memory);
        ops->memory_unregister(memory);
    }
    ops->conn_destroy(conn);
    return NULL;
}

unsigned run_several_clients(struct fixture *fixture)
{
    struct worker *workers = test_calloc(CLIENTS, sizeof *workers);
    pthread_t threads[CLIENTS];

    for (unsigned i = 0; i < CLIENTS; i++) {
        workers[i].fixture = fixture;
        workers[i].number = i;
        assert_int_equal(pthread_create(&threads[i], NULL, run_worker, &workers[i]), 0);
    }
    for (unsigned i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < CLIENTS; i++) {
        if (workers[i].failure)
            fail_msg("client %u: %s", i, workers[i].failure);
    }
    test_free(workers);
    return CLIENTS;
}

TEST(several_clients_at_once)
{
    struct fixture *fixture = *state;

    run_several_clients(fixture);
    assert_true(fixture_is_empty(fixture));
    assert_int_equal(atomic_load(&fixture->wrong), 0);
}
