/* Clients on the bare Unix socket that send what no transport would send. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared/transport_local.h"
#include "tests/support/hostile_client.h"
#include "tests/support/hostile_socket.h"

#define CLOSED_MALFORMED "closed_malformed"
#define CLOSED_CREDIT "closed_credit"
#define CLOSED_NO_IMMEDIATE "closed_no_immediate"

static void short_packets(void **state)
{
    struct bystander *bystander = *state;

    for (size_t length = 0; length < 4; length++) {
        int sock = hostile_socket_join(&bystander->server);
        uint64_t before = bystander_stat(bystander, CLOSED_NO_IMMEDIATE);
        hostile_socket_send(sock, "\1\2\3", length);
        hostile_socket_expect_end(sock);
        /* Nobody can tell an empty packet from the end of the stream. */
        if (length > 0)
            bystander_expect_stat(bystander, CLOSED_NO_IMMEDIATE, before + 1);
        bystander_expect_stat(bystander, "sessions", 1);
        bystander_check(bystander);
    }
}

static void large_packets(void **state)
{
    enum { LARGE = 200 * 1024 };
    struct bystander *bystander = *state;

    char *bytes = calloc(1, LARGE);
    int sock = hostile_socket_connect(&bystander->server); /* as a hello */
    hostile_socket_send(sock, bytes, LARGE);
    hostile_socket_expect_end(sock);
    bystander_check(bystander);

    uint64_t before = bystander_stat(bystander, CLOSED_MALFORMED);
    sock = hostile_socket_join(&bystander->server); /* as a message */
    hostile_socket_send(sock, bytes, LARGE);
    hostile_socket_expect_end(sock);
    free(bytes);
    bystander_expect_stat(bystander, CLOSED_MALFORMED, before + 1);
    bystander_expect_stat(bystander, "sessions", 1);
    bystander_check(bystander);
}

static void first_packets_that_are_no_hello(void **state)
{
    struct bystander *bystander = *state;

    for (size_t length = 0; length < 4; length++) {
        int sock = hostile_socket_connect(&bystander->server);
        hostile_socket_send(sock, "okv", length);
        hostile_socket_expect_end(sock);
    }
    int sock = hostile_socket_connect(&bystander->server);
    hostile_socket_send(sock, "GET / HTTP/1.1\r\n\r\n", 18);
    hostile_socket_expect_end(sock);
    bystander_check(bystander);
    assert_int_equal(bystander_stat(bystander, "sessions"), 1);
}

/* Who says nothing holds nobody up and is sent away in the end. */
static void silent_connections(void **state)
{
    enum { SILENT = 64 };
    struct bystander *bystander = *state;
    int socks[SILENT];

    for (int i = 0; i < SILENT; i++) {
        socks[i] = hostile_socket_connect(&bystander->server);
        if (i != 0 && i != SILENT - 1)
            continue;
        okv *other = server_connect(&bystander->server, NULL);
        assert_int_equal(okv_ping(other), OKV_OK);
        okv_close(&other);
        bystander_check(bystander);
    }
    for (int i = 0; i < SILENT; i++)
        hostile_socket_expect_end(socks[i]);
    bystander_expect_stat(bystander, "sessions", 1);
    bystander_check(bystander);
}

/* Sends GETs of `key` and never takes a reply, until the server ends the connection. */
static unsigned ask_without_listening(int sock, struct bystander *bystander, const char *key)
{
    enum { MOST = 10000 };
    struct okv_request_message get = {.opcode = OKV_OP_GET, .key = (const uint8_t *)key};
    uint8_t frame[OKV_LOCAL_MESSAGE_HEADER + 256];
    unsigned sent = 0;

    get.key_length = (uint32_t)strlen(key);
    okv_put_u32(frame, okv_immediate(OKV_OP_GET, 0));
    while (sent < MOST) {
        get.sequence = get.first_incomplete = sent + 1;
        uint32_t length = okv_request_encode(&get, frame + OKV_LOCAL_MESSAGE_HEADER);
        if (send(sock, frame, OKV_LOCAL_MESSAGE_HEADER + length, MSG_NOSIGNAL) < 0)
            break;
        if (++sent % 16 == 0)
            bystander_check(bystander);
    }
    assert_true(sent < MOST);
    assert_true(errno == EPIPE || errno == ECONNRESET);
    return sent;
}

/* Its replies fill the socket, then the send buffers, then its credits: who has
 * used them up and asks on is disconnected, and nobody waits meanwhile. */
static void replies_that_nobody_takes(void **state)
{
    struct bystander *bystander = *state;
    uint64_t before = bystander_stat(bystander, CLOSED_CREDIT);
    static const uint8_t value[8192];

    assert_int_equal(okv_put(bystander->handle, "large", 5, value, sizeof value, NULL), OKV_OK);
    int sock = hostile_socket_join(&bystander->server);
    unsigned sent = ask_without_listening(sock, bystander, "large");
    print_message("disconnected after %u requests without taking a reply\n", sent);
    close(sock);
    bystander_expect_stat(bystander, CLOSED_CREDIT, before + 1);
    bystander_expect_stat(bystander, "sessions", 1);
    bystander_check(bystander);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_packets),
        cmocka_unit_test(large_packets),
        cmocka_unit_test(first_packets_that_are_no_hello),
        cmocka_unit_test(silent_connections),
        cmocka_unit_test(replies_that_nobody_takes),
    };

    if (server_is_rdma()) {
        printf("skipped: a Unix socket needs a local: URI in OKV_TEST_URI, or none\n");
        return 77;
    }
    return cmocka_run_group_tests_name("hostile socket", tests, bystander_setup,
                                       bystander_teardown);
}
