/*
 * The transport over TCP: the bytes of its frames, and peers that send others. Needs
 * OKV_TEST_LISTEN, as tests/support/loopback.sh sets it.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/bytes.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/resolve.h"
#include "shared/transport/tcp/tcp.h"
#include "tests/support/transport_client.h"

/* ---- frames ---- */

TEST(frames_have_these_bytes)
{
    static const struct {
        struct okv_tcp_frame frame;
        uint8_t bytes[OKV_TCP_HEADER];
    } cases[] = {
        {{OKV_TCP_HELLO, 0, 56, OKV_TCP_GREETING},
         {56, 0, 0, 0, 1, 0, 0, 0, 'o', 'k', 'v', 'T', 1, 0, 0, 0}},
        {{OKV_TCP_WELCOME, 0, 196, OKV_TCP_GREETING},
         {196, 0, 0, 0, 2, 0, 0, 0, 'o', 'k', 'v', 'T', 1, 0, 0, 0}},
        {{OKV_TCP_REJECT, 0, 148, OKV_TCP_GREETING},
         {148, 0, 0, 0, 3, 0, 0, 0, 'o', 'k', 'v', 'T', 1, 0, 0, 0}},
        {{OKV_TCP_MESSAGE, 0, 0x010203, 0x0a0b0c0d},
         {3, 2, 1, 0, 4, 0, 0, 0, 0x0d, 0x0c, 0x0b, 0x0a, 0, 0, 0, 0}},
        {{OKV_TCP_READ, 63, 512, UINT64_C(0x0102030405060708)},
         {0, 2, 0, 0, 5, 0, 63, 0, 8, 7, 6, 5, 4, 3, 2, 1}},
        {{OKV_TCP_DATA, 63, 512, 0}, {0, 2, 0, 0, 6, 0, 63, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
        {{OKV_TCP_FETCH, 3, 1 << 20, UINT64_C(0x0000100000010002)},
         {0, 0, 16, 0, 7, 0, 3, 0, 2, 0, 1, 0, 0, 16, 0, 0}},
        {{OKV_TCP_PIECE, 3, 1 << 20, 0}, {0, 0, 16, 0, 8, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
        {{OKV_TCP_REFUSAL, 3, 0, 0}, {0, 0, 0, 0, 9, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
        {{OKV_TCP_LIFE, 0, 0, 0}, {0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t bytes[OKV_TCP_HEADER];
        struct okv_tcp_frame frame;
        okv_tcp_frame_put(bytes, &cases[i].frame);
        assert_memory_equal(bytes, cases[i].bytes, sizeof bytes);
        assert_int_equal(okv_tcp_frame_get(bytes, &frame), 0);
        assert_int_equal(frame.kind, cases[i].frame.kind);
        assert_int_equal(frame.slot, cases[i].frame.slot);
        assert_int_equal(frame.length, cases[i].frame.length);
        assert_true(frame.value == cases[i].frame.value);
    }
}

TEST(frames_that_do_not_exist_are_refused)
{
    static const uint8_t cases[][OKV_TCP_HEADER] = {
        {0},
        {[4] = 12},
        {[4] = 255},
        {[4] = OKV_TCP_LIFE, [5] = 1},
        {[0] = 1, [4] = OKV_TCP_LIFE},
        {[4] = OKV_TCP_LIFE, [6] = 1},
        {[4] = OKV_TCP_LIFE, [15] = 1},
        {[0] = 1, [4] = OKV_TCP_REFUSAL},
        {[4] = OKV_TCP_REFUSAL, [8] = 1},
        {[4] = OKV_TCP_MESSAGE, [7] = 1},
        {[4] = OKV_TCP_MESSAGE, [12] = 1},
        {[4] = OKV_TCP_DATA, [8] = 1},
        {[4] = OKV_TCP_PIECE, [15] = 1},
        {[4] = OKV_TCP_HELLO, [8] = 'o', 'k', 'v', 'T', 2},
        {[4] = OKV_TCP_HELLO, [8] = 'o', 'k', 'v', 'L', 1},
        {[4] = OKV_TCP_WELCOME},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct okv_tcp_frame frame;
        if (okv_tcp_frame_get(cases[i], &frame) != OKV_EPROTO)
            fail_msg("case %zu is taken", i);
    }
}

/* ---- a peer by hand ---- */

/* The peer may have ended the connection already. */
static void say(int sock, const void *bytes, size_t length)
{
    send(sock, bytes, length, MSG_NOSIGNAL);
}

static void say_frame(int sock, const struct okv_tcp_frame *frame)
{
    uint8_t header[OKV_TCP_HEADER];

    okv_tcp_frame_put(header, frame);
    say(sock, header, sizeof header);
}

static void hear(int sock, void *bytes, size_t length)
{
    assert_int_equal(recv(sock, bytes, length, MSG_WAITALL), length);
}

static void hear_end(int sock, const char *what)
{
    uint8_t bytes[1024];
    ssize_t n;

    while ((n = recv(sock, bytes, sizeof bytes, 0)) > 0)
        continue;
    if (n < 0 && errno != ECONNRESET)
        fail_msg("%s: %s", what, strerror(errno));
    close(sock);
}

static void hear_frame(int sock, struct okv_tcp_frame *frame)
{
    uint8_t header[OKV_TCP_HEADER];

    do {
        hear(sock, header, sizeof header);
        assert_int_equal(okv_tcp_frame_get(header, frame), 0);
    } while (frame->kind == OKV_TCP_LIFE); /* the fixture sends some */
}

/* One that the server has welcomed. */
static int join_raw(const struct fixture *fixture)
{
    uint8_t hello[FIXTURE_HELLO] = {FIXTURE_ACCEPT}, welcome[OKV_WELCOME_MAX];
    struct okv_tcp_frame frame;
    int sock = client_connect_raw(fixture, NULL);

    for (unsigned i = 1; i < FIXTURE_HELLO; i++)
        hello[i] = fixture_hello_byte(i);
    say_frame(sock, &(struct okv_tcp_frame){OKV_TCP_HELLO, 0, sizeof hello, OKV_TCP_GREETING});
    say(sock, hello, sizeof hello);
    hear_frame(sock, &frame);
    assert_int_equal(frame.kind, OKV_TCP_WELCOME);
    assert_in_range(frame.length, 1, sizeof welcome);
    hear(sock, welcome, frame.length);
    return sock;
}

/* ---- the server ---- */

TEST(a_peer_of_another_protocol_is_told)
{
    static const char *const cases[][2] = {
        {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP"},
        {"\x16\x03\x01\x02\x00\x01", "TLS"},
        {"*1\r\n$4\r\nPING\r\n", "Redis"},
        {"PING\r\n", "Redis"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200] = "";
        int sock = client_connect_raw(*state, NULL);
        say(sock, cases[i][0], i == 1 ? 6 : strlen(cases[i][0]));
        size_t used = 0;
        ssize_t n;
        while (used < sizeof text - 1 &&
               (n = recv(sock, text + used, sizeof text - 1 - used, 0)) > 0)
            used += (size_t)n;
        close(sock);
        if (strncmp(text, "-ERR ", 5) != 0 || !strstr(text, cases[i][1]))
            fail_msg("%s: '%s'", cases[i][1], text);
    }
}

TEST(a_hello_that_is_none_ends_its_connection)
{
    static const struct okv_tcp_frame cases[] = {
        {OKV_TCP_HELLO, 0, OKV_HELLO_MAX + 1, OKV_TCP_GREETING},
        {OKV_TCP_HELLO, 0, UINT32_MAX, OKV_TCP_GREETING},
        {OKV_TCP_HELLO, 0, 40, OKV_TCP_GREETING + 1},
        {OKV_TCP_WELCOME, 0, 40, OKV_TCP_GREETING},
        {OKV_TCP_MESSAGE, 0, 40, 1},
        {OKV_TCP_LIFE, 0, 0, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int sock = client_connect_raw(*state, NULL);
        say_frame(sock, &cases[i]);
        hear_end(sock, "a hello");
    }
    client_destroy(client_create(state));
}

TEST(frames_that_are_not_valid_end_their_connection_alone)
{
    static const struct okv_tcp_frame cases[] = {
        {OKV_TCP_HELLO, 0, 0, OKV_TCP_GREETING},
        {OKV_TCP_MESSAGE, 0, FIXTURE_SLOT_SIZE + 1, 1},
        {OKV_TCP_MESSAGE, 0, UINT32_MAX, 1},
        {OKV_TCP_READ, 0, 0, 0},
        {OKV_TCP_READ, 0, 1, FIXTURE_REGION},
        {OKV_TCP_READ, 0, UINT32_MAX, FIXTURE_REGION - 1},
        {OKV_TCP_READ, 0, 2, UINT64_MAX},
        {OKV_TCP_READ, 0, FIXTURE_REGION + 1, 0},
        {OKV_TCP_BARE, 0, 0, 0},
        {OKV_TCP_BARE, 0, OKV_TCP_BARE_MAX + 1, 0},
        {OKV_TCP_BARE, OKV_READ_SLOTS, 1, 0},
        {OKV_TCP_DATA, 0, 1, 0},
        {OKV_TCP_FETCH, 0, 1, 1},
        {OKV_TCP_PIECE, 0, 1, 0},
        {OKV_TCP_PIECE, OKV_RENDEZVOUS_MAX, 1, 0},
        {OKV_TCP_REFUSAL, 0, 0, 0},
        {OKV_TCP_REFUSAL, UINT16_MAX, 0, 0},
        {77, 0, 0, 0},
    };
    struct client *bystander = client_create(state);

    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        int sock = join_raw(*state);
        say_frame(sock, &cases[i]);
        hear_end(sock, "a frame");
        client_echo(bystander, i, 100, i);
    }
    client_destroy(bystander);
}

TEST(more_reads_than_there_may_be_end_their_connection)
{
    enum { LENGTH = 1 << 20 };
    const struct okv_tcp_frame read = {OKV_TCP_READ, 0, LENGTH, 0};
    int sock = join_raw(*state);

    for (unsigned i = 0; i <= OKV_READ_SLOTS + 16; i++) /* none is taken, and some have left */
        say_frame(sock, &read);
    hear_end(sock, "READs");
}

/* However many connections have something to send, and others wait for the end of the poll. */
TEST(a_poll_moves_a_slice)
{
    enum { PEERS = 8, POLLS = 50, LENGTH = 1 << 20, SLICE = 384 << 10 };
    const struct okv_tcp_frame read = {OKV_TCP_READ, 0, LENGTH, 0};
    struct fixture *fixture = *state;
    const struct okv_tcp_endpoint *endpoint = okv_tcp_endpoint(fixture->endpoint);
    uint64_t longest = 0, begun = endpoint->moved;
    unsigned opened = atomic_load(&fixture->opened);
    struct okv_event event;
    int socks[PEERS], events = 0;

    for (unsigned i = 0; i < PEERS; i++)
        socks[i] = join_raw(fixture);
    assert_true(fixture_reaches(&fixture->opened, opened + PEERS));
    fixture_pause(fixture);
    for (unsigned i = 0; i < PEERS; i++)
        say_frame(socks[i], &read);
    for (unsigned i = 0; i < POLLS; i++) {
        uint64_t before = endpoint->moved;
        events += fixture->ops->poll(fixture->endpoint, &event, 1);
        longest = endpoint->moved - before > longest ? endpoint->moved - before : longest;
    }
    fixture_resume(fixture);
    assert_int_equal(events, 0);
    assert_in_range(endpoint->moved - begun, SLICE + 1, UINT32_MAX);
    assert_in_range(longest, 1, SLICE);
    for (unsigned i = 0; i < PEERS; i++)
        close(socks[i]);
    assert_true(fixture_is_empty(fixture));
}

TEST(more_messages_than_credits_end_their_connection)
{
    struct fixture *fixture = *state;
    const struct okv_tcp_frame message = {OKV_TCP_MESSAGE, 0, 0, 1};
    int sock = join_raw(fixture);

    fixture_pause(fixture);
    for (unsigned i = 0; i < 1000; i++)
        say_frame(sock, &message);
    fixture_resume(fixture);
    hear_end(sock, "messages");
}

/* It has a receive slot of all clients' until then. */
TEST(a_peer_that_leaves_in_a_message_leaves_its_slot)
{
    const struct okv_tcp_frame message = {OKV_TCP_MESSAGE, 0, 100, 1};

    for (unsigned i = 0; i < 2 * FIXTURE_MAX_CONNS * (FIXTURE_CREDITS + 1); i++) {
        int sock = join_raw(*state);
        say_frame(sock, &message);
        say(sock, "half of it", 10);
        shutdown(sock, SHUT_WR);
        hear_end(sock, "half a message");
    }
    struct client *client = client_create(state);
    client_echo(client, 1, 100, 1);
    client_destroy(client);
}

TEST(a_read_in_no_slot_ends_its_connection)
{
    int sock = join_raw(*state);

    say_frame(sock, &(struct okv_tcp_frame){OKV_TCP_READ, OKV_READ_SLOTS, 1, 0});
    hear_end(sock, "a READ");
}

/* However its bytes are cut. */
TEST(a_frame_may_come_byte_by_byte)
{
    uint8_t bytes[2 * OKV_TCP_HEADER + 10], body[10];
    struct okv_tcp_frame frame;
    int sock = join_raw(*state);

    okv_tcp_frame_put(bytes, &(struct okv_tcp_frame){OKV_TCP_READ, 9, sizeof body, 1000});
    okv_tcp_frame_put(bytes + OKV_TCP_HEADER,
                      &(struct okv_tcp_frame){OKV_TCP_MESSAGE, 0, sizeof body, 77});
    memcpy(bytes + 2 * OKV_TCP_HEADER, "0123456789", sizeof body);
    for (size_t i = 0; i < sizeof bytes; i++) {
        say(sock, &bytes[i], 1);
        usleep(1000);
    }
    hear_frame(sock, &frame);
    assert_int_equal(frame.kind, OKV_TCP_DATA);
    assert_int_equal(frame.slot, 9);
    assert_int_equal(frame.length, sizeof body);
    hear(sock, body, sizeof body);
    assert_region_bytes(body, 1000, sizeof body);
    hear_frame(sock, &frame); /* the echo */
    assert_int_equal(frame.kind, OKV_TCP_MESSAGE);
    assert_int_equal(frame.value, 77);
    hear(sock, body, sizeof body);
    close(sock);
}

/* As many bytes as READs would bring, on the connection, which goes on afterwards. */
TEST(bare_exchanges_leave_the_connection_as_it_is)
{
    static const uint32_t lengths[] = {1, 512, 65536, OKV_TCP_BARE_MAX};
    enum { COUNT = 150 };
    struct client *client = client_create(state);
    uint64_t latencies[COUNT], offsets[COUNT] = {0};

    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct okv_bare_reads reads = {.offsets = offsets,
                                       .length = lengths[i],
                                       .count = COUNT,
                                       .depth = i == 0 ? 1 : 1000,
                                       .timeout_ns = FIXTURE_GUARD_NS,
                                       .latencies_ns = latencies};
        memset(latencies, 0xff, sizeof latencies);
        assert_int_equal(client->ops->bare_read(client->conn, &reads), 0);
        for (unsigned k = 0; k < COUNT; k++)
            assert_in_range(latencies[k], 0, reads.total_ns);
        client_read(client, 4099, 777, 1);
        client_echo(client, i, 100, i);
    }
    struct okv_bare_reads none = {.offsets = offsets, .count = 1, .depth = 1};
    assert_int_equal(client->ops->bare_read(client->conn, &none), OKV_EINVAL);
    none.length = OKV_TCP_BARE_MAX + 1;
    assert_int_equal(client->ops->bare_read(client->conn, &none), OKV_EINVAL);
    client_destroy(client);
}

/* ---- the client ---- */

/* A server by hand, for one client at a time. */
struct impostor {
    struct fixture *fixture;
    int listening, sock;
    struct okv_uri uri;
};

static void impostor_open(struct impostor *impostor, struct fixture *fixture)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    struct addrinfo *found;
    struct okv_diag diag;

    *impostor = (struct impostor){.fixture = fixture, .uri = fixture->connect_uri};
    assert_int_equal(okv_resolve(impostor->uri.host, NULL, 0, &found, &diag), 0);
    impostor->listening = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(impostor->listening, found->ai_addr, found->ai_addrlen), 0);
    assert_int_equal(listen(impostor->listening, 8), 0);
    assert_int_equal(getsockname(impostor->listening, (struct sockaddr *)&address, &length), 0);
    freeaddrinfo(found);
    snprintf(impostor->uri.port, sizeof impostor->uri.port, "%u",
             ntohs(((struct sockaddr_in *)&address)->sin_port));
}

/* Connects a client, and answers its hello with these bytes. Returns what comes of it. */
static int impostor_answer(struct impostor *impostor, const void *bytes, size_t length,
                           struct okv_conn **conn, struct okv_diag *diag)
{
    const struct okv_connect_params params = {
        .hello = (const uint8_t *)"hello",
        .hello_length = 5,
        .limits = {.slot_size = FIXTURE_SLOT_SIZE, .credits = FIXTURE_CREDITS},
        .deadline_ns = fixture_soon()};
    uint8_t hello[OKV_TCP_HEADER + 5];
    struct okv_connecting *connecting;
    struct okv_answer answer;
    int rc;

    assert_int_equal(
        impostor->fixture->ops->connect_start(&impostor->uri, &params, &connecting, diag), 0);
    rc = impostor->fixture->ops->connect_step(connecting, &answer, conn, diag);
    assert_int_equal(rc, OKV_EAGAIN);
    impostor->sock = accept(impostor->listening, NULL, NULL);
    assert_true(impostor->sock >= 0);
    rc = impostor->fixture->ops->connect_step(connecting, &answer, conn, diag);
    assert_int_equal(rc, OKV_EAGAIN);
    hear(impostor->sock, hello, sizeof hello);
    say(impostor->sock, bytes, length);
    shutdown(impostor->sock, length == 0 ? SHUT_WR : -1);
    while ((rc = impostor->fixture->ops->connect_step(connecting, &answer, conn, diag)) ==
           OKV_EAGAIN)
        usleep(100);
    return rc;
}

TEST(an_answer_that_is_none_is_refused)
{
    static const struct {
        const char *bytes;
        size_t length;
        int code;
        const char *says;
    } cases[] = {
        {"HTTP/1.1 400 Bad Request\r\n", 26, OKV_EPROTO, "HTTP"},
        {"-ERR unknown command\r\n", 22, OKV_EPROTO, "Redis"},
        {"\x16\x03\x03\x00\x10\x00", 6, OKV_EPROTO, "TLS"},
        {"\xff\0\0\0\2\0\0\0okvT\1\0\0\0", 16, OKV_EPROTO, "no okv-server"},
        {"\0\0\0\0\4\0\0\0okvT\1\0\0\0", 16, OKV_EPROTO, "no okv-server"},
        {"\0\0\0\0\2\0\0\0okvT\2\0\0\0", 16, OKV_EPROTO, "no okv-server"},
        {"", 0, OKV_EREFUSED, "closed the connection"},
    };
    struct impostor impostor;

    impostor_open(&impostor, *state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct okv_conn *conn = NULL;
        struct okv_diag diag = {""};
        int rc = impostor_answer(&impostor, cases[i].bytes, cases[i].length, &conn, &diag);
        if (rc != cases[i].code || !strstr(diag.text, cases[i].says))
            fail_msg("case %zu: %d, '%s'", i, rc, diag.text);
        assert_null(conn);
        close(impostor.sock);
    }
    close(impostor.listening);
}

#define WELCOME "\1\0\0\0\2\0\0\0okvT\1\0\0\0w"

static struct okv_event next_event(const struct okv_transport_ops *ops, struct okv_conn *conn)
{
    struct okv_event event;

    (void)ops;
    assert_true(fixture_wait(conn->endpoint, &event));
    return event;
}

TEST(frames_of_a_hostile_server_end_the_connection)
{
    static const struct okv_tcp_frame cases[] = {
        {OKV_TCP_WELCOME, 0, 1, OKV_TCP_GREETING},
        {OKV_TCP_MESSAGE, 0, FIXTURE_SLOT_SIZE + 1, 1},
        {OKV_TCP_READ, 0, 1, 0},
        {OKV_TCP_DATA, 1, 8, 0},
        {OKV_TCP_DATA, 0, 9, 0},
        {OKV_TCP_DATA, OKV_READ_SLOTS, 8, 0},
        {OKV_TCP_FETCH, 0, 0, 1},
        {OKV_TCP_FETCH, 0, OKV_TCP_PIECE_MAX + 1, 1},
        {OKV_TCP_FETCH, OKV_RENDEZVOUS_MAX, 1, 1},
        {OKV_TCP_PIECE, 0, 1, 0},
        {OKV_TCP_REFUSAL, 0, 0, 0},
    };
    const struct okv_transport_ops *ops = ((struct fixture *)*state)->ops;
    struct impostor impostor;

    impostor_open(&impostor, *state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct okv_conn *conn = NULL;
        struct okv_memory *memory;
        struct okv_diag diag;
        uint8_t bytes[8];
        assert_int_equal(impostor_answer(&impostor, WELCOME, sizeof WELCOME - 1, &conn, &diag), 0);
        assert_int_equal(ops->set_remote(conn, 0, 4096, 0), 0);
        assert_int_equal(ops->memory_register(conn->endpoint, bytes, sizeof bytes, &memory), 0);
        const struct okv_read read = {.destination = bytes, .memory = memory, .length = 8};
        assert_int_equal(ops->post_read(conn, &read, 1), 0);
        say_frame(impostor.sock, &cases[i]);
        struct okv_event event = next_event(ops, conn);
        assert_int_equal(event.type, OKV_EVENT_READ);
        assert_int_equal(event.status, OKV_EDISCONNECTED);
        event = next_event(ops, conn);
        assert_int_equal(event.type, OKV_EVENT_CLOSED);
        assert_int_equal(event.status, OKV_EPROTO);
        ops->memory_unregister(memory);
        ops->conn_destroy(conn);
        close(impostor.sock);
    }
    close(impostor.listening);
}

/* A fetch of what is not advertised gets a refusal, and never memory. */
TEST(a_client_sends_no_memory_but_what_it_advertises)
{
    static const struct {
        uint32_t key, offset, length; /* the key is added to that of the buffer */
        bool is_there;
    } cases[] = {
        {0, 0, 16, true},          {0, 15, 1, true},  {0, 0, 17, false},
        {0, 16, 1, false},         {1, 0, 1, false},  {0x10000, 0, 1, false},
        {0, UINT32_MAX, 1, false}, {0, 1, 16, false}, {0xffff0000u, 0, 1, false},
    };
    const struct okv_transport_ops *ops = ((struct fixture *)*state)->ops;
    static const uint8_t memory[] = "0123456789abcdef";
    struct okv_conn *conn = NULL;
    struct okv_advert *advert;
    struct impostor impostor;
    struct okv_diag diag;

    impostor_open(&impostor, *state);
    assert_int_equal(impostor_answer(&impostor, WELCOME, sizeof WELCOME - 1, &conn, &diag), 0);
    assert_int_equal(ops->advertise(conn, memory, 16, &advert), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct okv_tcp_frame frame = {OKV_TCP_FETCH, 2, cases[i].length,
                                      (uint32_t)(advert->key + cases[i].key) |
                                          (uint64_t)cases[i].offset << 32};
        uint8_t bytes[16];
        say_frame(impostor.sock, &frame);
        usleep(1000);
        for (uint64_t end = fixture_soon();
             recv(impostor.sock, bytes, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && okv_clock_ns() < end;)
            ops->poll(conn->endpoint, NULL, 0);
        hear_frame(impostor.sock, &frame);
        assert_int_equal(frame.kind, cases[i].is_there ? OKV_TCP_PIECE : OKV_TCP_REFUSAL);
        assert_int_equal(frame.slot, 2);
        if (!cases[i].is_there)
            continue;
        hear(impostor.sock, bytes, frame.length);
        assert_memory_equal(bytes, memory + cases[i].offset, cases[i].length);
    }
    ops->withdraw(advert, false);
    ops->conn_destroy(conn);
    close(impostor.sock);
    close(impostor.listening);
}

TEST_PROGRAM(fixture_setup_from_environment, fixture_teardown)
