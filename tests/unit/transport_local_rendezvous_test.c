/*
 * Advertised buffers of the local transport: of hostile clients, who write the table and the values
 * as they like, and of an okv client, who has only so much room.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/error.h"
#include "shared/transport/local/local.h"
#include "tests/support/lingering.h"
#include "tests/support/transport_steps.h"

#define CREDITS 4u
#define PLACES 256u
#define PAGE 4096u
#define VALUES ((size_t)1 << 28)
#define MIB ((size_t)1 << 20)
#define LONG (3 * OKV_LOCAL_RENDEZVOUS_PIECE + 1)
#define MEMORY 8192u /* bytes of a good buffer */

static const struct okv_message_limits limits = {64, CREDITS};

/* One client of a server in steps. */
struct meeting {
    struct steps steps;
    struct okv_conn *conn;
    struct bare_client client;
    unsigned descriptors; /* open before it */
    struct fixture *fixture;
};

/* ---- what the server calls ---- */

/* Stores a key while the server reads; and notes who closes a descriptor. */
static struct {
    struct okv_local_advert_slot *place;
    uint32_t key;
    atomic_int closed_fd;
    atomic_bool was_closed, was_closed_apart;
    pthread_t tester;
} watch = {.closed_fd = -1};

ssize_t __real_pread(int fd, void *to, size_t length, off_t offset);
ssize_t __wrap_pread(int fd, void *to, size_t length, off_t offset);
int __real_close(int fd);
int __wrap_close(int fd);

ssize_t __wrap_pread(int fd, void *to, size_t length, off_t offset)
{
    ssize_t n = __real_pread(fd, to, length, offset);

    if (watch.place)
        atomic_store(&watch.place->key, watch.key);
    return n;
}

int __wrap_close(int fd)
{
    if (fd >= 0 && fd == watch.closed_fd) {
        if (!pthread_equal(pthread_self(), watch.tester))
            atomic_store(&watch.was_closed_apart, true);
        atomic_store(&watch.was_closed, true);
        watch.closed_fd = -1;
    }
    return __real_close(fd);
}

/* ---- a hostile client ---- */

static void meet(struct meeting *meeting, void **state)
{
    meeting->fixture = *state;
    steps_start(&meeting->steps, *state, &limits);
    meeting->descriptors = steps_open_descriptors();
    steps_let_in(&meeting->steps, 0, &meeting->client, &meeting->conn);
}

/* The client disconnects; the server must keep none of its descriptors. */
static void disconnect(struct meeting *meeting)
{
    struct okv_event event;

    bare_close(&meeting->client);
    assert_true(fixture_wait(meeting->steps.endpoint, &event));
    assert_int_equal(event.type, OKV_EVENT_CLOSED);
    meeting->steps.ops->conn_destroy(meeting->conn);
    steps_expect_descriptors(meeting->descriptors);
    steps_stop(&meeting->steps);
}

static uint8_t memory_byte(unsigned i)
{
    return (uint8_t)(i * 3 + (i >> 8) + 1);
}

static void write_values(const struct meeting *meeting, size_t offset, size_t length)
{
    uint8_t *bytes = malloc(length);

    for (unsigned i = 0; i < length; i++)
        bytes[i] = memory_byte(i);
    assert_int_equal(pwrite(meeting->client.values, bytes, length, (off_t)offset), length);
    free(bytes);
}

static struct okv_local_advert_slot *write_place(const struct meeting *meeting, uint32_t key,
                                                 uint32_t page, uint32_t size)
{
    struct okv_local_advert_slot *place = &meeting->client.ring.page->adverts[key % PLACES];

    atomic_store(&place->size, size);
    atomic_store(&place->page, page);
    atomic_store(&place->key, key);
    return place;
}

/* Polls often enough that the server has checked its sockets. */
static void expect_no_event(const struct meeting *meeting)
{
    enum { POLLS = 40 };
    struct okv_event event;

    for (unsigned i = 0; i < POLLS; i++)
        assert_int_equal(meeting->steps.ops->poll(meeting->steps.endpoint, &event, 1), 0);
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

/* A correct buffer still works. */
static void expect_good_buffer(const struct meeting *meeting, uint32_t key, uint32_t page)
{
    write_values(meeting, (size_t)page * PAGE, MEMORY);
    write_place(meeting, key, page, MEMORY);
    assert_int_equal(rendezvous(meeting, key, 0, MEMORY), 0);
    for (unsigned i = 0; i < MEMORY; i++)
        assert_int_equal(meeting->fixture->region[i], memory_byte(i));
    assert_int_equal(meeting->fixture->region[MEMORY], fixture_region_byte(MEMORY));
    fixture_restore(meeting->fixture, 0, MEMORY);
}

TEST(buffers_lie_in_the_values)
{
    static const struct {
        uint32_t page, size;
    } cases[] = {
        {VALUES / PAGE, 1},
        {VALUES / PAGE - 1, PAGE + 1},
        {0, VALUES + 1},
        {1, VALUES},
        {UINT32_MAX, 1},
        {UINT32_MAX, UINT32_MAX},
        {VALUES / PAGE - 3, 4 * PAGE},
        {0, UINT32_MAX},
        {0, 0},
    };
    struct meeting meeting;

    meet(&meeting, state);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_place(&meeting, 1u << 16, cases[i].page, cases[i].size);
        assert_int_equal(rendezvous(&meeting, 1u << 16, 0, 1), OKV_ERENDEZVOUS);
    }
    assert_int_equal(meeting.fixture->region[0], fixture_region_byte(0));
    expect_good_buffer(&meeting, 2u << 16, VALUES / PAGE - MEMORY / PAGE);
    expect_good_buffer(&meeting, 3u << 16 | (PLACES - 1), 0);
    disconnect(&meeting);
}

TEST(keys_name_a_place_that_there_is)
{
    static const uint32_t keys[] = {0, PLACES, 0xffff, 0xffffffff, 2u << 16, 1};
    struct meeting meeting;

    meet(&meeting, state);
    write_values(&meeting, 0, MEMORY);
    write_place(&meeting, 1u << 16, 0, MEMORY);
    for (unsigned i = 0; i < sizeof keys / sizeof keys[0]; i++)
        assert_int_equal(rendezvous(&meeting, keys[i], 0, 1), OKV_ERENDEZVOUS);
    expect_good_buffer(&meeting, 1u << 16, 0);
    disconnect(&meeting);
}

/* A rendezvous read ends at the stated size, even if there are more values. */
TEST(the_stated_size_of_a_buffer_counts)
{
    static const struct {
        uint64_t address;
        uint32_t length;
    } cases[] = {
        {0, 101}, {1, 100}, {100, 1}, {UINT64_MAX, 1}, {UINT64_MAX, 2}, {(uint64_t)1 << 63, 1},
    };
    struct meeting meeting;

    meet(&meeting, state);
    write_values(&meeting, 0, MEMORY);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_place(&meeting, 1, 0, 100);
        assert_int_equal(rendezvous(&meeting, 1, cases[i].address, cases[i].length),
                         OKV_ERENDEZVOUS);
    }
    expect_good_buffer(&meeting, 1, 0);
    disconnect(&meeting);
}

/* What was read may be another buffer's. */
TEST(a_key_that_changes_meanwhile_fails_the_read)
{
    static const uint32_t keys[] = {0, 2u << 16, UINT32_MAX};
    struct meeting meeting;

    meet(&meeting, state);
    for (unsigned i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        watch.place = write_place(&meeting, 1u << 16, 0, MEMORY);
        watch.key = keys[i];
        assert_int_equal(rendezvous(&meeting, 1u << 16, 0, MEMORY), OKV_ERENDEZVOUS);
        watch.place = NULL;
        fixture_restore(meeting.fixture, 0, MEMORY);
    }
    expect_good_buffer(&meeting, 1u << 16, 0);
    disconnect(&meeting);
}

static blkcnt_t blocks_of(int fd)
{
    struct stat file;

    assert_int_equal(fstat(fd, &file), 0);
    return file.st_blocks;
}

/* Pages that are not there are zeros, and reading them makes none. */
TEST(holes_are_zeros)
{
    struct meeting meeting;

    meet(&meeting, state);
    blkcnt_t before = blocks_of(meeting.client.values);
    write_place(&meeting, 7u << 16, 5, MEMORY);
    assert_int_equal(rendezvous(&meeting, 7u << 16, 0, MEMORY), 0);
    for (unsigned i = 0; i < MEMORY; i++)
        assert_int_equal(meeting.fixture->region[i], 0);
    fixture_restore(meeting.fixture, 0, MEMORY);
    assert_int_equal(blocks_of(meeting.client.values), before);
    expect_good_buffer(&meeting, 8u << 16, 5);
    disconnect(&meeting);
}

/* A client can have no more memory than its values take, and a thread of its own frees that. */
TEST(much_memory_is_freed_apart)
{
    struct meeting meeting;

    for (unsigned round = 0; round < 2; round++) {
        unsigned threads = threads_running();
        meet(&meeting, state);
        assert_int_equal(fallocate(meeting.client.values, 0, 0, VALUES + 1), -1);
        if (round > 0)
            assert_int_equal(fallocate(meeting.client.values, 0, 0, 4 * (off_t)MIB), 0);
        watch.tester = pthread_self();
        watch.was_closed = watch.was_closed_apart = false;
        watch.closed_fd = okv_local_conn(meeting.conn)->values;
        disconnect(&meeting);
        assert_true(atomic_load(&watch.was_closed));
        assert_int_equal(atomic_load(&watch.was_closed_apart), round > 0);
        threads_expect(threads);
    }
}

TEST(a_rendezvous_wakes_and_comes_before_the_end)
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

/* Begins a rendezvous read that takes four polls. */
static void begin_long(const struct meeting *meeting, uint32_t key)
{
    const struct okv_rendezvous wanted = {.key = key, .length = LONG, .cookie = key};

    write_place(meeting, key, 0, LONG);
    assert_int_equal(meeting->steps.ops->rendezvous(meeting->conn, &wanted), 0);
}

static void expect_next(const struct meeting *meeting, enum okv_event_type type, int status)
{
    struct okv_event event;

    assert_int_equal(meeting->steps.ops->poll(meeting->steps.endpoint, &event, 1), 1);
    assert_int_equal(event.type, type);
    assert_int_equal(event.status, status);
    if (type == OKV_EVENT_RECV)
        meeting->steps.ops->recv_release(meeting->steps.endpoint, &event);
}

TEST(messages_come_between_the_pieces_of_a_copy)
{
    struct meeting meeting;
    uint8_t byte = 0;

    meet(&meeting, state);
    write_values(&meeting, 0, LONG);
    begin_long(&meeting, 1u << 16);
    for (unsigned i = 0; i < LONG / OKV_LOCAL_RENDEZVOUS_PIECE; i++) {
        bare_send(&meeting.client, &byte, 1, i);
        expect_next(&meeting, OKV_EVENT_RECV, 0);
        assert_true(meeting.steps.endpoint->is_copying);
    }
    expect_next(&meeting, OKV_EVENT_RENDEZVOUS_DONE, 0);
    assert_false(meeting.steps.endpoint->is_copying);
    for (unsigned i = 0; i < LONG; i++)
        assert_int_equal(meeting.fixture->region[i], memory_byte(i));
    assert_int_equal(meeting.fixture->region[LONG], fixture_region_byte(LONG));
    fixture_restore(meeting.fixture, 0, LONG);
    disconnect(&meeting);
}

TEST(a_copy_keeps_an_armed_endpoint_readable)
{
    struct meeting meeting;
    struct okv_event event;

    meet(&meeting, state);
    begin_long(&meeting, 1u << 16);
    struct pollfd watched = {.fd = meeting.steps.endpoint->fd, .events = POLLIN};
    for (unsigned i = 0; i < LONG / OKV_LOCAL_RENDEZVOUS_PIECE; i++) {
        assert_int_equal(meeting.steps.ops->arm(meeting.steps.endpoint), 0);
        assert_int_equal(poll(&watched, 1, 0), 1);
        assert_int_equal(meeting.steps.ops->poll(meeting.steps.endpoint, &event, 1), 0);
    }
    expect_next(&meeting, OKV_EVENT_RENDEZVOUS_DONE, 0);
    fixture_restore(meeting.fixture, 0, LONG);
    disconnect(&meeting);
}

TEST(a_copy_ends_with_its_buffer)
{
    struct meeting meeting;
    struct okv_event event;

    meet(&meeting, state);
    begin_long(&meeting, 1u << 16);
    assert_int_equal(meeting.steps.ops->poll(meeting.steps.endpoint, &event, 1), 0);
    write_place(&meeting, 2u << 16, 0, LONG);
    expect_next(&meeting, OKV_EVENT_RENDEZVOUS_DONE, OKV_ERENDEZVOUS);
    fixture_restore(meeting.fixture, 0, LONG);
    expect_good_buffer(&meeting, 3u << 16, 0);
    disconnect(&meeting);
}

TEST(copies_end_with_their_connection)
{
    struct meeting meeting;
    struct okv_event event, events[OKV_RENDEZVOUS_MAX];

    meet(&meeting, state);
    for (uint32_t i = 1; i <= OKV_RENDEZVOUS_MAX; i++)
        begin_long(&meeting, i << 16 | i);
    assert_int_equal(meeting.steps.ops->poll(meeting.steps.endpoint, &event, 1), 0);
    meeting.steps.ops->close(meeting.conn);
    expect_next(&meeting, OKV_EVENT_RENDEZVOUS_DONE, OKV_EDISCONNECTED);
    assert_int_equal(meeting.steps.ops->poll(meeting.steps.endpoint, events, OKV_RENDEZVOUS_MAX),
                     OKV_RENDEZVOUS_MAX);
    for (unsigned i = 0; i < OKV_RENDEZVOUS_MAX; i++) {
        bool is_last = i == OKV_RENDEZVOUS_MAX - 1;
        assert_int_equal(events[i].type, is_last ? OKV_EVENT_CLOSED : OKV_EVENT_RENDEZVOUS_DONE);
        assert_int_equal(events[i].status, OKV_EDISCONNECTED);
    }
    assert_false(meeting.steps.endpoint->is_copying);
    fixture_restore(meeting.fixture, 0, LONG);
    bare_close(&meeting.client);
    meeting.steps.ops->conn_destroy(meeting.conn);
    steps_stop(&meeting.steps);
}

/* ---- clients of okv ---- */

TEST(a_client_advertises_no_more_than_its_credits)
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
    ops->withdraw(adverts[3], false);
    assert_int_equal(ops->advertise(conn, bytes, sizeof bytes, &adverts[3]), 0);
    assert_int_equal(ops->advertise(conn, bytes, sizeof bytes, &more), OKV_EAGAIN);
    /* they may be ended after the connection */
    fixture_order(fixture, &fixture->close_all);
    struct okv_event event;
    assert_true(fixture_wait(conn->endpoint, &event));
    assert_int_equal(event.type, OKV_EVENT_CLOSED);
    assert_int_equal(ops->advertise(conn, bytes, sizeof bytes, &more), OKV_EDISCONNECTED);
    for (unsigned i = 0; i < FIXTURE_CREDITS; i++)
        ops->withdraw(adverts[i], false);
    assert_true(fixture_is_empty(fixture));
    assert_in_range(steps_open_descriptors(), 0, before);
    ops->conn_destroy(conn);
    assert_int_equal(atomic_load(&fixture->wrong), 0);
}

/* Room for four of the longest values, whatever lies before and between them. */
TEST(buffers_take_the_room_there_is)
{
    enum { LONGEST = 64 };
    struct fixture *fixture = *state;
    const struct okv_transport_ops *ops = fixture->ops;
    struct okv_conn *conn = fixture_connect(fixture);
    int memory = okv_local_conn(conn)->values;
    blkcnt_t before = blocks_of(memory);
    struct okv_advert *adverts[4], *more, *small;
    uint8_t *bytes = calloc(LONGEST + 1, MIB);

    assert_int_equal(ops->advertise(conn, bytes, VALUES + 1, &more), OKV_EINVAL);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(ops->advertise(conn, bytes, LONGEST * MIB, &adverts[i]), 0);
    assert_int_equal(ops->advertise(conn, bytes, 1, &more), OKV_EAGAIN);
    ops->withdraw(adverts[1], false);
    assert_int_equal(ops->advertise(conn, bytes, LONGEST * MIB + 1, &more), OKV_EAGAIN);
    assert_int_equal(ops->advertise(conn, bytes, 1, &small), 0);
    assert_int_equal(ops->advertise(conn, bytes, LONGEST * MIB, &more), OKV_EAGAIN);
    assert_int_equal(ops->advertise(conn, bytes, LONGEST * MIB - PAGE, &adverts[1]), 0);
    assert_int_equal(ops->advertise(conn, bytes, 1, &more), OKV_EAGAIN);
    ops->withdraw(small, false);
    for (unsigned i = 0; i < 4; i++)
        ops->withdraw(adverts[i], false);
    assert_int_equal(blocks_of(memory), before); /* the memory goes with them */
    free(bytes);
    ops->conn_destroy(conn);
    assert_true(fixture_is_empty(fixture));
}

TEST_PROGRAM(fixture_setup_local, fixture_teardown)
