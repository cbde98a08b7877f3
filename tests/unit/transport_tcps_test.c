/*
 * The listener of tcps://: clients whose handshakes are under way are few, cost nothing once they
 * were dropped, and end with it. Needs OKV_TEST_LISTEN, as tests/support/loopback.sh sets it.
 */
#include <dirent.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/transport/common/pending.h"
#include "shared/transport/tcp/tcp.h"
#include "tests/support/transport_client.h"

#define FLOOD 600u

/* The first bytes that a client of TLS sends. */
static size_t client_hello(uint8_t *out, size_t size)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *ssl = SSL_new(context);
    BIO *from = BIO_new(BIO_s_mem()), *to = BIO_new(BIO_s_mem());

    SSL_set_bio(ssl, from, to);
    assert_int_equal(SSL_connect(ssl), -1);
    int length = BIO_read(to, out, (int)size);
    assert_in_range(length, 100, size - 1);
    SSL_free(ssl);
    SSL_CTX_free(context);
    return (size_t)length;
}

static unsigned descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

/* Others of its address have their turn first. */
static void expect_served(struct fixture *fixture)
{
    uint64_t end = fixture_soon();
    struct okv_answer welcome;
    struct okv_conn *conn = NULL;
    struct okv_diag diag;

    while (!conn && okv_clock_ns() < end)
        if (fixture_try_connect(fixture, FIXTURE_ACCEPT, end, &welcome, &conn, &diag))
            conn = NULL;
    assert_non_null(conn);
    fixture->ops->conn_destroy(conn);
}

/* Each is at another place of its handshake: nothing, a part, or all of its first message. */
TEST(handshakes_that_never_end_are_few)
{
    uint8_t hello[2048];
    size_t length = client_hello(hello, sizeof hello);
    static int socks[FLOOD];
    unsigned before = descriptors(), most = 0;
    const struct sockaddr_in elsewhere = {.sin_family = AF_INET,
                                          .sin_addr.s_addr = htonl(0x7f4d4d4d)};

    for (unsigned i = 0; i < FLOOD; i++) {
        socks[i] = client_connect_raw(*state, &elsewhere);
        send(socks[i], hello, i % 3 == 0 ? 0 : i % 3 == 1 ? length / 2 : length, MSG_NOSIGNAL);
        unsigned now = descriptors() - before - (i + 1); /* those of the server */
        most = now > most ? now : most;
        if (i % 100 == 99) /* its address is not that of the others */
            client_destroy(client_create(state));
    }
    /* Those that are there, those that are leaving, and one that is being accepted. */
    assert_in_range(most, 1, 2 * OKV_PENDING_MAX + 1);
    for (unsigned i = 0; i < FLOOD; i++)
        close(socks[i]);
    expect_served(*state);
}

/* The teardown ends the listener meanwhile. */
TEST(handshakes_end_with_the_listener)
{
    uint8_t hello[2048];
    size_t length = client_hello(hello, sizeof hello);
    struct fixture *fixture = test_calloc(1, sizeof *fixture);
    const struct fixture *first = *state;
    char listen[320];
    int socks[60];

    snprintf(listen, sizeof listen, "tcps://%s:7474", first->listen_uri.host);
    for (unsigned round = 0; round < 5; round++) {
        fixture_start(fixture, listen, listen);
        for (unsigned i = 0; i < 60; i++) {
            socks[i] = client_connect_raw(fixture, NULL);
            send(socks[i], hello, i % 3 == 0 ? 0 : i % 3 == 1 ? length / 2 : length, MSG_NOSIGNAL);
        }
        fixture_stop(fixture);
        for (unsigned i = 0; i < 60; i++)
            close(socks[i]);
    }
    test_free(fixture);
}

TEST_PROGRAM(fixture_setup_from_environment, fixture_teardown)
