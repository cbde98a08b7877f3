#include "tests/support/hostile_socket.h"

#include <sys/socket.h>
#include <sys/time.h>

#include "tests/support/test.h"

#include "shared/transport/transport.h"
#include "tests/support/hostile_client.h"

/* A test that waits longer hangs. */
#define GUARD_SECONDS 20
#define SEND_ROOM (512 * 1024)

void hostile_socket_connect(struct bare_client *client, const struct server_process *server)
{
    struct timeval guard = {.tv_sec = GUARD_SECONDS};
    int room = SEND_ROOM;

    assert_memory_equal(server->uri, "local://", 8);
    bare_connect(client, server->uri + 8);
    assert_int_equal(setsockopt(client->sock, SOL_SOCKET, SO_SNDTIMEO, &guard, sizeof guard), 0);
    assert_int_equal(setsockopt(client->sock, SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
}

void hostile_socket_ask(struct bare_client *client, int *rings)
{
    uint8_t welcome[OKV_WELCOME_MAX];
    struct okv_wire_hello hello;

    hostile_hello(&hello);
    bare_hello(client, &hello, sizeof hello);
    assert_int_equal(bare_take_answer(client, welcome, sizeof welcome, rings),
                     sizeof(struct okv_wire_welcome));
}

void hostile_socket_join(struct bare_client *client, const struct server_process *server)
{
    uint8_t welcome[OKV_WELCOME_MAX];
    struct okv_wire_hello hello;

    hostile_socket_connect(client, server);
    hostile_hello(&hello);
    bare_hello(client, &hello, sizeof hello);
    assert_int_equal(bare_take_welcome(client, welcome, sizeof welcome),
                     sizeof(struct okv_wire_welcome));
}

void hostile_socket_send(struct bare_client *client, const void *bytes, size_t length)
{
    bare_packet(client, bytes, length);
}

void hostile_socket_expect_end(struct bare_client *client)
{
    uint8_t byte;
    uint32_t length, immediate;

    bare_expect_end(client);
    if (client->ring.page && okv_local_ring_take(&client->ring, &byte, 1, &length, &immediate) != 0)
        fail_msg("the server answered instead of ending the connection");
    bare_close(client);
}
