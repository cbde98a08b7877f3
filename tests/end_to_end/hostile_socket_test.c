/* Clients on the bare Unix socket that send what no transport would send. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared/clock.h"
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
        get.sequence = sent + 1;
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

/* ---- exposures: what a client may pass as memory ---- */

/* Sends an exposure of `size` bytes with this descriptor; -1: without one. */
static void send_exposure(int sock, uint32_t key, uint64_t size, int fd)
{
    uint8_t packet[OKV_LOCAL_EXPOSURE_SIZE];
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof fd)];
    } control = {.header = {.cmsg_len = CMSG_LEN(sizeof fd),
                            .cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS}};
    struct iovec vector = {packet, sizeof packet};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};

    okv_put_u32(packet, OKV_LOCAL_EXPOSURE_MARK);
    okv_put_u32(packet + 4, key);
    okv_put_u64(packet + 8, size);
    if (fd >= 0) {
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
        message.msg_control = control.space;
        message.msg_controllen = sizeof control.space;
    }
    assert_int_equal(sendmsg(sock, &message, MSG_NOSIGNAL), sizeof packet);
}

/* A PUT of `length` bytes that are to be pulled by `key`; returns the status of the reply. */
static int put_pulled(int sock, uint32_t key, uint32_t length)
{
    const struct okv_request_message put = {.opcode = OKV_OP_PUT,
                                            .sequence = okv_clock_ns(), /* ever higher */
                                            .flags = OKV_REQUEST_PULL,
                                            .key = (const uint8_t *)"victim",
                                            .key_length = 6,
                                            .value_length = length,
                                            .pull_key = key};
    uint8_t frame[OKV_LOCAL_MESSAGE_HEADER + 256];
    struct okv_reply_message reply;

    okv_put_u32(frame, okv_immediate(OKV_OP_PUT, 0));
    uint32_t size = okv_request_encode(&put, frame + OKV_LOCAL_MESSAGE_HEADER);
    hostile_socket_send(sock, frame, OKV_LOCAL_MESSAGE_HEADER + size);
    ssize_t got = recv(sock, frame, sizeof frame, 0);
    assert_true(got >= OKV_LOCAL_MESSAGE_HEADER);
    assert_int_equal(okv_reply_decode(okv_get_u32(frame), frame + OKV_LOCAL_MESSAGE_HEADER,
                                      (uint32_t)got - OKV_LOCAL_MESSAGE_HEADER, &reply),
                     0);
    return reply.status;
}

static int memory_of(size_t size, int seals)
{
    int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

/* One that the server can READ, and everything else that a descriptor can be. */
static void descriptors_that_are_no_memory(void **state)
{
    enum { SIZE = 50000 };
    struct bystander *bystander = *state;
    int pipes[2];

    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    const struct {
        const char *what;
        int fd;
        int status;
    } cases[] = {
        {"a memfd", memory_of(SIZE, F_SEAL_SHRINK), OKV_OK},
        {"an empty pipe", pipes[0], OKV_EPULL},
        {"the other end of it", pipes[1], OKV_EPULL},
        {"a socket", socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), OKV_EPULL},
        {"a folder", open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), OKV_EPULL},
        {"a device", open("/dev/zero", O_RDONLY | O_CLOEXEC), OKV_EPULL},
        {"memory that can shrink", memory_of(SIZE, 0), OKV_EPULL},
        {"memory that is too short", memory_of(SIZE - 1, F_SEAL_SHRINK), OKV_EPULL},
    };
    assert_int_equal(okv_put(bystander->handle, "victim", 6, "v", 1, NULL), OKV_OK);
    struct bystander_holdings before = bystander_holdings(bystander);
    int sock = hostile_socket_join(&bystander->server);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(cases[i].fd >= 0);
        send_exposure(sock, (uint32_t)i << 16, SIZE, cases[i].fd);
        int status = put_pulled(sock, (uint32_t)i << 16, SIZE);
        if (status != cases[i].status)
            fail_msg("%s: %s", cases[i].what, okv_errname(status));
        close(cases[i].fd);
        bystander_check(bystander);
        assert_int_equal(okv_put(bystander->handle, "victim", 6, "v", 1, NULL), OKV_OK);
    }
    close(sock);
    bystander_expect_stat(bystander, "sessions", 1);
    bystander_expect_stat(bystander, "extent_bytes", before.extent_bytes);
    bystander_expect_accounts(bystander);
    bystander_check(bystander);
}

/* Without a descriptor it is a message, and one that makes no sense. */
static void exposures_that_are_none(void **state)
{
    struct bystander *bystander = *state;
    uint64_t before = bystander_stat(bystander, CLOSED_MALFORMED);

    int sock = hostile_socket_join(&bystander->server);
    send_exposure(sock, 0, 100, -1);
    hostile_socket_expect_end(sock);
    bystander_expect_stat(bystander, CLOSED_MALFORMED, before + 1);
    int fd = memory_of(100, F_SEAL_SHRINK);
    sock = hostile_socket_join(&bystander->server);
    send_exposure(sock, UINT16_MAX, 100, fd); /* a place that there is not */
    hostile_socket_expect_end(sock);
    close(fd);
    bystander_expect_stat(bystander, CLOSED_MALFORMED, before + 2);
    bystander_expect_stat(bystander, "sessions", 1);
    bystander_check(bystander);
}

/* They hold descriptors of the server: as many as there are places, and no more. */
static void exposures_without_end(void **state)
{
    enum { COUNT = 5000 };
    struct bystander *bystander = *state;
    int fd = memory_of(100, F_SEAL_SHRINK);
    int sock = hostile_socket_join(&bystander->server);

    for (uint32_t i = 0; i < COUNT; i++)
        send_exposure(sock, i << 16 | i % HOSTILE_CREDITS, 100, fd);
    assert_int_equal(put_pulled(sock, (COUNT - 1) << 16 | (COUNT - 1) % HOSTILE_CREDITS, 100),
                     OKV_OK);
    assert_int_equal(put_pulled(sock, 0, 100), OKV_EPULL);
    okv *other = server_connect(&bystander->server, NULL);
    assert_int_equal(okv_ping(other), OKV_OK);
    okv_close(&other);
    close(fd);
    close(sock);
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
        cmocka_unit_test(descriptors_that_are_no_memory),
        cmocka_unit_test(exposures_that_are_none),
        cmocka_unit_test(exposures_without_end),
    };

    if (server_is_rdma()) {
        printf("skipped: a Unix socket needs a local: URI in OKV_TEST_URI, or none\n");
        return 77;
    }
    return cmocka_run_group_tests_name("hostile socket", tests, bystander_setup,
                                       bystander_teardown);
}
