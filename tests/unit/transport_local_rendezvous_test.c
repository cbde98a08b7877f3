/*
 * Adverts of hostile clients over the local transport, and adverts of an okv client that wait for
 * room in the socket.
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
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "tests/support/transport_steps.h"

/* The bytes that local.h defines on the wire, repeated so that a change is noticed. */
#define MARK 0x58766b6fu
#define ADVERT_SIZE 16u

#define CREDITS 4u
#define MEMORY 8192u /* bytes of a good descriptor */
#define DESCRIPTORS_MAX 8u
/* What a connection has open at the server: the socket, and the client's process. */
#define SERVER_DESCRIPTORS 2u

static const struct okv_message_limits limits = {64, CREDITS};

/* One client of a server in steps. */
struct meeting {
    struct steps steps;
    struct okv_conn *conn;
    struct bare_client client;
    unsigned descriptors; /* open now, before anything was advertised */
    struct fixture *fixture;
};

static void meet(struct meeting *meeting, void **state)
{
    meeting->fixture = *state;
    steps_start(&meeting->steps, *state, &limits);
    steps_let_in(&meeting->steps, 0, &meeting->client, &meeting->conn);
    meeting->descriptors = steps_open_descriptors();
}

/* The client disconnects; the server must keep none of its descriptors. */
static void disconnect(struct meeting *meeting)
{
    struct okv_event event;

    bare_close(&meeting->client);
    assert_true(fixture_wait(meeting->steps.endpoint, &event));
    assert_int_equal(event.type, OKV_EVENT_CLOSED);
    assert_int_equal(steps_open_descriptors(), meeting->descriptors - 1 - SERVER_DESCRIPTORS);
    meeting->steps.ops->conn_destroy(meeting->conn);
    steps_stop(&meeting->steps);
}

/* Sends bytes with `count` times the descriptor. */
static void send_with(int sock, const void *bytes, size_t length, int fd, unsigned count)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
    } control = {0};
    struct iovec vector = {(void *)bytes, length};
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = CMSG_SPACE(count * sizeof fd)};

    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(count * sizeof fd);
    for (unsigned i = 0; i < count; i++)
        memcpy(CMSG_DATA(&control.header) + i * sizeof fd, &fd, sizeof fd);
    assert_int_equal(sendmsg(sock, &message, MSG_NOSIGNAL), length);
}

static void write_advert(uint8_t packet[ADVERT_SIZE + 1], uint32_t key, uint64_t size)
{
    okv_put_u32(packet, MARK);
    okv_put_u32(packet + 4, key);
    okv_put_u64(packet + 8, size);
    packet[ADVERT_SIZE] = 0;
}

static void send_advert(int sock, uint32_t key, uint64_t size, int fd)
{
    uint8_t packet[ADVERT_SIZE + 1];

    write_advert(packet, key, size);
    send_with(sock, packet, ADVERT_SIZE, fd, 1);
}

static uint8_t memory_byte(unsigned i)
{
    return (uint8_t)(i * 3 + (i >> 8) + 1);
}

static int make_memory(size_t length, int seals)
{
    int fd = memfd_create("okv-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    for (unsigned i = 0; i < length; i++) {
        uint8_t byte = memory_byte(i);
        assert_int_equal(write(fd, &byte, 1), 1);
    }
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

/* Polls often enough that the server has checked its sockets. */
static void expect_no_event(const struct meeting *meeting)
{
    enum { POLLS = 40 };
    struct okv_event event;

    for (unsigned i = 0; i < POLLS; i++)
        assert_int_equal(meeting->steps.ops->poll(meeting->steps.endpoint, &event, 1), 0);
}

static void expect_closed(const struct meeting *meeting, int status)
{
    struct okv_event event;

    assert_true(fixture_wait(meeting->steps.endpoint, &event));
    assert_int_equal(event.type, OKV_EVENT_CLOSED);
    assert_int_equal(event.status, status);
}

/* Makes a rendezvous read to offset 0 of the region; returns the status of its event. */
static int rendezvous(const struct meeting *meeting, uint32_t key, uint64_t address,
                      uint32_t length)
{
    const struct okv_rendezvous wanted = {
        .address = address, .key = key, .length = length, .cookie = 1000 + key};
    struct okv_event event;

    assert_int_equal(meeting->steps.ops->rendezvous(meeting->conn, &wanted), 0);
    assert_int_equal(meeting->steps.ops->poll(meeting->steps.endpoint, &event, 1), 1);
    assert_int_equal(event.type, OKV_EVENT_RENDEZVOUS_DONE);
    assert_ptr_equal(event.conn, meeting->conn);
    assert_int_equal(event.cookie, 1000 + key);
    return event.status;
}

static void expect_good_rendezvous(const struct meeting *meeting, uint32_t key)
{
    assert_int_equal(rendezvous(meeting, key, 0, MEMORY), 0);
    for (unsigned i = 0; i < MEMORY; i++)
        assert_int_equal(meeting->fixture->region[i], memory_byte(i));
    assert_int_equal(meeting->fixture->region[MEMORY], fixture_region_byte(MEMORY));
    fixture_restore(meeting->fixture, 0, MEMORY);
}

/* A correct advert still works. */
static void expect_good_advert(const struct meeting *meeting)
{
    int fd = make_memory(MEMORY, F_SEAL_SHRINK);
    unsigned before = steps_open_descriptors();

    send_advert(meeting->client.sock, 0x70000, MEMORY, fd);
    expect_no_event(meeting);
    assert_int_equal(steps_open_descriptors(), before + 1);
    expect_good_rendezvous(meeting, 0x70000);
    assert_int_equal(steps_open_descriptors(), before);
    assert_int_equal(rendezvous(meeting, 0x70000, 0, 1), OKV_ERENDEZVOUS);
    close(fd);
}

/* A file on disk, which the client could truncate. */
static int make_file(const struct fixture *fixture)
{
    int fd = open(fixture->directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, MEMORY), 0);
    return fd;
}

static int make_write_only_memory(void)
{
    int fd = make_memory(MEMORY, F_SEAL_SHRINK);
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int other = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(other >= 0);
    close(fd);
    return other;
}

static void junk_cannot_be_read(void **state)
{
    struct meeting meeting;
    int ends[2], socks[2];

    meet(&meeting, state);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks), 0);
    const int junk[] = {
        ends[0],
        ends[1],
        socks[0],
        open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
        open("/dev/zero", O_RDWR | O_CLOEXEC),
        open("/proc/self/maps", O_RDONLY | O_CLOEXEC),
        make_file(meeting.fixture),
        make_memory(MEMORY, F_SEAL_GROW),
        make_memory(MEMORY - 1, F_SEAL_SHRINK),
        make_memory(0, F_SEAL_SHRINK),
        make_write_only_memory(),
        open("/dev/zero", O_PATH | O_CLOEXEC),
    };
    const unsigned count = sizeof junk / sizeof junk[0];

    meeting.descriptors = steps_open_descriptors();
    for (unsigned i = 0; i < count; i++) {
        uint32_t key = i << 16 | i % CREDITS;
        assert_true(junk[i] >= 0);
        send_advert(meeting.client.sock, key, MEMORY, junk[i]);
        expect_no_event(&meeting);
        assert_int_equal(rendezvous(&meeting, key, 0, 100), OKV_ERENDEZVOUS);
        assert_int_equal(steps_open_descriptors(), meeting.descriptors);
    }
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(meeting.fixture->region[i], fixture_region_byte(i));
    expect_good_advert(&meeting);
    for (unsigned i = 0; i < count; i++)
        close(junk[i]);
    close(socks[1]);
    meeting.descriptors = steps_open_descriptors();
    disconnect(&meeting);
}

/* A rendezvous read ends at the stated size, even if the descriptor has more. */
static void the_stated_size_of_an_advert_counts(void **state)
{
    static const struct {
        uint64_t address;
        uint32_t length;
    } cases[] = {
        {0, 101}, {1, 100}, {100, 1}, {UINT64_MAX, 1}, {UINT64_MAX, 2}, {(uint64_t)1 << 63, 1},
    };
    struct meeting meeting;

    meet(&meeting, state);
    int fd = make_memory(MEMORY, F_SEAL_SHRINK);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        send_advert(meeting.client.sock, 1, 100, fd);
        expect_no_event(&meeting);
        assert_int_equal(rendezvous(&meeting, 1, cases[i].address, cases[i].length),
                         OKV_ERENDEZVOUS);
    }
    close(fd);
    expect_good_advert(&meeting);
    disconnect(&meeting);
}

static void there_are_as_many_adverts_as_credits(void **state)
{
    static const uint32_t too_many[] = {CREDITS, 0xffff, 0xffffffff};
    struct meeting meeting;

    for (unsigned i = 0; i < sizeof too_many / sizeof too_many[0]; i++) {
        meet(&meeting, state);
        int fd = make_memory(MEMORY, F_SEAL_SHRINK);
        for (uint32_t key = 0; key < 3 * CREDITS; key++)
            send_advert(meeting.client.sock, key / CREDITS << 16 | key % CREDITS, MEMORY, fd);
        for (unsigned k = 0; k < 3 * CREDITS; k++)
            expect_no_event(&meeting);
        assert_int_equal(steps_open_descriptors(), meeting.descriptors + 1 + CREDITS);
        assert_int_equal(rendezvous(&meeting, 1, 0, 1), OKV_ERENDEZVOUS); /* displaced */
        expect_good_rendezvous(&meeting, 2u << 16 | 1);
        assert_int_equal(steps_open_descriptors(), meeting.descriptors + CREDITS);

        send_advert(meeting.client.sock, too_many[i], MEMORY, fd);
        expect_closed(&meeting, OKV_EPROTO);
        close(fd);
        assert_int_equal(steps_open_descriptors(), meeting.descriptors - SERVER_DESCRIPTORS);
        bare_close(&meeting.client);
        meeting.steps.ops->conn_destroy(meeting.conn);
        steps_stop(&meeting.steps);
    }
}

static void adverts_go_with_their_connection(void **state)
{
    struct meeting meeting;

    meet(&meeting, state);
    int fd = make_memory(MEMORY, F_SEAL_SHRINK);
    for (uint32_t key = 0; key < CREDITS; key++) {
        send_advert(meeting.client.sock, key, MEMORY, fd);
        expect_no_event(&meeting);
    }
    close(fd);
    assert_int_equal(steps_open_descriptors(), meeting.descriptors + CREDITS);
    disconnect(&meeting);
}

static void adverts_of_a_wrong_length_close_the_connection(void **state)
{
    static const size_t lengths[] = {6, ADVERT_SIZE - 1, ADVERT_SIZE + 1};
    uint8_t packet[ADVERT_SIZE + 1];
    int fd = make_memory(MEMORY, F_SEAL_SHRINK);
    struct meeting meeting;

    write_advert(packet, 0, MEMORY);
    for (unsigned i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        for (unsigned count = 1; count <= DESCRIPTORS_MAX; count += DESCRIPTORS_MAX - 1) {
            meet(&meeting, state);
            send_with(meeting.client.sock, packet, lengths[i], fd, count);
            expect_closed(&meeting, OKV_EPROTO);
            assert_int_equal(steps_open_descriptors(), meeting.descriptors - SERVER_DESCRIPTORS);
            bare_close(&meeting.client);
            meeting.steps.ops->conn_destroy(meeting.conn);
            steps_stop(&meeting.steps);
        }
    }
    close(fd);
}

static void an_advert_has_one_descriptor_or_none(void **state)
{
    struct meeting meeting;
    uint8_t packet[ADVERT_SIZE + 1];

    meet(&meeting, state);
    int fd = make_memory(MEMORY, F_SEAL_SHRINK);
    unsigned before = steps_open_descriptors();
    write_advert(packet, 0, MEMORY);
    bare_packet(&meeting.client, packet, ADVERT_SIZE);
    assert_int_equal(rendezvous(&meeting, 0, 0, 1), OKV_ERENDEZVOUS);
    /* one too many is dropped */
    send_with(meeting.client.sock, packet, ADVERT_SIZE, fd, 2);
    expect_no_event(&meeting);
    assert_int_equal(steps_open_descriptors(), before + 1);
    expect_good_rendezvous(&meeting, 0);
    close(fd);
    disconnect(&meeting);
}

/* With no descriptor left at the server an advertised buffer is lost, and its connection is not. */
static void an_advert_may_get_lost(void **state)
{
    struct meeting meeting;
    struct rlimit before, low;

    meet(&meeting, state);
    int fd = make_memory(MEMORY, F_SEAL_SHRINK);
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    low.rlim_cur = (rlim_t)next;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    send_advert(meeting.client.sock, 0, MEMORY, fd);
    expect_no_event(&meeting);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(rendezvous(&meeting, 0, 0, 1), OKV_ERENDEZVOUS);
    close(fd);
    expect_good_advert(&meeting);
    disconnect(&meeting);
}

/* The message overtook its advert: the rendezvous read receives from the socket. */
static void a_rendezvous_finds_an_advert_on_the_socket(void **state)
{
    enum { BEFORE = 100 }; /* other packets */
    struct meeting meeting;
    struct okv_event event;

    meet(&meeting, state);
    int fd = make_memory(MEMORY, F_SEAL_SHRINK);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < BEFORE; i++)
            bare_bell(&meeting.client);
        send_advert(meeting.client.sock, round << 16, MEMORY, fd);
        bare_send(&meeting.client, "x", 1, round);
        assert_int_equal(meeting.steps.ops->poll(meeting.steps.endpoint, &event, 1), 1);
        assert_int_equal(event.type, OKV_EVENT_RECV);
        assert_int_equal(event.immediate, round);
        meeting.steps.ops->recv_release(meeting.steps.endpoint, &event);
        expect_good_rendezvous(&meeting, round << 16);
    }
    close(fd);
    disconnect(&meeting);
}

static void a_rendezvous_wakes_and_comes_before_the_end(void **state)
{
    struct meeting meeting;
    struct okv_event event;

    meet(&meeting, state);
    const struct okv_rendezvous wanted = {.key = 5, .length = 1, .cookie = 9};
    struct pollfd watched = {.fd = meeting.steps.endpoint->fd, .events = POLLIN};
    for (unsigned round = 0; round < 2; round++) {
        assert_int_equal(meeting.steps.ops->arm(meeting.steps.endpoint), 0);
        expect_no_event(&meeting);
        assert_int_equal(poll(&watched, 1, 0), 0);
        assert_int_equal(meeting.steps.ops->rendezvous(meeting.conn, &wanted), 0);
        assert_int_equal(poll(&watched, 1, 0), 1);
        assert_int_equal(meeting.steps.ops->poll(meeting.steps.endpoint, &event, 1), 1);
        assert_int_equal(event.type, OKV_EVENT_RENDEZVOUS_DONE);
    }
    /* an event that is there already when the descriptor is armed */
    assert_int_equal(meeting.steps.ops->rendezvous(meeting.conn, &wanted), 0);
    assert_int_equal(meeting.steps.ops->arm(meeting.steps.endpoint), 0);
    assert_int_equal(poll(&watched, 1, 0), 1);
    meeting.steps.ops->close(meeting.conn);
    assert_int_equal(meeting.steps.ops->rendezvous(meeting.conn, &wanted), OKV_EDISCONNECTED);
    assert_int_equal(meeting.steps.ops->poll(meeting.steps.endpoint, &event, 1), 1);
    assert_int_equal(event.type, OKV_EVENT_RENDEZVOUS_DONE);
    assert_int_equal(event.cookie, 9);
    assert_int_equal(meeting.steps.ops->poll(meeting.steps.endpoint, &event, 1), 1);
    assert_int_equal(event.type, OKV_EVENT_CLOSED);
    bare_close(&meeting.client);
    meeting.steps.ops->conn_destroy(meeting.conn);
    steps_stop(&meeting.steps);
}

/* ---- clients of okv ---- */

static void post_message(struct okv_conn *conn, uint32_t length, uint32_t immediate)
{
    uint8_t *buffer = conn->ops->send_buffer(conn);

    assert_non_null(buffer);
    fixture_fill_message(buffer, immediate, length);
    assert_int_equal(conn->ops->post_send(conn, length, immediate), 0);
    conn->ops->flush(conn);
}

static void receive_echoes(struct okv_conn *conn, unsigned count)
{
    struct okv_event event;

    for (unsigned i = 0; i < count; i++) {
        assert_true(fixture_wait(conn->endpoint, &event));
        assert_true(fixture_is_message(&event, i, FIXTURE_SLOT_SIZE));
        conn->ops->recv_release(conn->endpoint, &event);
    }
}

/* Advertises until the socket is full and an advert has to wait. */
static struct okv_advert *fill_socket(struct okv_conn *conn, const void *bytes, size_t length)
{
    enum { MOST = 10000 };
    unsigned before = steps_open_descriptors();
    struct okv_advert *advert;

    for (unsigned i = 0; i < MOST; i++) {
        assert_int_equal(conn->ops->advertise(conn, bytes, length, &advert), 0);
        if (steps_open_descriptors() > before)
            return advert;
        conn->ops->withdraw(advert);
    }
    fail_msg("a socket without end");
    return NULL;
}

/* An advert is sent before the message that names it, even when the socket is full. */
static void adverts_wait_for_room_in_the_socket(void **state)
{
    enum { AFTER = 8 }; /* messages after it */
    static uint8_t bytes[100000];
    struct fixture *fixture = *state;
    const struct okv_transport_ops *ops = fixture->ops;
    struct okv_conn *conn = fixture_connect(fixture);
    struct okv_advert *advert, *withdrawn;
    unsigned ended = atomic_load(&fixture->rendezvous_ended);

    memset(bytes, 0x5a, sizeof bytes);
    fixture_pause(fixture);
    unsigned descriptors = steps_open_descriptors(); /* the server has none in its hands now */
    withdrawn = fill_socket(conn, bytes, 1);
    assert_int_equal(ops->advertise(conn, bytes, sizeof bytes, &advert), 0);
    assert_int_equal(steps_open_descriptors(), descriptors + 2);
    ops->withdraw(withdrawn);
    assert_int_equal(steps_open_descriptors(), descriptors + 1);
    memset(bytes, 0, sizeof bytes); /* against the rules, to see that it was copied */
    fixture->rendezvous_reads[0].rendezvous =
        (struct okv_rendezvous){.key = advert->key, .length = sizeof bytes, .offset = 7};
    atomic_store(&fixture->rendezvous_wanted, 1);
    post_message(conn, 1, FIXTURE_RENDEZVOUS);
    for (unsigned i = 0; i < AFTER; i++)
        post_message(conn, FIXTURE_SLOT_SIZE, i);
    assert_int_equal(conn->unacknowledged, AFTER + 1);
    fixture_resume(fixture);
    receive_echoes(conn, AFTER);
    assert_true(fixture_reaches(&fixture->rendezvous_ended, ended + 1));
    assert_int_equal(fixture->rendezvous_reads[0].status, 0);
    for (unsigned i = 0; i < sizeof bytes; i++)
        assert_int_equal(fixture->region[7 + i], 0x5a);
    fixture_restore(fixture, 7, sizeof bytes);
    ops->withdraw(advert);
    ops->conn_destroy(conn);
    assert_true(fixture_is_empty(fixture));
    assert_in_range(steps_open_descriptors(), 0, descriptors);
}

static void a_client_advertises_no_more_than_its_credits(void **state)
{
    struct fixture *fixture = *state;
    const struct okv_transport_ops *ops = fixture->ops;
    struct okv_conn *conn = fixture_connect(fixture);
    struct okv_advert *adverts[FIXTURE_CREDITS], *more;
    const uint8_t bytes[10] = {1};
    unsigned before = steps_open_descriptors();

    for (unsigned i = 0; i < FIXTURE_CREDITS; i++)
        assert_int_equal(ops->advertise(conn, bytes, sizeof bytes, &adverts[i]), 0);
    assert_int_equal(ops->advertise(conn, bytes, sizeof bytes, &more), OKV_EAGAIN);
    ops->withdraw(adverts[3]);
    assert_int_equal(ops->advertise(conn, bytes, sizeof bytes, &adverts[3]), 0);
    assert_int_equal(ops->advertise(conn, bytes, sizeof bytes, &more), OKV_EAGAIN);
    /* they may be ended after the connection */
    fixture_order(fixture, &fixture->close_all);
    struct okv_event event;
    assert_true(fixture_wait(conn->endpoint, &event));
    assert_int_equal(event.type, OKV_EVENT_CLOSED);
    assert_int_equal(ops->advertise(conn, bytes, sizeof bytes, &more), OKV_EDISCONNECTED);
    for (unsigned i = 0; i < FIXTURE_CREDITS; i++)
        ops->withdraw(adverts[i]);
    assert_true(fixture_is_empty(fixture));
    assert_in_range(steps_open_descriptors(), 0, before);
    ops->conn_destroy(conn);
    assert_int_equal(atomic_load(&fixture->wrong), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(junk_cannot_be_read),
        cmocka_unit_test(the_stated_size_of_an_advert_counts),
        cmocka_unit_test(there_are_as_many_adverts_as_credits),
        cmocka_unit_test(adverts_go_with_their_connection),
        cmocka_unit_test(adverts_of_a_wrong_length_close_the_connection),
        cmocka_unit_test(an_advert_has_one_descriptor_or_none),
        cmocka_unit_test(an_advert_may_get_lost),
        cmocka_unit_test(a_rendezvous_finds_an_advert_on_the_socket),
        cmocka_unit_test(a_rendezvous_wakes_and_comes_before_the_end),
        cmocka_unit_test(adverts_wait_for_room_in_the_socket),
        cmocka_unit_test(a_client_advertises_no_more_than_its_credits),
    };

    return cmocka_run_group_tests(tests, fixture_setup_local, fixture_teardown);
}
