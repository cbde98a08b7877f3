/*
 * The transport over ofi beside the list that all transports pass. In this file: a server and peers
 * that are no okv clients, by bytes on its control port, after each of which a client is served as
 * before; and bare READs, beside a connection and no part of it.
 *
 * OKV_TEST_LISTEN and OKV_TEST_URI as in transport_list.c; skipped unless they are of ofi.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "tests/support/ofi_attacker.h"
#include "tests/support/transport_client.h"
#include "tests/unit/transport_ofi_list.h"

/* A good hello of an endpoint at this address. */
static void make_hello(struct ofi_frame *frame, const char *host)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(1)};
    uint8_t hello[FIXTURE_HELLO] = {FIXTURE_ACCEPT};

    assert_int_equal(inet_pton(AF_INET, host, &name.sin_addr), 1);
    for (unsigned i = 1; i < FIXTURE_HELLO; i++)
        hello[i] = fixture_hello_byte(i);
    ofi_make_hello(frame, &name, sizeof name, hello, sizeof hello);
}

/* Sends it; the server must not answer with a welcome. */
static void expect_no_welcome(const struct fixture *fixture, const void *bytes, size_t length)
{
    struct ofi_frame greeting, answer = {.header.kind = 0};
    int sock = ofi_greeted(&fixture->connect_uri, &greeting);

    assert_int_equal(send(sock, bytes, length, MSG_NOSIGNAL), length);
    /* The end, or a rejection; a reset when bytes were left unread. */
    assert_true(recv(sock, &answer, sizeof answer, 0) >= 0 || errno == ECONNRESET);
    assert_int_not_equal(answer.header.kind, OFI_WELCOME);
    close(sock);
}

static void expect_service(void **state)
{
    struct client *client = client_create(state);

    client_read(client, 4099, 777, 1);
    client_echo(client, 1, 100, 1);
    client_destroy(client);
}

static void send_spoilt(void **state, const struct ofi_frame *frame)
{
    expect_no_welcome(*state, frame, sizeof frame->header + sizeof frame->body.hello);
    expect_service(state);
}

TEST(frames_that_are_none)
{
    struct fixture *fixture = *state;
    struct ofi_frame frame;

    make_hello(&frame, fixture->connect_uri.host);
    frame.header.magic = okv_le32_of(OFI_MAGIC + 1);
    send_spoilt(state, &frame);
    make_hello(&frame, fixture->connect_uri.host);
    frame.header.version = OFI_VERSION + 1;
    send_spoilt(state, &frame);
    make_hello(&frame, fixture->connect_uri.host);
    frame.header.kind = OFI_WELCOME;
    send_spoilt(state, &frame);
    make_hello(&frame, fixture->connect_uri.host);
    frame.header.length = okv_le16_of(UINT16_MAX);
    send_spoilt(state, &frame);
    make_hello(&frame, fixture->connect_uri.host);
    frame.body.hello.length = OKV_HELLO_MAX + 1;
    send_spoilt(state, &frame);
}

/* Such as a later version might fill in. */
TEST(hellos_with_bytes_that_nothing_uses)
{
    struct fixture *fixture = *state;
    struct ofi_frame frame;
    struct ofi_hello *hello = &frame.body.hello;
    uint8_t *const unused[] = {
        &hello->place.reserved[0],
        &hello->place.reserved[2],
        &hello->reserved[0],
        &hello->reserved[6],
        &hello->bytes[FIXTURE_HELLO],
        &hello->bytes[OKV_HELLO_MAX - 1],
        &hello->place.name[sizeof(struct sockaddr_in)],
        &hello->place.name[OFI_NAME_MAX - 1],
    };

    for (unsigned i = 0; i < sizeof unused / sizeof *unused; i++) {
        make_hello(&frame, fixture->connect_uri.host);
        *unused[i] = 1;
        send_spoilt(state, &frame);
    }
}

/* libfabric takes the family of an address for true, and no further address after a wrong one. */
TEST(names_that_are_no_addresses)
{
    static const uint16_t families[] = {AF_UNSPEC, AF_UNIX, AF_INET6, 99, UINT16_MAX};
    static const uint8_t lengths[] = {0, 1, 15, 17, OFI_NAME_MAX, OFI_NAME_MAX + 1, UINT8_MAX};
    struct fixture *fixture = *state;
    struct ofi_frame frame;

    for (unsigned i = 0; i < sizeof families / sizeof *families; i++) {
        make_hello(&frame, fixture->connect_uri.host);
        memcpy(frame.body.hello.place.name, &families[i], sizeof families[i]);
        send_spoilt(state, &frame);
    }
    for (unsigned i = 0; i < sizeof lengths; i++) {
        make_hello(&frame, fixture->connect_uri.host);
        frame.body.hello.place.name_length = lengths[i];
        send_spoilt(state, &frame);
    }
}

/* A client that names another host's endpoint could break that one's connection. */
TEST(a_name_of_another_host)
{
    struct ofi_frame frame;

    make_hello(&frame, "127.99.98.97");
    send_spoilt(state, &frame);
    make_hello(&frame, "192.0.2.1");
    send_spoilt(state, &frame);
}

TEST(peers_that_say_little)
{
    struct fixture *fixture = *state;
    struct ofi_frame greeting;
    int silent[20];

    for (unsigned i = 0; i < 20; i++) {
        silent[i] = ofi_greeted(&fixture->connect_uri, &greeting);
        assert_int_equal(send(silent[i], "KOFI", i % 5, MSG_NOSIGNAL), i % 5);
    }
    expect_service(state);
    for (unsigned i = 0; i < 20; i++)
        close(silent[i]);
    expect_service(state);
}

/* ---- bare READs ---- */

#define BARE_COUNT 100u

static int bare_read(struct client *client, uint64_t offset, uint32_t length, uint32_t depth,
                     uint64_t timeout_ns)
{
    uint64_t offsets[BARE_COUNT], latencies[BARE_COUNT] = {0};
    struct okv_bare_reads reads = {.offsets = offsets,
                                   .length = length,
                                   .count = BARE_COUNT,
                                   .depth = depth,
                                   .timeout_ns = timeout_ns,
                                   .latencies_ns = latencies};

    for (unsigned i = 0; i < BARE_COUNT; i++)
        offsets[i] = i < BARE_COUNT - 1 ? i * 512u : offset;
    int rc = client->ops->bare_read(client->conn, &reads);
    for (unsigned i = 0; i < BARE_COUNT && rc == 0; i++)
        assert_true(latencies[i] > 0 && latencies[i] <= reads.total_ns);
    return rc;
}

TEST(bare_reads)
{
    static const uint32_t depths[] = {1, 16, 64, BARE_COUNT + 1};
    struct client *client = client_create(state);

    for (unsigned i = 0; i < sizeof depths / sizeof *depths; i++) {
        assert_int_equal(bare_read(client, 0, 512, depths[i], FIXTURE_GUARD_NS), 0);
        client_read(client, 4099, 777, 1);
        client_echo(client, i, 100, i);
    }
    assert_int_equal(bare_read(client, 0, 32768, 2, FIXTURE_GUARD_NS), 0);
    client_expect_nothing(client);
    client_destroy(client);
}

TEST(bare_reads_outside_of_the_region)
{
    struct client *client = client_create(state);

    assert_int_equal(bare_read(client, FIXTURE_REGION - 512, 512, 4, FIXTURE_GUARD_NS), 0);
    assert_int_equal(bare_read(client, FIXTURE_REGION - 511, 512, 4, FIXTURE_GUARD_NS), OKV_EINVAL);
    assert_int_equal(bare_read(client, UINT64_MAX, 512, 4, FIXTURE_GUARD_NS), OKV_EINVAL);
    assert_int_equal(bare_read(client, 0, FIXTURE_REGION + 1, 4, FIXTURE_GUARD_NS), OKV_EINVAL);
    assert_int_equal(bare_read(client, 0, 512, 4, FIXTURE_GUARD_NS), 0);
    client_destroy(client);
}

#define TIMEOUTS 20u

/* How calls with short time-outs ended. */
struct bare_ends {
    unsigned served, timed_out;
};

/* The first call finds the endpoint of earlier ones, each later one makes its own after a time-out.
 */
static struct bare_ends bare_timeouts(struct client *client)
{
    struct bare_ends ends = {0};

    for (unsigned i = 0; i < TIMEOUTS; i++) {
        uint64_t begun = okv_clock_ns(), timeout_ns = i % 4 ? i % 2 : 5000000;
        int rc = bare_read(client, 0, 32768, BARE_COUNT, timeout_ns);
        bool is_early = okv_clock_ns() - begun < timeout_ns;
        ends.served += rc == 0;
        ends.timed_out += rc == OKV_ETIMEDOUT && !is_early;
    }
    return ends;
}

/* READs that nobody serves in time are ended, and later ones begin anew. */
TEST(bare_reads_that_take_too_long)
{
    struct client *client = client_create(state);
    struct bare_ends ends;

    assert_int_equal(bare_read(client, 0, 512, 4, FIXTURE_GUARD_NS), 0);
    if (client->conn->is_one_sided) {
        ends = bare_timeouts(client);
        assert_int_equal(ends.served + ends.timed_out, TIMEOUTS); /* a device may be that fast */
    } else {
        bool is_still = server_stand_still(client);
        ends = bare_timeouts(client);
        server_go_on(client);
        assert_true(is_still);
        assert_int_equal(ends.timed_out, TIMEOUTS);
    }
    assert_int_equal(bare_read(client, 0, 512, 4, FIXTURE_GUARD_NS), 0);
    client_read(client, 4099, 777, 1);
    client_destroy(client);
}

TEST(bare_reads_after_the_end)
{
    struct client *client = client_create(state);

    assert_int_equal(bare_read(client, 0, 512, 4, FIXTURE_GUARD_NS), 0);
    client->ops->close(client->conn);
    client_expect_closed(client);
    assert_int_equal(bare_read(client, 0, 512, 4, FIXTURE_GUARD_NS), OKV_EDISCONNECTED);
    client_destroy(client);
}

TEST_PROGRAM(fixture_setup_from_environment, fixture_teardown)

int main(void)
{
    const char *uri = getenv("OKV_TEST_URI");

    if (!uri || strncmp(uri, "ofi:", 4) != 0) {
        printf("skipped: OKV_TEST_URI is not of ofi\n");
        return 77;
    }
    return test_run();
}
