/*
 * A client for the tests of transports. Each call does one thing and fails the test when that does
 * not work. The `client` functions are for the test's own thread.
 */
#ifndef OKV_TESTS_TRANSPORT_CLIENT_H
#define OKV_TESTS_TRANSPORT_CLIENT_H

#include "tests/support/transport_fixture.h"

struct sockaddr_in;

#define CLIENT_LARGE_READ (256u << 10)

/* A connection with memory for its READs. */
struct client {
    struct fixture *fixture;
    const struct okv_transport_ops *ops;
    struct okv_conn *conn;
    struct okv_memory *memory;
    uint8_t bytes[CLIENT_LARGE_READ + 64];
};

/* `state` is cmocka's and leads to the fixture. */
struct client *client_create(void **state);
/* One that reaches the other region. */
struct client *client_create_other(void **state);
/* Waits until the server has closed its side, so that the next test starts clean. */
void client_destroy(struct client *client);

/* As fixture_reaches(), while the client makes progress: some transports serve a rendezvous read by
 * the client's polls. Takes no event. */
bool client_reaches(struct client *client, const atomic_uint *count, unsigned wanted);
struct okv_event client_next_event(struct client *client);
void client_expect_nothing(struct client *client);
/* One OKV_EVENT_CLOSED with a reason, and nothing after it. */
void client_expect_closed(struct client *client);

/* Sends message `number` of the fixture's pattern; returns post_send's result. */
int client_send(struct client *client, unsigned number, uint32_t length, uint32_t immediate);
void client_expect_message(struct client *client, unsigned number, uint32_t length,
                           uint32_t immediate);
void client_echo(struct client *client, unsigned number, uint32_t length, uint32_t immediate);

/* A READ to byte `at` of the client's memory. */
struct okv_read client_make_read(struct client *client, uint64_t offset, uint32_t length, size_t at,
                                 uint64_t cookie);
/* Performs one; checks its bytes, and that no others changed. */
void client_read(struct client *client, uint64_t offset, uint32_t length, size_t at);
void assert_region_bytes(const uint8_t *bytes, uint64_t offset, uint32_t length);

/* A TCP socket that is connected to the fixture's server and has sent nothing, from `source` unless
 * that is NULL. The caller closes it. */
int client_connect_raw(const struct fixture *fixture, const struct sockaddr_in *source);

#endif
