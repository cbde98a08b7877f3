/* Bare clients that send and write what no transport would. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/transport/common/pending.h"
#include "shared/transport/local/local.h"
#include "tests/support/hostile_client.h"
#include "tests/support/hostile_socket.h"
#include "tests/support/lingering.h"
#include "tests/support/pace.h"
#include "tests/support/random.h"

#define NOBODY 65534
#define SOON_NS UINT64_C(1500000000) /* half of what a silent client gets */
#define CLOSED_MALFORMED "closed_malformed"
#define CLOSED_CREDIT "closed_credit"

/* A test that waits longer hangs. */

/* The server counts one more client that makes no sense, and goes on. */
static void expect_malformed(struct bystander *bystander, struct bare_client *client,
                             uint64_t before)
{
    hostile_socket_expect_end(client);
    bystander_expect_stat(bystander, CLOSED_MALFORMED, before + 1);
    bystander_expect_stat(bystander, "sessions", 1);
    bystander_check(bystander);
}

TEST(short_packets)
{
    struct bystander *bystander = *state;
    struct bare_client client;

    for (size_t length = 0; length < 4; length++) {
        hostile_socket_join(&client, &bystander->server);
        uint64_t before = bystander_stat(bystander, CLOSED_MALFORMED);
        hostile_socket_send(&client, "\1\2\3", length);
        /* Nobody can tell an empty packet from the end of the stream. */
        if (length > 0)
            expect_malformed(bystander, &client, before);
        else
            hostile_socket_expect_end(&client);
    }
}

TEST(large_packets)
{
    enum { LARGE = 200 * 1024 };
    struct bystander *bystander = *state;
    struct bare_client client;

    char *bytes = calloc(1, LARGE);
    hostile_socket_connect(&client, &bystander->server); /* as a hello */
    hostile_socket_send(&client, bytes, LARGE);
    hostile_socket_expect_end(&client);
    bystander_check(bystander);

    uint64_t before = bystander_stat(bystander, CLOSED_MALFORMED);
    hostile_socket_join(&client, &bystander->server); /* as a bell */
    hostile_socket_send(&client, bytes, LARGE);
    expect_malformed(bystander, &client, before);
    free(bytes);
}

TEST(first_packets_that_are_no_hello)
{
    struct bystander *bystander = *state;
    struct bare_client client;

    for (size_t length = 0; length < 4; length++) {
        hostile_socket_connect(&client, &bystander->server);
        hostile_socket_send(&client, "okv", length);
        hostile_socket_expect_end(&client);
    }
    hostile_socket_connect(&client, &bystander->server);
    hostile_socket_send(&client, "GET / HTTP/1.1\r\n\r\n", 18);
    hostile_socket_expect_end(&client);
    bystander_check(bystander);
    assert_int_equal(bystander_stat(bystander, "sessions"), 1);
}

/* Who says nothing holds nobody up and is sent away in the end, or when there are too many. */
TEST(silent_connections)
{
    enum { SILENT = 2 * OKV_PENDING_MAX };
    struct bystander *bystander = *state;
    struct bare_client clients[SILENT];

    for (int i = 0; i < SILENT; i++) {
        hostile_socket_connect(&clients[i], &bystander->server);
        if (i != 0 && i != SILENT - 1)
            continue;
        okv *other = server_connect(&bystander->server, NULL);
        assert_int_equal(okv_ping(other), OKV_OK);
        okv_close(&other);
        bystander_check(bystander);
    }
    for (int i = 0; i < SILENT; i++)
        hostile_socket_expect_end(&clients[i]);
    bystander_expect_stat(bystander, "sessions", 1);
    bystander_check(bystander);
}

/* The process of another user, which connects and says nothing until it is killed. */
static _Noreturn void stay_silent(const struct server_process *server, unsigned count, int said)
{
    struct bare_client client;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (setresuid(NOBODY, NOBODY, NOBODY))
        _exit(1);
    while (count-- > 0)
        bare_connect(&client, server->uri + strlen("local://"));
    if (write(said, "!", 1) == 1)
        pause();
    _exit(1);
}

static pid_t start_silent(const struct server_process *server, unsigned count)
{
    char word;
    int said[2];

    assert_int_equal(pipe(said), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        stay_silent(server, count, said[1]);
    close(said[1]);
    assert_int_equal(read(said[0], &word, 1), 1);
    close(said[0]);
    return pid;
}

/* False: it took so long that the server may send the slow one away for its silence. */
static bool flood_beside(struct bystander *bystander, struct bare_client *slow)
{
    uint64_t begin = okv_clock_ns();
    uint8_t welcome[OKV_WELCOME_MAX];
    struct okv_wire_hello hello;

    hostile_socket_connect(slow, &bystander->server);
    pid_t pid = start_silent(&bystander->server, 2 * OKV_PENDING_MAX);
    bool is_in_time = okv_clock_ns() - begin < SOON_NS;
    if (is_in_time) {
        hostile_hello(&hello);
        bare_hello(slow, &hello, sizeof hello);
        assert_int_equal(bare_take_welcome(slow, welcome, sizeof welcome),
                         sizeof(struct okv_wire_welcome));
        bystander_check(bystander);
    }
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    bare_close(slow);
    return is_in_time;
}

/* Its own connections make room for more of them: who came before, and is slow, is served. */
TEST(silent_connections_of_another_user)
{
    struct bystander *bystander = *state;
    uint64_t end = pace_guard_end();
    struct bare_client slow;

    if (geteuid() != 0)
        skip(); /* it cannot be another user */
    assert_int_equal(chmod(bystander->server.directory, 0711), 0);
    assert_int_equal(chmod(bystander->server.uri + strlen("local://"), 0666), 0);
    while (!flood_beside(bystander, &slow))
        if (okv_clock_ns() > end)
            skip();
    bystander_expect_stat(bystander, "sessions", 1);
}

/* Sends GETs of `key` and never takes a reply, until the server ends the connection. */
static unsigned ask_without_listening(struct bare_client *client, struct bystander *bystander,
                                      const char *key)
{
    enum { MOST = 10000 };
    struct okv_request_message get = {.opcode = OKV_OP_GET, .key = (const uint8_t *)key};
    uint64_t end = pace_guard_end();
    uint8_t bytes[256];
    unsigned sent = 0;

    get.key_length = (uint32_t)strlen(key);
    while (!bare_has_ended(client)) {
        get.sequence = sent + 1;
        uint32_t length = okv_request_encode(&get, bytes);
        assert_true(sent < MOST && okv_clock_ns() < end);
        if (bare_try_send(client, bytes, length, okv_immediate(OKV_OP_GET, 0)) && ++sent % 16)
            continue;
        bystander_check(bystander);
    }
    return sent;
}

/* Its replies fill the ring, then the send buffers, then its credits: who has
 * used them up and asks on is disconnected, and nobody waits meanwhile. */
TEST(replies_that_nobody_takes)
{
    struct bystander *bystander = *state;
    uint64_t before = bystander_stat(bystander, CLOSED_CREDIT);
    static const uint8_t value[8192];
    struct bare_client client;

    assert_int_equal(okv_put(bystander->handle, "large", 5, value, sizeof value, NULL), OKV_OK);
    hostile_socket_join(&client, &bystander->server);
    unsigned sent = ask_without_listening(&client, bystander, "large");
    print_message("disconnected after %u requests without taking a reply\n", sent);
    bare_close(&client);
    bystander_expect_stat(bystander, CLOSED_CREDIT, before + 1);
    bystander_expect_stat(bystander, "sessions", 1);
    bystander_check(bystander);
}

/* ---- rings: what a client may write there ---- */

/* A new client's ring, spoilt; the server ends the connection over it. */
static void expect_end_over(struct bystander *bystander, void (*spoil)(struct okv_local_ring *))
{
    uint64_t before = bystander_stat(bystander, CLOSED_MALFORMED);
    struct bare_client client;

    hostile_socket_join(&client, &bystander->server);
    spoil(&client.ring);
    bare_bell(&client);
    expect_malformed(bystander, &client, before);
}

static void publish_half_a_word(struct okv_local_ring *ring)
{
    atomic_store(&ring->own->published, 4);
}

static void publish_too_much(struct okv_local_ring *ring)
{
    atomic_store(&ring->own->published, ring->capacity + 8);
}

static void publish_backwards(struct okv_local_ring *ring)
{
    atomic_store(&ring->own->published, UINT32_MAX - 7);
}

static void publish_one_longer_than_it_is(struct okv_local_ring *ring)
{
    *(volatile uint32_t *)(void *)ring->out = 64;
    atomic_store(&ring->own->published, 64);
}

static void publish_one_longer_than_a_slot(struct okv_local_ring *ring)
{
    *(volatile uint32_t *)(void *)ring->out = OKV_SLOT_SIZE_DEFAULT + 1;
    atomic_store(&ring->own->published, ring->capacity);
}

static void publish_one_without_end(struct okv_local_ring *ring)
{
    *(volatile uint32_t *)(void *)ring->out = UINT32_MAX;
    atomic_store(&ring->own->published, ring->capacity);
}

TEST(rings_that_make_no_sense)
{
    static void (*const spoils[])(struct okv_local_ring *) = {
        publish_half_a_word,
        publish_too_much,
        publish_backwards,
        publish_one_longer_than_it_is,
        publish_one_longer_than_a_slot,
        publish_one_without_end,
    };

    for (size_t i = 0; i < sizeof spoils / sizeof *spoils; i++)
        expect_end_over(*state, spoils[i]);
}

/* All of it, again and again, while the server serves: the connection may end, and nothing else. */
TEST(rings_of_junk)
{
    enum { ROUNDS = 200, WRITES = 2000 };
    struct bystander *bystander = *state;
    uint64_t random = 3;
    struct bare_client client;

    for (unsigned round = 0; round < ROUNDS; round++) {
        hostile_socket_join(&client, &bystander->server);
        volatile uint32_t *words = (void *)client.ring.page;
        size_t count = (OKV_LOCAL_RING_BYTES + 2 * (size_t)client.ring.capacity) / 4;
        for (unsigned i = 0; i < WRITES; i++)
            words[random_below(&random, round & 1 ? 128 : count)] =
                (uint32_t)(random_next(&random) >> random_below(&random, 64)) & ~7u;
        send(client.sock, "okvB", 4, MSG_NOSIGNAL); /* unless it has ended already */
        if (round % 16 == 0)
            bystander_check(bystander);
        bare_close(&client);
    }
    bystander_expect_stat(bystander, "sessions", 1);
    bystander_expect_accounts(bystander);
    bystander_check(bystander);
}

/* A load from a page that somebody is making a hole of waits for him. */
TEST(rings_without_holes)
{
    struct bystander *bystander = *state;
    struct bare_client client;

    hostile_socket_join(&client, &bystander->server);
    size_t size = OKV_LOCAL_RING_BYTES + 2 * (size_t)client.ring.capacity;
    assert_int_equal(madvise(client.ring.page, size, MADV_REMOVE), -1);
    assert_int_equal(errno, EPERM);
    bare_close(&client);
    bystander_check(bystander);
}

/* The server looks at no rings in which there may be holes. */
TEST(a_client_that_does_not_seal)
{
    struct bystander *bystander = *state;
    struct okv_local_ring ring;
    struct bare_client client;
    int rings;

    hostile_socket_connect(&client, &bystander->server);
    hostile_socket_ask(&client, &rings);
    bare_bell(&client);
    bare_expect_end(&client);
    assert_int_equal(okv_local_ring_map(rings, &ring), 0); /* now nobody looks any more */
    assert_true(ring.page->server.wants == OKV_LOCAL_RING_MESSAGES);
    okv_local_ring_unmap(&ring);
    close(rings);
    bare_close(&client);
    bystander_expect_stat(bystander, "sessions", 1);
    bystander_check(bystander);
}

/* Every reply finds a client that says that it sleeps, and never takes a bell off its socket. */
TEST(a_client_that_always_sleeps)
{
    enum { PINGS = 2000 };
    struct okv_request_message ping = {.opcode = OKV_OP_PING};
    struct bystander *bystander = *state;
    uint8_t bytes[256];
    uint32_t immediate;
    struct bare_client client;

    hostile_socket_join(&client, &bystander->server);
    for (unsigned i = 0; i < PINGS; i++) {
        ping.sequence = i + 1;
        uint32_t length = okv_request_encode(&ping, bytes);
        okv_local_ring_wait(&client.ring);
        bare_send(&client, bytes, length, okv_immediate(OKV_OP_PING, 0));
        bare_receive(&client, bytes, sizeof bytes, &immediate);
        if (i % 64 == 0)
            bystander_check(bystander);
    }
    bare_close(&client);
    bystander_expect_stat(bystander, "sessions", 1);
    bystander_check(bystander);
}

/* ---- advertised buffers: what a client may say of them ---- */

/* A PUT of `length` bytes that are to be READ by rendezvous by `key`; returns the status of the
 * reply. */
static int put_by_rendezvous(struct bare_client *client, uint32_t key, uint32_t length)
{
    const struct okv_request_message put = {.opcode = OKV_OP_PUT,
                                            .sequence = okv_clock_ns(), /* ever higher */
                                            .flags = OKV_REQUEST_RENDEZVOUS,
                                            .key = (const uint8_t *)"victim",
                                            .key_length = 6,
                                            .value_length = length,
                                            .rendezvous_key = key};
    uint8_t bytes[256];
    struct okv_reply_message reply;
    uint32_t immediate;

    bare_send(client, bytes, okv_request_encode(&put, bytes), okv_immediate(OKV_OP_PUT, 0));
    uint32_t got = bare_receive(client, bytes, sizeof bytes, &immediate);
    assert_int_equal(okv_reply_decode(immediate, bytes, got, &reply), 0);
    return reply.status;
}

static void write_place(struct bare_client *client, uint32_t key, uint32_t page, uint32_t size)
{
    struct okv_local_advert_slot *place = &client->ring.page->adverts[key % OKV_LOCAL_ADVERTS];

    atomic_store(&place->size, size);
    atomic_store(&place->page, page);
    atomic_store(&place->key, key);
}

/* One that the server can READ, and what else its place may say. */
TEST(buffers_that_lie_nowhere)
{
    enum { SIZE = 50000, PAGES = (int)(OKV_LOCAL_VALUES_BYTES / OKV_LOCAL_PAGE) };
    static const struct {
        uint32_t key, page, size;
        int status;
    } cases[] = {
        {1u << 16, 0, SIZE, OKV_OK},
        {2u << 16, PAGES - 13, SIZE, OKV_OK},
        {3u << 16, PAGES - 12, SIZE, OKV_ERENDEZVOUS},
        {4u << 16, PAGES, SIZE, OKV_ERENDEZVOUS},
        {5u << 16, UINT32_MAX, UINT32_MAX, OKV_ERENDEZVOUS},
        {6u << 16, 0, SIZE - 1, OKV_ERENDEZVOUS},
        {7u << 16 | (OKV_LOCAL_ADVERTS - 1), 0, SIZE, OKV_OK},
        {8u << 16 | OKV_LOCAL_ADVERTS, 0, SIZE, OKV_ERENDEZVOUS},
        {UINT32_MAX, 0, SIZE, OKV_ERENDEZVOUS},
        {0, 0, SIZE, OKV_ERENDEZVOUS},
    };
    struct bystander *bystander = *state;
    struct bare_client client;

    assert_int_equal(okv_put(bystander->handle, "victim", 6, "v", 1, NULL), OKV_OK);
    struct bystander_holdings before = bystander_holdings(bystander);
    hostile_socket_join(&client, &bystander->server);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_place(&client, cases[i].key, cases[i].page, cases[i].size);
        int status = put_by_rendezvous(&client, cases[i].key, SIZE);
        if (status != cases[i].status)
            fail_msg("case %zu: %s", i, okv_errname(status));
        bystander_check(bystander);
        assert_int_equal(okv_put(bystander->handle, "victim", 6, "v", 1, NULL), OKV_OK);
    }
    bare_close(&client);
    bystander_expect_stat(bystander, "sessions", 1);
    bystander_expect_stat(bystander, "extent_bytes", before.extent_bytes);
    bystander_expect_accounts(bystander);
    bystander_check(bystander);
}

/* ---- descriptors that nobody asked for ---- */

/* Where the kernel takes them the server ends the connection. Their last close takes an hour. */
TEST(descriptors_hold_nobody_up)
{
    enum { CLIENTS = 16 };
    struct bystander *bystander = *state;
    struct lingering lingering;
    struct bare_client client;

    hang_guard(true);
    for (unsigned i = 0; i < CLIENTS; i++) {
        if (i % 2)
            hostile_socket_join(&client, &bystander->server);
        else
            hostile_socket_connect(&client, &bystander->server);
        lingering_open(&lingering);
        bool was_taken = descriptors_send(client.sock, "okvB", 4, &lingering.fd, 1);
        if (was_taken)
            lingering_leave(&lingering);
        bystander_check(bystander);
        bare_close(&client);
        lingering_end(&lingering);
    }
    hang_guard(false);
    bystander_expect_stat(bystander, "sessions", 1);
    bystander_check(bystander);
}

TEST_PROGRAM(bystander_setup, bystander_teardown)

int main(void)
{
    if (!server_is_local()) {
        printf("skipped: a Unix socket needs a local: URI in OKV_TEST_URI, or none\n");
        return 77;
    }
    return test_run();
}
