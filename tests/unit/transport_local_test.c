/*
 * The local transport with clients that keep to no rules, and what its READs
 * and messages do beyond those of other transports. What every transport does is in
 * transport_list.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared/bytes.h"
#include "shared/clock.h"
#include "shared/error.h"
#include "tests/support/transport_fixture.h"

/* What transport_local.h says on the wire; said again so that a change is noticed. */
#define MAGIC 0x4c766b6fu
#define ANSWER_WELCOME 1u
#define SILENT_CLIENTS 200u
#define SILENT_MAX 128u /* that a server keeps */

static struct sockaddr_un address_of(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    memcpy(address.sun_path, path, strlen(path));
    return address;
}

/* A client that was written by somebody else. */

static int raw_connect(const struct fixture *fixture)
{
    struct sockaddr_un address = address_of(fixture->connect_uri.path);
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    assert_true(sock >= 0);
    assert_int_equal(connect(sock, (struct sockaddr *)&address, sizeof address), 0);
    return sock;
}

static void raw_hello(int sock)
{
    uint8_t frame[4 + FIXTURE_HELLO];

    okv_put_u32(frame, MAGIC);
    frame[4] = FIXTURE_ACCEPT;
    for (unsigned i = 1; i < FIXTURE_HELLO; i++)
        frame[4 + i] = fixture_hello_byte(i);
    assert_int_equal(send(sock, frame, sizeof frame, MSG_NOSIGNAL), sizeof frame);
}

static ssize_t raw_receive(int sock, uint8_t *bytes, size_t size)
{
    struct pollfd watched = {.fd = sock, .events = POLLIN};

    assert_int_equal(poll(&watched, 1, (int)(FIXTURE_GUARD_NS / 1000000u)), 1);
    return recv(sock, bytes, size, 0);
}

/* A raw client past its handshake. */
static int raw_open(const struct fixture *fixture)
{
    uint8_t answer[256];
    int sock = raw_connect(fixture);

    raw_hello(sock);
    assert_int_equal(raw_receive(sock, answer, sizeof answer), 8 + FIXTURE_WELCOME);
    assert_int_equal(okv_get_u32(answer), MAGIC);
    assert_int_equal(okv_get_u32(answer + 4), ANSWER_WELCOME);
    return sock;
}

static void assert_still_serving(struct fixture *fixture)
{
    struct okv_conn *conn = fixture_connect(fixture);
    struct okv_event event;

    fixture_fill_message(fixture->ops->send_buffer(conn), 1, 50);
    assert_int_equal(fixture->ops->post_send(conn, 50, 1), 0);
    fixture->ops->flush(conn);
    assert_true(fixture_wait(conn->endpoint, &event));
    assert_true(fixture_is_message(&event, 1, 50));
    fixture->ops->conn_destroy(conn);
    assert_true(fixture_is_empty(fixture));
    assert_int_equal(atomic_load(&fixture->wrong), 0);
}

static void short_packets_are_messages_without_immediate(void **state)
{
    struct fixture *fixture = *state;
    unsigned before = atomic_load(&fixture->without_immediate);
    int sock = raw_open(fixture);
    uint8_t bytes[8] = {1, 2, 3, 4};

    for (size_t length = 1; length <= 3; length++)
        assert_int_equal(send(sock, bytes, length, MSG_NOSIGNAL), length);
    assert_true(fixture_reaches(&fixture->without_immediate, before + 3));
    assert_int_equal(send(sock, bytes, 4, MSG_NOSIGNAL), 4);
    assert_int_equal(raw_receive(sock, bytes, sizeof bytes), 4);
    close(sock);
    assert_still_serving(fixture);
}

static void a_packet_too_long_ends_its_connection(void **state)
{
    struct fixture *fixture = *state;
    unsigned before = atomic_load(&fixture->closed);
    static uint8_t packet[FIXTURE_SLOT_SIZE + 5];
    uint8_t byte;
    int sock = raw_open(fixture);

    assert_int_equal(send(sock, packet, sizeof packet, MSG_NOSIGNAL), sizeof packet);
    assert_true(fixture_reaches(&fixture->closed, before + 1));
    assert_int_equal(atomic_load(&fixture->last_close), OKV_EPROTO);
    assert_true(raw_receive(sock, &byte, 1) <= 0);
    close(sock);
    assert_still_serving(fixture);
}

static void an_empty_packet_ends_its_connection(void **state)
{
    struct fixture *fixture = *state;
    unsigned before = atomic_load(&fixture->closed);
    int sock = raw_open(fixture);

    assert_int_equal(send(sock, "", 0, MSG_NOSIGNAL), 0);
    assert_true(fixture_reaches(&fixture->closed, before + 1));
    assert_int_equal(atomic_load(&fixture->last_close), OKV_EDISCONNECTED);
    close(sock);
    assert_still_serving(fixture);
}

/* It fills its share of the buffers and its own socket, and nobody else's. */
static void a_client_that_reads_nothing_hurts_itself_alone(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t packet[FIXTURE_SLOT_SIZE + 4];
    int sock = raw_open(fixture);

    for (int idle = 0; idle < 20;) {
        if (send(sock, packet, sizeof packet, MSG_NOSIGNAL | MSG_DONTWAIT) > 0) {
            idle = 0;
        } else {
            assert_int_equal(errno, EAGAIN);
            idle++;
            usleep(1000);
        }
    }
    struct okv_conn *conn = fixture_connect(fixture);
    struct okv_event event;
    for (unsigned i = 0; i < 100; i++) {
        fixture_fill_message(fixture->ops->send_buffer(conn), i, 500);
        assert_int_equal(fixture->ops->post_send(conn, 500, i), 0);
        fixture->ops->flush(conn);
        assert_true(fixture_wait(conn->endpoint, &event));
        assert_true(fixture_is_message(&event, i, 500));
        fixture->ops->recv_release(conn->endpoint, &event);
    }
    fixture->ops->conn_destroy(conn);
    close(sock);
    assert_true(fixture_is_empty(fixture));
    assert_still_serving(fixture);
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;

    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void descriptors_that_come_with_messages_are_dropped(void **state)
{
    struct fixture *fixture = *state;
    int sock = raw_open(fixture);
    unsigned before = open_descriptors();
    uint8_t bytes[4] = {0};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec vector = {bytes, sizeof bytes};

    for (int i = 0; i < 20; i++) {
        struct msghdr message = {.msg_iov = &vector,
                                 .msg_iovlen = 1,
                                 .msg_control = control.space,
                                 .msg_controllen = sizeof control.space};
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof sock);
        memcpy(CMSG_DATA(&control.header), &sock, sizeof sock);
        assert_int_equal(sendmsg(sock, &message, MSG_NOSIGNAL), sizeof bytes);
        assert_int_equal(raw_receive(sock, bytes, sizeof bytes), sizeof bytes);
    }
    assert_int_equal(open_descriptors(), before);
    close(sock);
    assert_still_serving(fixture);
}

static void silent_clients_block_nobody(void **state)
{
    struct fixture *fixture = *state;
    int socks[SILENT_CLIENTS];
    unsigned before = open_descriptors();

    for (unsigned i = 0; i < SILENT_CLIENTS; i++)
        socks[i] = raw_connect(fixture);
    assert_still_serving(fixture);
    assert_in_range(open_descriptors(), before, before + SILENT_CLIENTS + SILENT_MAX);
    /* the last one came late, and is served as well */
    raw_hello(socks[SILENT_CLIENTS - 1]);
    uint8_t answer[256];
    assert_int_equal(raw_receive(socks[SILENT_CLIENTS - 1], answer, sizeof answer),
                     8 + FIXTURE_WELCOME);
    for (unsigned i = 0; i < SILENT_CLIENTS; i++)
        close(socks[i]);
    assert_still_serving(fixture);
}

static void a_silent_client_is_dropped(void **state)
{
    int sock = raw_connect(*state);
    uint8_t byte;

    assert_true(raw_receive(sock, &byte, 1) <= 0);
    close(sock);
}

/* With no descriptor left the next client is turned away, and those that are
 * connected notice nothing. */
static void a_client_too_many_is_turned_away(void **state)
{
    struct fixture *fixture = *state;
    struct rlimit before, low;
    uint8_t byte;
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);

    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    low.rlim_cur = (rlim_t)next + 1; /* room for our end, and not for the server's */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    int sock = raw_connect(fixture);
    ssize_t got = raw_receive(sock, &byte, 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(got <= 0);
    close(sock);
    assert_still_serving(fixture);
}

static void a_wrong_hello_is_dropped(void **state)
{
    static const uint8_t other_magic[8] = "GET / HT";
    uint8_t too_long[4 + OKV_HELLO_MAX + 1] = {0};
    const struct iovec hellos[] = {
        {(void *)other_magic, 8},
        {(void *)other_magic, 3},
        {(void *)other_magic, 0},
        {too_long, sizeof too_long},
    };
    struct fixture *fixture = *state;
    uint8_t byte;

    okv_put_u32(too_long, MAGIC);
    for (unsigned i = 0; i < sizeof hellos / sizeof hellos[0]; i++) {
        int sock = raw_connect(fixture);
        assert_int_equal(send(sock, hellos[i].iov_base, hellos[i].iov_len, MSG_NOSIGNAL),
                         hellos[i].iov_len);
        assert_true(raw_receive(sock, &byte, 1) <= 0);
        close(sock);
    }
    assert_still_serving(fixture);
}

/* More than the socket holds: messages wait in the connection, and keep their order. */
static void messages_wait_for_room_in_the_socket(void **state)
{
    struct fixture *fixture = *state;
    const struct okv_transport_ops *ops = fixture->ops;
    struct okv_conn *conn = fixture_connect(fixture);
    struct okv_event event;
    unsigned sent = 0, received = 0;

    fixture_pause(fixture);
    for (; ops->send_buffer(conn); sent++) {
        fixture_fill_message(ops->send_buffer(conn), sent, FIXTURE_SLOT_SIZE);
        assert_int_equal(ops->post_send(conn, FIXTURE_SLOT_SIZE, sent), 0);
        ops->flush(conn);
    }
    assert_true(sent > FIXTURE_CREDITS);
    assert_int_equal(ops->post_send(conn, 0, 0), OKV_EAGAIN);
    assert_int_equal(ops->poll(conn->endpoint, &event, 1), 0);
    assert_null(ops->send_buffer(conn));
    fixture_resume(fixture);
    for (; received < sent; received++) {
        assert_true(fixture_wait(conn->endpoint, &event));
        assert_int_equal(event.immediate, received);
        assert_true(fixture_is_message(&event, received, FIXTURE_SLOT_SIZE));
        ops->recv_release(conn->endpoint, &event);
    }
    assert_non_null(ops->send_buffer(conn));
    ops->conn_destroy(conn);
    assert_still_serving(fixture);
}

/* The mapping is still there when the server is gone, but a READ must not succeed. */
static void a_read_after_the_server_has_gone_fails(void **state)
{
    struct fixture *fixture = *state;
    const struct okv_transport_ops *ops = fixture->ops;
    struct okv_conn *conn = fixture_connect(fixture);
    struct okv_memory *memory;
    struct okv_event event;
    uint8_t bytes[8];

    assert_int_equal(ops->memory_register(conn->endpoint, bytes, sizeof bytes, &memory), 0);
    struct okv_read read = {0, bytes, memory, sizeof bytes, 1};
    assert_int_equal(ops->post_read(conn, &read, 1), 0);
    assert_true(fixture_wait(conn->endpoint, &event));
    assert_int_equal(event.status, 0);

    /* a message of the server that nobody has taken yet must not hide its end */
    fixture_fill_message(ops->send_buffer(conn), 1, 10);
    assert_int_equal(ops->post_send(conn, 10, 1), 0);
    ops->flush(conn);
    assert_true(fixture_reaches(&fixture->echoed, 1));
    fixture_order(fixture, &fixture->close_all);
    assert_true(fixture_is_empty(fixture));
    usleep(1000);

    assert_int_equal(ops->post_read(conn, &read, 1), 0);
    unsigned reads = 0;
    do {
        assert_true(fixture_wait(conn->endpoint, &event));
        if (event.type == OKV_EVENT_READ) {
            reads++;
            assert_int_equal(event.status, OKV_EDISCONNECTED);
        } else if (event.type == OKV_EVENT_RECV) {
            assert_true(fixture_is_message(&event, 1, 10));
            ops->recv_release(conn->endpoint, &event);
        }
    } while (event.type != OKV_EVENT_CLOSED);
    assert_int_equal(reads, 1);
    ops->memory_unregister(memory);
    ops->conn_destroy(conn);
}

static void a_read_lands_in_its_memory_or_nowhere(void **state)
{
    struct fixture *fixture = *state;
    struct okv_conn *conn = fixture_connect(fixture);
    uint8_t bytes[32] = {0};
    struct okv_memory *memory;

    assert_int_equal(fixture->ops->memory_register(conn->endpoint, bytes + 8, 16, &memory), 0);
    const struct okv_read refused[] = {
        {0, bytes + 7, memory, 8, 1},  {0, bytes + 17, memory, 8, 1}, {0, bytes + 8, memory, 17, 1},
        {0, bytes + 24, memory, 1, 1}, {0, bytes + 8, NULL, 8, 1},    {0, NULL, memory, 8, 1},
    };
    for (unsigned i = 0; i < sizeof refused / sizeof refused[0]; i++)
        assert_int_equal(fixture->ops->post_read(conn, &refused[i], 1), OKV_EINVAL);
    struct okv_read read = {0, bytes + 8, memory, 16, 1};
    assert_int_equal(fixture->ops->post_read(conn, &read, 1), 0);
    fixture->ops->memory_unregister(memory);
    fixture->ops->conn_destroy(conn);
    assert_true(fixture_is_empty(fixture));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_packets_are_messages_without_immediate),
        cmocka_unit_test(a_packet_too_long_ends_its_connection),
        cmocka_unit_test(an_empty_packet_ends_its_connection),
        cmocka_unit_test(a_client_that_reads_nothing_hurts_itself_alone),
        cmocka_unit_test(descriptors_that_come_with_messages_are_dropped),
        cmocka_unit_test(silent_clients_block_nobody),
        cmocka_unit_test(a_silent_client_is_dropped),
        cmocka_unit_test(a_client_too_many_is_turned_away),
        cmocka_unit_test(a_wrong_hello_is_dropped),
        cmocka_unit_test(messages_wait_for_room_in_the_socket),
        cmocka_unit_test(a_read_after_the_server_has_gone_fails),
        cmocka_unit_test(a_read_lands_in_its_memory_or_nowhere),
    };

    return cmocka_run_group_tests(tests, fixture_setup_local, fixture_teardown);
}
