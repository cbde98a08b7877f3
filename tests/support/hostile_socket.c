#include "tests/support/hostile_socket.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared/transport_local.h"
#include "tests/support/hostile_client.h"

/* A test that waits longer hangs. */
#define GUARD_SECONDS 20
#define SEND_ROOM (512 * 1024)

int hostile_socket_connect(const struct server_process *server)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval guard = {.tv_sec = GUARD_SECONDS};
    int room = SEND_ROOM;
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    assert_true(sock >= 0);
    assert_int_equal(setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &guard, sizeof guard), 0);
    assert_int_equal(setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &guard, sizeof guard), 0);
    assert_int_equal(setsockopt(sock, SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
    assert_memory_equal(server->uri, "local://", 8);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", server->uri + 8);
    assert_int_equal(connect(sock, (const struct sockaddr *)&address, sizeof address), 0);
    return sock;
}

int hostile_socket_join(const struct server_process *server)
{
    uint8_t frame[OKV_LOCAL_HELLO_HEADER + sizeof(struct okv_wire_hello)];
    uint8_t answer[OKV_LOCAL_ANSWER_HEADER + OKV_WELCOME_MAX];
    struct okv_wire_hello hello;
    int sock = hostile_socket_connect(server);

    hostile_hello(&hello);
    okv_put_u32(frame, OKV_LOCAL_MAGIC);
    memcpy(frame + OKV_LOCAL_HELLO_HEADER, &hello, sizeof hello);
    hostile_socket_send(sock, frame, sizeof frame);
    ssize_t got = recv(sock, answer, sizeof answer, 0); /* drops the memfd that comes with it */
    assert_int_equal(got, OKV_LOCAL_ANSWER_HEADER + sizeof(struct okv_wire_welcome));
    assert_int_equal(okv_get_u32(answer + 4), OKV_LOCAL_WELCOME);
    return sock;
}

void hostile_socket_send(int sock, const void *bytes, size_t length)
{
    assert_int_equal(send(sock, bytes, length, MSG_NOSIGNAL), length);
}

void hostile_socket_expect_end(int sock)
{
    char byte;
    ssize_t got = recv(sock, &byte, 1, 0);

    if (got > 0)
        fail_msg("the server answered instead of ending the connection");
    if (got < 0 && errno != ECONNRESET)
        fail_msg("the server did not end the connection: %s", strerror(errno));
    close(sock);
}
