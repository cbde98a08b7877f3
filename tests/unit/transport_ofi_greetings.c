/* Part of transport_ofi_test.c: a client and a server that is none, by what it says on the control
 * connection. */
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "tests/support/ofi_attacker.h"
#include "tests/support/transport_fixture.h"
#include "tests/unit/transport_ofi_list.h"

/* A server that says what a test wants, and its client. */
struct talk {
    const struct okv_transport_ops *ops;
    int listener, sock;
    struct okv_uri uri;
    struct okv_connecting *connecting;
    struct okv_answer answer;
    struct okv_diag diag;
};

static void send_all(int sock, const void *bytes, size_t length)
{
    assert_int_equal(send(sock, bytes, length, MSG_NOSIGNAL), length);
}

static void talk_begin(struct talk *talk, const struct fixture *fixture)
{
    struct sockaddr_in address = ofi_control_address(&fixture->connect_uri);
    socklen_t length = sizeof address;
    const struct okv_connect_params params = {
        .hello = (const uint8_t *)"A",
        .hello_length = 1,
        .limits = {.slot_size = FIXTURE_SLOT_SIZE, .credits = FIXTURE_CREDITS},
        .deadline_ns = fixture_soon(),
    };

    *talk = (struct talk){.ops = fixture->ops, .uri = fixture->connect_uri};
    talk->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(talk->listener >= 0);
    address.sin_port = 0;
    assert_int_equal(bind(talk->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(talk->listener, 1), 0);
    assert_int_equal(getsockname(talk->listener, (struct sockaddr *)&address, &length), 0);
    snprintf(talk->uri.port, sizeof talk->uri.port, "%u", ntohs(address.sin_port));
    assert_int_equal(talk->ops->connect_start(&talk->uri, &params, &talk->connecting, &talk->diag),
                     0);
    struct okv_conn *conn;
    assert_int_equal(talk->ops->connect_step(talk->connecting, &talk->answer, &conn, &talk->diag),
                     OKV_EAGAIN);
    talk->sock = accept4(talk->listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(talk->sock >= 0);
}

/* How the connect ends. */
static int talk_end(struct talk *talk)
{
    struct okv_conn *conn;
    int rc;

    while ((rc = talk->ops->connect_step(talk->connecting, &talk->answer, &conn, &talk->diag)) ==
           OKV_EAGAIN) {
        struct pollfd fd = {.fd = talk->connecting->fd, .events = POLLIN};
        poll(&fd, 1, okv_clock_ms_until(talk->connecting->wake_ns));
    }
    close(talk->sock);
    close(talk->listener);
    assert_int_not_equal(rc, 0);
    for (const char *at = talk->diag.text; *at; at++) {
        if (*at < ' ' || *at > '~')
            fail_msg("the sentence has byte %d", *at);
    }
    return rc;
}

static void greet(const struct talk *talk, const void *provider, size_t length)
{
    struct ofi_frame frame;

    okv_ofi_frame_begin(&frame, OFI_GREETING);
    memcpy(frame.body.greeting.provider, provider, length);
    send_all(talk->sock, &frame, sizeof frame.header + sizeof frame.body.greeting);
}

/* The name goes into sentences, which people read in a terminal. */
TEST(greetings_that_name_no_provider)
{
    static const struct {
        const char *bytes;
        size_t length;
    } names[] = {
        {"", 0},
        {"net\033[2J", 7},
        {"net\n", 4},
        {"n\xc3\xa9t", 4},
        {"net\0net", 7},
        {"%s%s%s", 6},
        {"Net", 3},
        {"net tcp", 7},
        {"netnetnetnetnetnetnetnetnetnetnetnet", OFI_PROVIDER_MAX},
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct talk talk;
        talk_begin(&talk, *state);
        greet(&talk, names[i].bytes, names[i].length);
        assert_int_equal(talk_end(&talk), OKV_EPROTO);
    }
}

/* "tcp" is what people write; the provider is called tcp;ofi_rxm, or there is another one. */
TEST(a_greeting_with_half_a_name)
{
    struct fixture *fixture = *state;
    struct ofi_frame greeting;
    struct talk talk;

    close(ofi_greeted(&fixture->connect_uri, &greeting));
    if (strcmp((const char *)greeting.body.greeting.provider, "tcp;ofi_rxm") != 0)
        skip();
    talk_begin(&talk, fixture);
    greet(&talk, "tcp", 3);
    assert_int_equal(talk_end(&talk), OKV_EUNSUPPORTED);
    assert_non_null(strstr(talk.diag.text, "uses the libfabric provider tcp,"));
}

/* Lets the client go on until `fd` is readable. */
static void talk_until_readable(struct talk *talk, int fd)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    struct okv_conn *conn;

    while (poll(&readable, 1, 1) == 0)
        assert_int_equal(
            talk->ops->connect_step(talk->connecting, &talk->answer, &conn, &talk->diag),
            OKV_EAGAIN);
}

/* Greets with the provider of the fixture and takes the hello. */
static void take_hello(struct talk *talk, const struct fixture *fixture, struct ofi_frame *hello)
{
    struct ofi_frame greeting;
    size_t length = sizeof hello->header + sizeof hello->body.hello;

    close(ofi_greeted(&fixture->connect_uri, &greeting));
    send_all(talk->sock, &greeting, sizeof greeting.header + sizeof greeting.body.greeting);
    talk_until_readable(talk, talk->sock);
    assert_int_equal(recv(talk->sock, hello, length, MSG_WAITALL), length);
    assert_int_equal(hello->header.kind, OFI_HELLO);
    assert_true(okv_ofi_frame_is_valid(hello));
}

static void talk_until_hello(struct talk *talk, const struct fixture *fixture)
{
    struct ofi_frame hello;

    talk_begin(talk, fixture);
    take_hello(talk, fixture, &hello);
}

static int answer_with(const struct fixture *fixture, const struct ofi_frame *frame)
{
    struct talk talk;

    talk_until_hello(&talk, fixture);
    send_all(talk.sock, frame, okv_ofi_frame_length(&frame->header));
    int rc = talk_end(&talk);
    return talk.answer.rejected ? 0 : rc;
}

TEST(answers_with_bytes_that_nothing_uses)
{
    struct fixture *fixture = *state;
    struct sockaddr_in name = ofi_control_address(&fixture->connect_uri);
    struct ofi_frame frame;
    struct ofi_welcome *welcome = &frame.body.welcome;
    struct ofi_reject *rejection = &frame.body.reject;
    uint8_t *const in_rejection[] = {NULL, &rejection->reserved[0], &rejection->reserved[2],
                                     &rejection->bytes[0], &rejection->bytes[OKV_REJECT_MAX - 1]};
    uint8_t *const in_welcome[] = {
        &welcome->place.reserved[0],
        &welcome->place.name[sizeof name],
        &welcome->reserved[2],
        &welcome->bytes[OKV_WELCOME_MAX - 1],
    };

    for (size_t i = 0; i < sizeof in_rejection / sizeof *in_rejection; i++) {
        okv_ofi_frame_begin(&frame, OFI_REJECT);
        if (in_rejection[i])
            *in_rejection[i] = 1;
        assert_int_equal(answer_with(fixture, &frame), i == 0 ? 0 : OKV_EPROTO);
    }
    for (size_t i = 0; i < sizeof in_welcome / sizeof *in_welcome; i++) {
        okv_ofi_frame_begin(&frame, OFI_WELCOME);
        welcome->place.name_length = sizeof name;
        memcpy(welcome->place.name, &name, sizeof name);
        *in_welcome[i] = 1;
        assert_int_equal(answer_with(fixture, &frame), OKV_EPROTO);
    }
}

/* A server drops a client that is slow to say hello, as one is that takes long to open its
 * endpoint. The client comes again with that endpoint, once. */
TEST(a_server_that_hangs_up)
{
    struct fixture *fixture = *state;
    struct ofi_frame first, second;
    struct talk talk;

    talk_begin(&talk, fixture);
    take_hello(&talk, fixture, &first);
    close(talk.sock);
    talk_until_readable(&talk, talk.listener);
    talk.sock = accept4(talk.listener, NULL, NULL, SOCK_CLOEXEC);
    take_hello(&talk, fixture, &second);
    assert_memory_equal(&first.body.hello, &second.body.hello, sizeof first.body.hello);
    shutdown(talk.sock, SHUT_RDWR);
    assert_int_equal(talk_end(&talk), OKV_EREFUSED);
    assert_false(talk.answer.rejected);
}
