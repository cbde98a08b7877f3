/*
 * TLS of tcps:// between a client's stream and a server's, in one thread: whom a client trusts,
 * whom a server takes, what both know of the connection, and peers that misbehave. With the
 * certificates of tests/support/certificates.sh.
 */
#include <fcntl.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/error.h"
#include "tests/support/tls_files.h"

#define NAME "okv.test"
#define LONG (200u << 10)
#define UPDATES 40

struct ends {
    struct okv_tls *of_client, *of_server;
    struct okv_stream client, server;
    int as_client, as_server; /* how the handshake ended there */
};

static struct okv_tls *client_tls(const char *ca, const char *cert, const char *key)
{
    char paths[3][256];
    struct okv_diag diag = {""};
    struct okv_tls *tls = NULL;
    const struct okv_tls_files files = {cert ? test_tls_file(cert, paths[0]) : NULL,
                                        key ? test_tls_file(key, paths[1]) : NULL,
                                        ca ? test_tls_file(ca, paths[2]) : NULL};

    if (okv_tls_create(OKV_TLS_CLIENT, &files, &tls, &diag))
        fail_msg("%s", diag.text);
    return tls;
}

/* Lets both sides go on until neither can. */
static void shake(struct ends *ends)
{
    for (int i = 0; i < 10; i++) {
        if (ends->as_client == 0)
            ends->as_client = okv_stream_handshake(&ends->client);
        if (ends->as_server == 0)
            ends->as_server = okv_stream_handshake(&ends->server);
    }
}

/* Takes both contexts. */
static void shake_hands(struct ends *ends, struct okv_tls *client, struct okv_tls *server,
                        const char *name)
{
    int fds[2];

    *ends = (struct ends){.of_client = client, .of_server = server};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(okv_stream_init(&ends->client, fds[0], client, name), 0);
    assert_int_equal(okv_stream_init(&ends->server, fds[1], server, NULL), 0);
    shake(ends);
}

static void part(struct ends *ends)
{
    okv_stream_fini(&ends->client);
    okv_stream_fini(&ends->server);
    okv_tls_destroy(ends->of_client);
    okv_tls_destroy(ends->of_server);
}

static void meet(struct ends *ends)
{
    shake_hands(ends, client_tls("ca.pem", NULL, NULL), test_tls_server(NULL), NAME);
    assert_int_equal(ends->as_client, 1);
    assert_int_equal(ends->as_server, 1);
}

/* The handshake fails at the client, which explains it by `words`. */
static void expect_refused(struct ends *ends, const char *words)
{
    struct okv_diag diag = {""};

    assert_int_equal(ends->as_client, -1);
    assert_int_equal(okv_stream_explain(&ends->client, "the server", &diag), OKV_EDENIED);
    if (!strstr(diag.text, words))
        fail_msg("\"%s\" does not say \"%s\"", diag.text, words);
    assert_int_equal(ends->as_server, -1);
    part(ends);
}

/* ---- trust ---- */

TEST(a_server_is_known_by_its_authority_and_name)
{
    struct ends ends;

    meet(&ends);
    assert_true(okv_stream_is_okv(&ends.client));
    part(&ends);
}

TEST(another_authority_is_not_trusted)
{
    struct ends ends;

    shake_hands(&ends, client_tls("other.pem", NULL, NULL), test_tls_server(NULL), NAME);
    expect_refused(&ends, "nobody signed who is trusted here");
    shake_hands(&ends, client_tls(NULL, NULL, NULL), test_tls_server(NULL), NAME);
    expect_refused(&ends, "?ca=FILE or OKV_TLS_CA");
}

TEST(another_name_is_refused)
{
    static const char *const names[] = {"okv.test.evil", "127.0.0.1", "::1", "fe80::1%lo", "test"};
    struct ends ends;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        shake_hands(&ends, client_tls("ca.pem", NULL, NULL), test_tls_server(NULL), names[i]);
        expect_refused(&ends, "a certificate for okv.test");
    }
}

static void exchange(struct okv_tls *server, const struct okv_tls_files *files)
{
    struct okv_diag diag = {""};
    struct okv_tls *fresh;

    assert_int_equal(okv_tls_create(OKV_TLS_TCPS, files, &fresh, &diag), 0);
    okv_tls_exchange(server, fresh);
    okv_tls_destroy(fresh);
}

TEST(a_certificate_that_has_expired_is_refused_and_can_be_renewed)
{
    struct okv_tls *server = test_tls_server(NULL), *other;
    char cert[256], key[256];
    struct okv_diag diag = {""};
    struct ends ends;
    struct okv_tls_files files = {test_tls_file("expired.pem", cert),
                                  test_tls_file("server.key", key), NULL};

    exchange(server, &files);
    shake_hands(&ends, client_tls("ca.pem", NULL, NULL), server, NAME);
    ends.of_server = NULL;
    expect_refused(&ends, "send SIGHUP to the server");

    files.cert = test_tls_file("ca.pem", cert); /* of another key */
    assert_int_equal(okv_tls_create(OKV_TLS_TCPS, &files, &other, &diag), OKV_EINVAL);
    files.cert = test_tls_file("server.pem", cert);
    exchange(server, &files);
    shake_hands(&ends, client_tls("ca.pem", NULL, NULL), server, NAME);
    assert_int_equal(ends.as_client, 1);
    part(&ends);
}

TEST(a_server_may_ask_for_a_certificate)
{
    struct okv_diag diag = {""};
    struct ends ends;
    uint8_t byte;
    char text[96];

    shake_hands(&ends, client_tls("ca.pem", "client.pem", "client.key"), test_tls_server("ca.pem"),
                NAME);
    assert_int_equal(ends.as_client, 1);
    assert_int_equal(ends.as_server, 1);
    part(&ends);

    /* The client of TLS 1.3 has shaken hands when the server refuses. */
    shake_hands(&ends, client_tls("ca.pem", NULL, NULL), test_tls_server("ca.pem"), NAME);
    assert_int_equal(ends.as_server, -1);
    assert_true(okv_stream_describe(&ends.server, text, sizeof text));
    assert_non_null(strstr(text, "has no certificate"));
    assert_int_equal(okv_stream_read(&ends.client, &byte, 1), -1);
    assert_int_equal(okv_stream_explain(&ends.client, "the server", &diag), OKV_EDENIED);
    assert_non_null(strstr(diag.text, "?cert=FILE&key=FILE"));
    part(&ends);

    shake_hands(&ends, client_tls("ca.pem", "other.pem", "other.key"), test_tls_server("ca.pem"),
                NAME);
    assert_int_equal(ends.as_server, -1);
    assert_int_equal(okv_stream_read(&ends.client, &byte, 1), -1);
    assert_int_equal(okv_stream_explain(&ends.client, "the server", &diag), OKV_EDENIED);
    assert_non_null(strstr(diag.text, "does not take the certificate of the client"));
    part(&ends);
}

/* ---- the connection ---- */

TEST(both_ends_have_the_same_binding_and_others_another)
{
    uint8_t client[OKV_STREAM_BINDING], server[OKV_STREAM_BINDING], other[OKV_STREAM_BINDING];
    struct ends ends, others;

    meet(&ends);
    meet(&others);
    assert_int_equal(okv_stream_binding(&ends.client, client), 0);
    assert_int_equal(okv_stream_binding(&ends.server, server), 0);
    assert_int_equal(okv_stream_binding(&others.client, other), 0);
    assert_memory_equal(client, server, sizeof client);
    assert_memory_not_equal(client, other, sizeof client);
    part(&ends);
    part(&others);
}

static void fill(uint8_t *bytes, size_t length, unsigned seed)
{
    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(i * 31 + i / 251 + seed);
}

/* A socket takes a part, and what was encrypted by then is sent before what follows. */
TEST(vectors_arrive_whole_although_the_socket_blocks)
{
    uint8_t *sent = test_calloc(1, LONG), *got = test_calloc(1, LONG);
    const size_t cuts[] = {0, 16, 16 + 100000, 16 + 100001, LONG};
    size_t out = 0, in = 0;
    struct ends ends;

    const int small = 8 << 10;
    fill(sent, LONG, 7);
    meet(&ends);
    assert_int_equal(setsockopt(ends.server.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    while (in < LONG) {
        struct iovec vectors[4];
        unsigned count = 0;
        for (unsigned i = 0; i < 4; i++)
            if (out < cuts[i + 1]) {
                size_t from = out > cuts[i] ? out : cuts[i];
                vectors[count++] = (struct iovec){sent + from, cuts[i + 1] - from};
            }
        ssize_t n = count > 0 ? okv_stream_writev(&ends.server, vectors, count) : 0;
        assert_true(n >= 0);
        out += (size_t)n;
        size_t first = in + 1000 < LONG ? 1000 : LONG - in;
        struct iovec to[2] = {{got + in, first}, {got + in + first, LONG - in - first}};
        do {
            n = okv_stream_readv(&ends.client, to, to[1].iov_len > 0 ? 2 : 1);
            assert_true(n >= 0);
            in += (size_t)n;
            to[0] = (struct iovec){got + in, LONG - in};
            to[1].iov_len = 0;
        } while (n > 0 && in < LONG);
    }
    assert_memory_equal(sent, got, LONG);
    part(&ends);
    test_free(sent);
    test_free(got);
}

TEST(a_stream_may_move)
{
    struct okv_stream moved;
    struct ends ends;
    uint8_t byte = 5;

    meet(&ends);
    okv_stream_move(&moved, &ends.server);
    assert_int_equal(ends.server.fd, -1);
    assert_int_equal(okv_stream_write(&ends.client, &byte, 1), 1);
    assert_int_equal(okv_stream_read(&moved, &byte, 1), 1);
    assert_int_equal(moved.data, 1);
    okv_stream_move(&ends.server, &moved);
    part(&ends);
}

TEST(no_signal_tells_of_a_peer_that_is_gone)
{
    uint8_t bytes[1000] = {0};
    struct ends ends;

    meet(&ends);
    okv_stream_fini(&ends.server);
    ends.server.fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    ends.server.ssl = NULL;
    assert_int_equal(okv_stream_write(&ends.client, bytes, sizeof bytes), -1);
    part(&ends);
}

/* An update of keys costs as much as a dozen requests: a read of a server goes through few. */
TEST(updates_of_keys_without_data_end_the_connection)
{
    uint8_t byte = 0;
    struct ends ends;
    int reads = 0;

    meet(&ends);
    for (int i = 0; i < UPDATES; i++) {
        SSL_key_update(ends.client.ssl, SSL_KEY_UPDATE_NOT_REQUESTED);
        SSL_do_handshake(ends.client.ssl);
    }
    while (reads < UPDATES && okv_stream_read(&ends.server, &byte, 1) >= 0)
        reads++;
    assert_in_range(reads, 4, UPDATES - 1);
    assert_in_range(ends.server.empty_records, 1, UPDATES / 2);
    part(&ends);
}

/* The client chooses the group of the key exchange, and the largest take a server 0.1 s. */
TEST(only_groups_that_cost_little_are_taken)
{
    static const struct {
        const char *group;
        int result;
    } cases[] = {{"X25519", 1}, {"P-256", 1}, {"ffdhe2048", -1}, {"ffdhe8192", -1}, {"P-521", -1}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ends ends = {.of_client = client_tls("ca.pem", NULL, NULL),
                            .of_server = test_tls_server(NULL)};
        int fds[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
                         0);
        assert_int_equal(okv_stream_init(&ends.client, fds[0], ends.of_client, NAME), 0);
        assert_int_equal(okv_stream_init(&ends.server, fds[1], ends.of_server, NULL), 0);
        assert_int_equal(SSL_set1_groups_list(ends.client.ssl, cases[i].group), 1);
        shake(&ends);
        if (ends.as_server != cases[i].result)
            fail_msg("%s: %d", cases[i].group, ends.as_server);
        part(&ends);
    }
}

static void expect_end(struct okv_stream *stream)
{
    uint8_t byte;

    assert_int_equal(okv_stream_read(stream, &byte, 1), 0);
    assert_true(stream->has_ended);
}

/* By its word, or without one: frames have lengths. */
TEST(the_end_of_a_peer_is_no_failure)
{
    struct ends ends;

    meet(&ends);
    okv_stream_shut(&ends.server);
    expect_end(&ends.client);
    part(&ends);
    meet(&ends);
    shutdown(ends.client.fd, SHUT_RDWR);
    expect_end(&ends.server);
    part(&ends);
}

/* ---- peers without TLS ---- */

TEST(a_peer_without_tls_is_described)
{
    static const struct {
        const char *bytes, *words;
    } peers[] = {
        {"GET / HTTP/1.1\r\n\r\n", "HTTP"},
        {"PING\r\n and more than a head\r\n", "does not speak TLS"},
        {"\x38\x00\x00\x00\x01\x00\x00\x00okvT\x01\x00\x00\x00", "does not speak TLS"},
    };
    char text[96];

    for (size_t i = 0; i < sizeof peers / sizeof *peers; i++) {
        struct okv_tls *tls = test_tls_server(NULL);
        struct okv_stream stream;
        int fds[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
        assert_int_equal(okv_stream_init(&stream, fds[0], tls, NULL), 0);
        assert_int_equal(write(fds[1], peers[i].bytes, i == 2 ? 16 : strlen(peers[i].bytes)),
                         i == 2 ? 16 : strlen(peers[i].bytes));
        assert_int_equal(okv_stream_handshake(&stream), -1);
        assert_false(okv_stream_describe(&stream, text, sizeof text));
        if (!strstr(text, peers[i].words))
            fail_msg("\"%s\"", text);
        okv_stream_fini(&stream);
        close(fds[1]);
        okv_tls_destroy(tls);
    }
}

TEST(a_server_without_tls_is_explained)
{
    struct okv_tls *tls = client_tls("ca.pem", NULL, NULL);
    static const char text[] = "-ERR no such command\r\n";
    struct okv_diag diag = {""};
    struct okv_stream stream;
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    assert_int_equal(okv_stream_init(&stream, fds[0], tls, NAME), 0);
    assert_int_equal(okv_stream_handshake(&stream), 0);
    assert_int_equal(write(fds[1], text, sizeof text), sizeof text);
    assert_int_equal(okv_stream_handshake(&stream), -1);
    assert_int_equal(okv_stream_explain(&stream, "the server", &diag), OKV_EPROTO);
    assert_non_null(strstr(diag.text, "does not speak TLS: use tcp://"));
    okv_stream_fini(&stream);
    close(fds[1]);
    okv_tls_destroy(tls);
}
