#include "tests/support/transport_client.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/base/resolve.h"

static struct client *create(struct fixture *fixture, struct okv_conn *conn)
{
    struct client *client = test_calloc(1, sizeof *client);

    client->fixture = fixture;
    client->ops = fixture->ops;
    client->conn = conn;
    assert_int_equal(client->ops->memory_register(client->conn->endpoint, client->bytes,
                                                  sizeof client->bytes, &client->memory),
                     0);
    return client;
}

struct client *client_create(void **state)
{
    return create(*state, fixture_connect(*state));
}

struct client *client_create_other(void **state)
{
    return create(*state, fixture_connect_other(*state));
}

void client_destroy(struct client *client)
{
    /* in this order: conn_destroy destroys the endpoint of the memory */
    client->ops->memory_unregister(client->memory);
    client->ops->conn_destroy(client->conn);
    assert_true(fixture_is_empty(client->fixture));
    assert_int_equal(atomic_load(&client->fixture->wrong), 0);
    test_free(client);
}

bool client_reaches(struct client *client, const atomic_uint *count, unsigned wanted)
{
    uint64_t end = fixture_soon();

    while (atomic_load(count) < wanted) {
        if (okv_clock_ns() > end)
            return false;
        client->ops->poll(client->conn->endpoint, NULL, 0);
        usleep(200);
    }
    return true;
}

struct okv_event client_next_event(struct client *client)
{
    struct okv_event event;

    if (!fixture_wait(client->conn->endpoint, &event))
        fail_msg("no event came");
    assert_ptr_equal(event.conn, client->conn);
    return event;
}

/* When the connection ended instead, fails with the device's reason. */
static void client_expect_type(const struct okv_event *event, enum okv_event_type type)
{
    if (event->type == OKV_EVENT_CLOSED && type != OKV_EVENT_CLOSED)
        fail_msg("the connection ended with %d: '%s'", event->status, event->conn->failure);
    assert_int_equal(event->type, type);
}

void client_expect_nothing(struct client *client)
{
    struct okv_event event;

    assert_int_equal(client->ops->poll(client->conn->endpoint, &event, 1), 0);
}

int client_send(struct client *client, unsigned number, uint32_t length, uint32_t immediate)
{
    uint8_t *buffer = client->ops->send_buffer(client->conn);

    assert_non_null(buffer);
    fixture_fill_message(buffer, number, length);
    int status = client->ops->post_send(client->conn, length, immediate);
    client->ops->flush(client->conn);
    return status;
}

void client_expect_message(struct client *client, unsigned number, uint32_t length,
                           uint32_t immediate)
{
    struct okv_event event = client_next_event(client);

    client_expect_type(&event, OKV_EVENT_RECV);
    assert_int_equal(event.status, 0);
    assert_true(event.has_immediate);
    assert_int_equal(event.immediate, immediate);
    assert_true(fixture_is_message(&event, number, length));
    client->ops->recv_release(client->conn->endpoint, &event);
}

void client_echo(struct client *client, unsigned number, uint32_t length, uint32_t immediate)
{
    assert_int_equal(client_send(client, number, length, immediate), 0);
    client_expect_message(client, number, length, immediate);
}

void client_expect_closed(struct client *client)
{
    struct okv_event event = client_next_event(client);

    assert_int_equal(event.type, OKV_EVENT_CLOSED);
    assert_int_not_equal(event.status, 0);
    for (int i = 0; i < 100; i++)
        client_expect_nothing(client);
}

struct okv_read client_make_read(struct client *client, uint64_t offset, uint32_t length, size_t at,
                                 uint64_t cookie)
{
    return (struct okv_read){
        .offset = offset,
        .destination = client->bytes + at,
        .memory = client->memory,
        .length = length,
        .cookie = cookie,
    };
}

void assert_region_bytes(const uint8_t *bytes, uint64_t offset, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++) {
        if (bytes[i] != fixture_region_byte(offset + i))
            fail_msg("byte %u of the READ at %llu is wrong", i, (unsigned long long)offset);
    }
}

void client_read(struct client *client, uint64_t offset, uint32_t length, size_t at)
{
    struct okv_read read = client_make_read(client, offset, length, at, offset ^ length);

    memset(client->bytes, 0xEE, sizeof client->bytes);
    assert_int_equal(client->ops->post_read(client->conn, &read, 1), 0);
    struct okv_event event = client_next_event(client);
    client_expect_type(&event, OKV_EVENT_READ);
    assert_int_equal(event.status, 0);
    assert_int_equal(event.cookie, offset ^ length);
    assert_region_bytes(client->bytes + at, offset, length);
    /* and no byte beside it */
    assert_true(at == 0 || client->bytes[at - 1] == 0xEE);
    assert_int_equal(client->bytes[at + length], 0xEE);
}

int client_connect_raw(const struct fixture *fixture, const struct sockaddr_in *source)
{
    struct addrinfo *found;
    struct okv_diag diag;

    assert_int_equal(
        okv_resolve(fixture->connect_uri.host, fixture->connect_uri.port, 0, &found, &diag), 0);
    int sock = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(sock >= 0);
    if (source)
        assert_int_equal(bind(sock, (const struct sockaddr *)source, sizeof *source), 0);
    assert_int_equal(connect(sock, found->ai_addr, found->ai_addrlen), 0);
    freeaddrinfo(found);
    return sock;
}
