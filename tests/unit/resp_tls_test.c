/*
 * Clients of Redis over TLS: no worker shakes hands, those that do not finish make room for each
 * other, and records without data are few.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "server/clients/admission.h"
#include "server/resp/net/accept.h"
#include "server/resp/net/listen.h"
#include "server/resp/resp.h"
#include "server/resp/run/shared.h"
#include "shared/base/clock.h"
#include "tests/support/certificate.h"
#include "tests/support/pace.h"
#include "tests/support/resp_talk.h"

#define PLACES 8u
#define SILENT 4u
#define FLOOD 20u
#define TURN (64u << 10) /* bytes that a turn may take from the network */
#define UPDATES_MAX 20000u
#define BLOCK (16u << 10)

static const struct okv_store_params params = {
    .length = 8u << 20, .bucket_size = 256, .extra_reads = 1, .max_value = 1u << 20};

static char directory[] = "/tmp/okv-tls-XXXXXX", cert_path[64], key_path[64];
static SSL_CTX *context;

/* ---- a server with a certificate ---- */

static void configure(struct okv_server *server)
{
    struct okv_config *config = &server->config;

    strcpy(directory, "/tmp/okv-tls-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(cert_path, sizeof cert_path, "%s/cert", directory);
    snprintf(key_path, sizeof key_path, "%s/key", directory);
    certificate_write(cert_path, key_path);
    config->tls_cert = cert_path;
    config->tls_key = key_path;
    config->max_clients = PLACES;
    config->max_silent = SILENT;
    config->resp[0] = (struct okv_uri){.host = "127.0.0.1", .port = "0", .tls = true};
    config->resp_count = 1;
    const struct okv_admission_limits limits = okv_admission_limits_of(config);
    assert_int_equal(okv_admission_init(server->admission, &limits), 0);
}

static int open_server(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN); /* as the server does: OpenSSL does not ask for no signal */
    context = SSL_CTX_new(TLS_client_method());
    resp_fixture_open_with(&fixture, &params, configure);
    return 0;
}

static int close_server(void **state)
{
    struct okv_server *server = fixture.core.server;

    (void)state;
    okv_resp_stop(server);
    okv_resp_end_all(fixture.worker.resp);
    assert_int_equal(server->admission->clients, 0);
    assert_int_equal(server->resp_shared->door.crowd.count, 0);
    assert_int_equal(server->resp_shared->door.leaving, 0);
    okv_admission_fini(server->admission);
    resp_fixture_close(&fixture);
    SSL_CTX_free(context);
    unlink(cert_path);
    unlink(key_path);
    rmdir(directory);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, open_server, close_server)

/* ---- clients ---- */

static int connect_only(void)
{
    struct okv_resp_listener *listener = &fixture.core.server->resp_shared->listeners[0];
    const struct timeval patience = {.tv_sec = PACE_GUARD_MS / 1000};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to;
    socklen_t length = sizeof to;

    assert_int_equal(getsockname(listener->fd, (struct sockaddr *)&to, &length), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    okv_resp_accept(fixture.core.server, listener);
    return fd;
}

/* Shakes hands, while the worker does nothing. */
static SSL *connect_tls(void)
{
    int fd = connect_only();
    SSL *ssl = SSL_new(context);

    assert_int_equal(SSL_set_fd(ssl, fd), 1);
    assert_int_equal(SSL_connect(ssl), 1);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return ssl;
}

static void close_tls(SSL *ssl)
{
    close(SSL_get_fd(ssl));
    SSL_free(ssl);
}

static struct okv_resp_client *only_client(void)
{
    return TAILQ_FIRST(&fixture.worker.resp->all);
}

/* Passes of the worker until it has the client. */
static void await_client(void)
{
    uint64_t guard = pace_guard_end();

    while (!only_client() && okv_clock_ns() < guard)
        pass();
    assert_non_null(only_client());
}

static void say_tls(SSL *ssl, const char *bytes, size_t length)
{
    uint64_t guard = pace_guard_end();
    int n;

    while ((n = SSL_write(ssl, bytes, (int)length)) < 0 && okv_clock_ns() < guard)
        pass();
    assert_int_equal(n, length);
}

static void hear_tls(SSL *ssl, const char *expected)
{
    uint64_t guard = pace_guard_end();
    char got[64];
    size_t length = strlen(expected), at = 0;

    while (at < length && okv_clock_ns() < guard) {
        pass();
        int n = SSL_read(ssl, got + at, (int)(length - at));
        at += n > 0 ? (size_t)n : 0;
    }
    assert_int_equal(at, length);
    assert_memory_equal(got, expected, length);
}

static void ping(SSL *ssl)
{
    say_tls(ssl, "PING\r\n", 6);
    hear_tls(ssl, "+PONG\r\n");
}

/* Returns how many left. */
static unsigned update_keys(SSL *ssl, unsigned count)
{
    unsigned sent = 0;

    while (sent < count && SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1 &&
           SSL_do_handshake(ssl) == 1)
        sent++;
    return sent;
}

static int waiting(int fd)
{
    int bytes = 0;

    assert_int_equal(ioctl(fd, FIONREAD, &bytes), 0);
    return bytes;
}

/* ---- handshakes ---- */

FIXTURE_TEST(no_worker_shakes_hands)
{
    SSL *ssl = connect_tls();

    assert_int_equal(fixture.core.server->stats.resp_clients, 0);
    ping(ssl);
    assert_int_equal(fixture.core.server->admission->clients, 1);
    close_tls(ssl);
}

/* Counts silent clients, and those that were ended and have a descriptor still. */
static void count_silent(unsigned *silent, unsigned *leaving)
{
    struct okv_resp_door *door = &fixture.core.server->resp_shared->door;

    pthread_mutex_lock(&door->lock);
    *silent = door->crowd.count;
    *leaving = door->leaving;
    pthread_mutex_unlock(&door->lock);
}

/* They have no places, with users or without. */
FIXTURE_TEST(those_that_do_not_finish_make_room)
{
    const struct okv_server *server = fixture.core.server;
    unsigned silent, leaving;
    int fds[FLOOD];

    for (unsigned i = 0; i < FLOOD; i++) {
        fds[i] = connect_only();
        count_silent(&silent, &leaving);
        assert_in_range(silent, 1, SILENT);
        assert_in_range(leaving, 0, SILENT);
    }
    assert_int_equal(server->admission->clients, 0);
    assert_int_equal(atomic_load(&server->stats.closed_crowded_out) +
                         atomic_load(&server->stats.rejected_resources),
                     FLOOD - SILENT);
    uint8_t byte;
    assert_int_equal(recv(fds[0], &byte, 1, 0), 0); /* the first one is ended */
    for (; leaving > 0; count_silent(&silent, &leaving))
        usleep(1000);
    SSL *ssl = connect_tls();
    ping(ssl);
    assert_int_equal(server->admission->clients, 1);
    close_tls(ssl);
    for (unsigned i = 0; i < FLOOD; i++)
        close(fds[i]);
}

FIXTURE_TEST(a_handshake_has_a_while)
{
    struct okv_server *server = fixture.core.server;
    uint8_t byte;

    server->config.hello_ms = 100;
    int fd = connect_only();
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    assert_int_equal(atomic_load(&server->stats.closed_half_open), 1);
    close(fd);
}

FIXTURE_TEST(who_says_no_hello_is_ended)
{
    static const char text[] = "PING\r\nPING\r\nPING\r\n";
    int fd = connect_only();
    uint8_t bytes[64];
    ssize_t n;

    assert_int_equal(send(fd, text, sizeof text - 1, MSG_NOSIGNAL), sizeof text - 1);
    while ((n = recv(fd, bytes, sizeof bytes, 0)) > 0) /* an alert */
        ;
    assert_true(n == 0 || errno == ECONNRESET);
    close(fd);
}

/* ---- records ---- */

FIXTURE_TEST(a_turn_takes_little_from_the_network)
{
    static char request[BLOCK];
    const struct okv_server *server = fixture.core.server;
    SSL *ssl = connect_tls();
    uint64_t before = 0, now = 0, end = 0;

    await_client();
    for (size_t at = 0; at + 6 <= sizeof request; at += 6)
        memcpy(request + at, "PING\r\n", 6);
    while (SSL_write(ssl, request, sizeof request) > 0)
        end += sizeof request;
    assert_true(end > TURN);
    for (unsigned i = 0; i < 100 && only_client(); i++, before = now) {
        pass();
        now = atomic_load(&server->stats.bytes_in);
        assert_in_range(now - before, 0, TURN);
    }
    close_tls(ssl);
}

/* Of TLS 1.3: each makes the server derive keys. */
FIXTURE_TEST(a_flood_of_key_updates_ends_the_connection)
{
    SSL *ssl = connect_tls();

    await_client();
    assert_true(update_keys(ssl, UPDATES_MAX) > TURN / 27);
    int before = waiting(only_client()->stream.fd);
    unsigned passes = 0;
    for (; only_client() && passes < 1000; passes++) {
        pass();
        int left = only_client() ? waiting(only_client()->stream.fd) : before;
        assert_in_range(before - left, 0, TURN);
        before = left;
    }
    assert_null(only_client());
    assert_in_range(passes, 2, 100); /* not in one turn, and soon */
    close_tls(ssl);
}

FIXTURE_TEST(a_few_key_updates_are_fine)
{
    static char block[BLOCK];
    SSL *ssl = connect_tls();
    size_t length = 0;

    assert_int_equal(update_keys(ssl, 10), 10);
    ping(ssl);
    for (; length + 6 <= sizeof block; length += 6)
        memcpy(block + length, "PING\r\n", 6);
    say_tls(ssl, "CLIENT REPLY OFF\r\n", 18);
    for (unsigned i = 0; i < 2 * (1u << 20) / BLOCK; i++)
        say_tls(ssl, block, length); /* MiB of requests */
    assert_int_equal(update_keys(ssl, 10), 10);
    say_tls(ssl, "CLIENT REPLY ON\r\n", 17);
    hear_tls(ssl, "+OK\r\n");
    ping(ssl);
    close_tls(ssl);
}
