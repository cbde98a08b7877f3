/*
 * read_now of the local transport: which bytes it copies, what it refuses, and when it leaves the
 * READ to post_read. It must not read from a dead server, whose memory can still be copied. A test
 * about another reason to refuse first marks the server as just seen alive.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/transport/local/local.h"
#include "tests/support/transport_fixture.h"

#define LINE OKV_READ_BEGINNING
#define LENGTH_MAX 1024u
#define UNTOUCHED 0xee
#define OFFSET (3u * LINE) /* where the region's lines are not all alike */
#define TRIES 100u         /* attempts that must all fail */
#define LONG_US 1000u      /* after which a server has to be seen again */

/* A client's memory: for a READ that is posted, for one that ends at once, and what is neither's.
 */
struct reader {
    const struct okv_transport_ops *ops;
    struct okv_conn *conn;
    struct okv_memory *memory;
    uint8_t before[LINE];
    uint8_t posted[LINE];
    uint8_t now[LENGTH_MAX];
    uint8_t behind[2 * LINE];
};

static struct reader reader;
static uint32_t extent_said; /* by every beginning */
static uint32_t extents_asked;

static int setup(void **state)
{
    struct fixture *fixture = *state;

    reader = (struct reader){.ops = fixture->ops, .conn = fixture_connect(fixture)};
    extent_said = LINE;
    extents_asked = 0;
    assert_int_equal(reader.ops->memory_register(reader.conn->endpoint, reader.posted,
                                                 sizeof reader.posted + sizeof reader.now,
                                                 &reader.memory),
                     0);
    return 0;
}

static int teardown(void **state)
{
    fixture_resume(*state); /* a test that failed has not */
    reader.ops->memory_unregister(reader.memory);
    reader.ops->conn_destroy(reader.conn);
    assert_true(fixture_is_empty(*state));
    return 0;
}

static uint32_t extent(const uint8_t *beginning)
{
    extents_asked++;
    for (uint32_t i = 0; i < LINE; i++)
        assert_int_equal(beginning[i], fixture_region_byte(OFFSET + i));
    return extent_said;
}

static struct okv_read read_of(uint32_t length)
{
    return (struct okv_read){OFFSET, reader.now, reader.memory, length, 7};
}

/* Counts a sign of life exactly when read_now succeeds. */
static bool read_now(const struct okv_read *read)
{
    uint64_t before = reader.conn->acknowledged;
    bool done = reader.ops->read_now(reader.conn, read, extent);

    assert_int_equal(reader.conn->acknowledged - before, done);
    return done;
}

static void post(void)
{
    struct okv_read read = {OFFSET, reader.posted, reader.memory, LINE, 1};

    assert_int_equal(reader.ops->post_read(reader.conn, &read, 1), 0);
}

static void expect_posted(void)
{
    struct okv_event event;

    assert_true(fixture_wait(reader.conn->endpoint, &event));
    assert_int_equal(event.type, OKV_EVENT_READ);
    assert_int_equal(event.status, 0);
    assert_int_equal(event.cookie, 1);
}

/* As a client does: posts a READ that read_now refuses. The poll that reports it has seen the
 * server alive; on a busy machine that can be too long ago, so it tries again. */
static bool read_soon(const struct okv_read *read)
{
    bool done = read_now(read);

    for (uint64_t end = fixture_soon(); !done && okv_clock_ns() < end;) {
        post();
        expect_posted();
        done = read_now(read);
    }
    return done;
}

/* As after a poll that has just looked at the socket. */
static void server_was_seen(void)
{
    okv_local_conn(reader.conn)->alive_steps = okv_clock_steps();
}

static void assert_not_now(void)
{
    struct okv_read read = read_of(LINE);

    for (unsigned i = 0; i < TRIES; i++) {
        server_was_seen();
        assert_false(read_now(&read));
    }
    assert_int_equal(extents_asked, 0);
}

static void assert_soon(void)
{
    struct okv_read read = read_of(LINE);

    assert_true(read_soon(&read));
    extents_asked = 0;
}

static void send_messages(struct fixture *fixture, unsigned count)
{
    unsigned echoed = atomic_load(&fixture->echoed);

    for (unsigned i = 0; i < count; i++) {
        fixture_fill_message(reader.ops->send_buffer(reader.conn), i, 50);
        assert_int_equal(reader.ops->post_send(reader.conn, 50, i), 0);
    }
    reader.ops->flush(reader.conn);
    assert_true(fixture_reaches(&fixture->echoed, echoed + count));
}

static void expect_message(unsigned number, unsigned size)
{
    struct okv_event event;

    assert_true(fixture_wait(reader.conn->endpoint, &event));
    assert_true(fixture_is_message(&event, number, size));
    reader.ops->recv_release(reader.conn->endpoint, &event);
}

/* ---- the bytes it copies ---- */

/* The lines with the first `said` bytes, and the first line in any case; nothing else changes. */
static void expect_lines(uint32_t length, uint32_t said)
{
    struct okv_read read = read_of(length);
    uint32_t matters = said < length ? said : length;
    uint32_t brought = matters <= LINE ? LINE : (matters + LINE - 1) / LINE * LINE;

    extent_said = said;
    memset(reader.before, UNTOUCHED, sizeof reader.before);
    memset(reader.now, UNTOUCHED, sizeof reader.now);
    memset(reader.behind, UNTOUCHED, sizeof reader.behind);
    assert_true(read_soon(&read));
    for (uint32_t i = 0; i < brought; i++)
        assert_int_equal(reader.now[i], fixture_region_byte(OFFSET + i));
    for (uint32_t i = brought; i < sizeof reader.now; i++)
        assert_int_equal(reader.now[i], UNTOUCHED);
    for (uint32_t i = 0; i < sizeof reader.behind; i++)
        assert_int_equal(reader.behind[i], UNTOUCHED);
    for (uint32_t i = 0; i < sizeof reader.before; i++)
        assert_int_equal(reader.before[i], UNTOUCHED);
}

#define FIXTURE_TEST(name) TEST_WITH(name, setup, teardown)

FIXTURE_TEST(a_read_now_copies_the_lines_in_use)
{
    static const uint32_t lengths[] = {LINE, 2 * LINE, 512, 512 + LINE, LENGTH_MAX};

    for (unsigned i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        for (uint32_t said = 0; said <= lengths[i]; said += LINE / 2) {
            expect_lines(lengths[i], said);
            expect_lines(lengths[i], said + 1);
        }
    }
}

FIXTURE_TEST(an_extent_beyond_the_length_is_all)
{
    static const uint32_t lengths[] = {LINE, 2 * LINE, 512, 512 + LINE, LENGTH_MAX};

    for (unsigned i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        expect_lines(lengths[i], lengths[i] + 1);
        expect_lines(lengths[i], lengths[i] + LINE);
        expect_lines(lengths[i], lengths[i] + 2 * LINE);
        expect_lines(lengths[i], UINT32_MAX);
    }
}

/* As if this process had stood still while it copied, for longer than a server may go unseen. */
static uint32_t extent_after_long(const uint8_t *beginning)
{
    (void)beginning;
    extents_asked++;
    okv_local_conn(reader.conn)->alive_steps = okv_clock_steps() - 2 * OKV_LOCAL_ALIVE_STEPS;
    return LINE;
}

FIXTURE_TEST(what_was_copied_long_after_the_server_was_seen_is_not_read)
{
    struct okv_read read = read_of(LINE);
    assert_soon();
    uint64_t acknowledged = reader.conn->acknowledged;
    for (unsigned i = 0; i < TRIES; i++) {
        server_was_seen();
        assert_false(reader.ops->read_now(reader.conn, &read, extent_after_long));
    }
    assert_true(extents_asked > 0);
    assert_int_equal(reader.conn->acknowledged, acknowledged);
    extents_asked = 0;
}

FIXTURE_TEST(what_the_server_writes_is_there_for_the_next)
{
    struct fixture *fixture = *state;
    struct okv_read read = read_of(2 * LINE);

    extent_said = 2 * LINE;
    for (unsigned i = 1; i < TRIES; i++) {
        fixture->region[OFFSET + LINE] = (uint8_t)i;
        assert_true(read_soon(&read));
        assert_int_equal(reader.now[LINE], i);
    }
    fixture_restore(fixture, OFFSET, 2 * LINE);
}

/* ---- what it refuses ---- */

static void expect_refused(const struct okv_read *refused, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        server_was_seen();
        assert_false(read_now(&refused[i]));
    }
    assert_int_equal(extents_asked, 0);
    for (unsigned i = 0; i < sizeof reader.now; i++)
        assert_int_equal(reader.now[i], UNTOUCHED);
    assert_soon();
}

FIXTURE_TEST(a_read_outside_the_region_is_refused)
{
    const struct okv_read refused[] = {
        {FIXTURE_REGION - LINE, reader.now, reader.memory, 2 * LINE, 1},
        {FIXTURE_REGION - LINE + 1, reader.now, reader.memory, LINE, 1},
        {FIXTURE_REGION, reader.now, reader.memory, LINE, 1},
        {UINT64_MAX - LINE + 1, reader.now, reader.memory, LINE, 1},
        {UINT64_MAX - LINE + 1, reader.now, reader.memory, 2 * LINE, 1},
        {UINT64_MAX - LINE + 2, reader.now, reader.memory, LINE, 1},
        {UINT64_MAX, reader.now, reader.memory, LINE, 1},
        {UINT64_C(1) << 63, reader.now, reader.memory, LINE, 1},
    };

    memset(reader.now, UNTOUCHED, sizeof reader.now);
    expect_refused(refused, sizeof refused / sizeof refused[0]);
}

FIXTURE_TEST(a_destination_outside_the_memory_is_refused)
{
    const struct okv_read refused[] = {
        {OFFSET, reader.posted - 1, reader.memory, LINE, 1},
        {OFFSET, reader.before, reader.memory, LINE, 1},
        {OFFSET, reader.behind, reader.memory, LINE, 1},
        {OFFSET, reader.behind - LINE + 1, reader.memory, LINE, 1},
        {OFFSET, reader.now, reader.memory, LENGTH_MAX + LINE, 1},
        {OFFSET, NULL, reader.memory, LINE, 1},
        {OFFSET, reader.now, NULL, LINE, 1},
    };

    memset(reader.now, UNTOUCHED, sizeof reader.now);
    expect_refused(refused, sizeof refused / sizeof refused[0]);
}

FIXTURE_TEST(a_part_of_a_line_is_refused)
{
    static const uint32_t lengths[] = {0, 1, 8, LINE - 1, LINE + 1, 100, 512 - 1, LENGTH_MAX - 1};
    struct okv_read refused[sizeof lengths / sizeof lengths[0]];

    for (unsigned i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        refused[i] = read_of(lengths[i]);
    memset(reader.now, UNTOUCHED, sizeof reader.now);
    expect_refused(refused, sizeof lengths / sizeof lengths[0]);
}

static uint32_t two_lines(const uint8_t *beginning)
{
    (void)beginning;
    return 2 * LINE;
}

FIXTURE_TEST(the_last_lines_of_the_region_are_not)
{
    struct okv_read read = {FIXTURE_REGION - 2 * LINE, reader.now, reader.memory, 2 * LINE, 1};
    uint64_t end = fixture_soon();

    do {
        server_was_seen();
    } while (!reader.ops->read_now(reader.conn, &read, two_lines) && okv_clock_ns() < end);
    for (uint32_t i = 0; i < 2 * LINE; i++)
        assert_int_equal(reader.now[i], fixture_region_byte(read.offset + i));
}

/* ---- what polls have to do first ---- */

FIXTURE_TEST(a_read_that_was_posted_is_reported_first)
{
    assert_soon();
    post();
    assert_not_now();
    post();
    expect_posted();
    assert_not_now();
    expect_posted();
    assert_soon();
}

FIXTURE_TEST(a_message_that_waits_is_taken_first)
{
    struct fixture *fixture = *state;

    assert_soon();
    send_messages(fixture, 1);
    assert_not_now();
    expect_message(0, 50);
    assert_soon();
    send_messages(fixture, 2);
    expect_message(0, 50); /* by a poll that has seen both */
    assert_not_now();
    expect_message(1, 50);
    assert_soon();
}

FIXTURE_TEST(a_message_that_has_no_room_goes_first)
{
    struct fixture *fixture = *state;
    unsigned sent = 0;
    uint8_t *room;

    fixture_pause(fixture);
    assert_soon();
    for (; (room = reader.ops->send_buffer(reader.conn)); sent++) {
        fixture_fill_message(room, sent, FIXTURE_SLOT_SIZE);
        assert_int_equal(reader.ops->post_send(reader.conn, FIXTURE_SLOT_SIZE, sent), 0);
        reader.ops->flush(reader.conn);
    }
    assert_not_now();
    fixture_resume(fixture);
    for (unsigned i = 0; i < sent; i++)
        expect_message(i, FIXTURE_SLOT_SIZE);
    assert_soon();
}

/* Bells until the socket has no room. */
static void fill_socket(const struct okv_local_conn *conn)
{
    while (send(conn->sock, "okvB", 4, MSG_DONTWAIT | MSG_NOSIGNAL) == 4)
        continue;
    assert_int_equal(errno, EAGAIN);
}

/* The server is to be woken for messages. */
static void wait_until_it_sleeps(const struct okv_local_conn *conn)
{
    uint64_t end = fixture_soon();

    while (!(atomic_load(&conn->ring.peer->wants) & OKV_LOCAL_RING_MESSAGES)) {
        assert_true(okv_clock_ns() < end);
        usleep(LONG_US);
    }
}

static void send_message(void)
{
    fixture_fill_message(reader.ops->send_buffer(reader.conn), 0, 50);
    assert_int_equal(reader.ops->post_send(reader.conn, 50, 0), 0);
    reader.ops->flush(reader.conn);
}

/* The server does not empty its socket, so a bell has no room there. */
FIXTURE_TEST(a_bell_without_room_goes_first)
{
    struct fixture *fixture = *state;
    const struct okv_local_conn *conn = okv_local_conn(reader.conn);

    send_message(); /* so that the server has been awake */
    expect_message(0, 50);
    wait_until_it_sleeps(conn);
    fixture_pause(fixture);
    assert_soon();
    fill_socket(conn);
    assert_soon();
    send_message();
    assert_true(conn->must_notify);
    assert_not_now();
    fixture_resume(fixture);
    expect_message(0, 50);
    assert_soon();
}

/* ---- whether the server is alive ---- */

FIXTURE_TEST(a_server_that_was_not_seen_yet_is_not_read_from)
{
    struct okv_read read = read_of(LINE);
    struct okv_event event;

    for (unsigned i = 0; i < TRIES; i++) {
        assert_false(read_now(&read));
        assert_int_equal(reader.ops->poll(reader.conn->endpoint, &event, 1), 0);
    }
    assert_soon();
}

FIXTURE_TEST(a_server_that_was_not_seen_for_long_is_not_read_from)
{
    struct okv_read read = read_of(LINE);

    assert_soon();
    usleep(LONG_US);
    for (unsigned i = 0; i < TRIES; i++)
        assert_false(read_now(&read));
    assert_soon();
}

static void expect_end(void)
{
    struct okv_event event;

    assert_true(fixture_wait(reader.conn->endpoint, &event));
    assert_int_equal(event.type, OKV_EVENT_CLOSED);
    assert_int_equal(event.status, OKV_EDISCONNECTED);
}

FIXTURE_TEST(a_server_that_has_gone_is_not_read_from)
{
    struct fixture *fixture = *state;
    struct okv_read read = read_of(LINE);

    assert_soon();
    fixture_order(fixture, &fixture->close_all);
    assert_true(fixture_is_empty(fixture));
    usleep(LONG_US);
    for (unsigned i = 0; i < TRIES; i++) /* before anybody has noticed */
        assert_false(read_now(&read));
    extents_asked = 0;
    reader.ops->heartbeat(reader.conn);
    assert_not_now(); /* it is known, and the owner was not told */
    expect_end();
    assert_not_now();
}

FIXTURE_TEST(the_end_shows_behind_a_message)
{
    struct fixture *fixture = *state;
    struct okv_event event;

    assert_soon();
    send_messages(fixture, 1);
    fixture_order(fixture, &fixture->close_all);
    assert_true(fixture_is_empty(fixture));
    reader.ops->heartbeat(reader.conn);
    assert_not_now();
    assert_int_equal(reader.ops->poll(reader.conn->endpoint, &event, 1), 1);
    assert_true(fixture_is_message(&event, 0, 50));
    reader.ops->recv_release(reader.conn->endpoint, &event);
    assert_not_now();
    expect_end();
    assert_not_now();
}

FIXTURE_TEST(a_connection_that_was_closed_is_not_read_from)
{
    assert_soon();
    reader.ops->close(reader.conn);
    assert_not_now();
    expect_end();
    assert_not_now();
}

TEST_PROGRAM(fixture_setup_local, fixture_teardown)
