/* Part of hostile_ofi_test.c: floods, and processes that are killed. */
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/transport/common/pending.h"
#include "tests/end_to_end/hostile_ofi_list.h"
#include "tests/support/hostile_ofi.h"
#include "tests/support/pace.h"
#include "tests/support/sanitized.h"

/* ---- messages ---- */

#define FLOOD 20000u
#define CHECK_EVERY 2000u

static void nap(void)
{
    nanosleep(&(struct timespec){0, 100000}, NULL);
}

/* Posts `count` messages of `length` bytes, or fewer when the provider loses its connection. */
static unsigned flood(struct scene *scene, struct ofi_attacker *attacker, size_t length,
                      unsigned count)
{
    uint64_t end = pace_guard_end();
    unsigned sent = 0;

    while (sent < count) {
        ssize_t rc = ofi_attacker_post_send(attacker, length);
        if (rc && rc != -FI_EAGAIN)
            break;
        sent += rc == 0;
        if (rc == 0 && sent % CHECK_EVERY != 0)
            continue;
        ofi_attacker_progress(attacker);
        if (rc == 0 && scene)
            bystander_check(&scene->bystander);
        else
            nap();
        /* Nobody may take what is sent: the server has ended the connection, say. */
        if (okv_clock_ns() > end)
            break;
    }
    return sent;
}

TEST(floods_of_messages)
{
    struct scene *scene = *state;
    struct ofi_attacker *attacker = scene_join(scene);
    size_t length = scene_write_ping(attacker, 1, 0);
    assert_int_equal(flood(scene, attacker, length, FLOOD), FLOOD);
    scene_await_sessions(scene, 1);
    scene_leave(scene);
    scene_await_sessions(scene, 0);

    /* Good ones, without a receive for any answer. The server may end that. */
    attacker = scene_join(scene);
    flood(scene, attacker, scene_write_ping(attacker, 0, 0), FLOOD / 2);
    scene_leave(scene);
    scene_await_sessions(scene, 0);

    uint64_t before = bystander_stat(&scene->bystander, "closed_credit");
    attacker = scene_join(scene);
    scene_write_ping(attacker, 0, 0);
    length = ofi_attacker_write_header(attacker, 0, 0, okv_immediate(OKV_OP_PING, UINT16_MAX),
                                       OKV_REQUEST_HEADER);
    flood(scene, attacker, length, CHECK_EVERY);
    ofi_attacker_expect_end(attacker, "requests without credits");
    bystander_expect_stat(&scene->bystander, "closed_credit", before + 1);
    scene_leave(scene);
    scene_await_sessions(scene, 0);
    scene_expect_items(scene, "floods of messages");
}

/* ---- memory ---- */

static uint64_t resident_bytes(const struct scene *scene)
{
    char path[64], line[256];
    unsigned long kib = 0;

    snprintf(path, sizeof path, "/proc/%d/status", (int)scene->bystander.server.pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) && sscanf(line, "VmRSS: %lu", &kib) != 1)
        ;
    fclose(file);
    assert_int_not_equal(kib, 0);
    return (uint64_t)kib << 10;
}

/* A server that kept what came would grow by all of it. */
TEST(floods_take_little_memory)
{
    enum { LARGE = 8000, COUNT = 30000 };
    struct scene *scene = *state;
    if (OKV_SANITIZED) /* which keeps what is freed for a while */
        skip();
    struct ofi_attacker *attacker = scene_join(scene);
    size_t length = scene_write_ping(attacker, 1, 0) + LARGE;
    flood(scene, attacker, length, CHECK_EVERY); /* the receives have their pages */
    uint64_t before = resident_bytes(scene), most = before;
    for (unsigned sent = 0; sent < COUNT; sent += CHECK_EVERY) {
        assert_int_equal(flood(scene, attacker, length, CHECK_EVERY), CHECK_EVERY);
        uint64_t now = resident_bytes(scene);
        most = now > most ? now : most;
    }
    print_message("%u messages of %zu bytes: %llu KiB more\n", COUNT, length,
                  (unsigned long long)((most - before) >> 10));
    scene_leave(scene);
    scene_await_sessions(scene, 0);
    assert_in_range(most - before, 0, (uint64_t)COUNT * LARGE / 10);
}

/* ---- connections ---- */

/* To the worker's endpoint: with nothing to say, and with noise. */
TEST(a_flood_of_connections)
{
    enum { COUNT = 300 };
    struct scene *scene = *state;
    const struct ofi_place *place = &scene->reader.answer.body.welcome.place;
    int socks[COUNT];

    if (scene_is_over_verbs(scene)) {
        print_message("an endpoint over verbs has no TCP port\n");
        skip();
    }
    for (unsigned i = 0; i < COUNT; i++) {
        socks[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(socks[i] >= 0);
        assert_int_equal(
            connect(socks[i], (const struct sockaddr *)place->name, (socklen_t)place->name_length),
            0);
        if (i % 50 == 0)
            scene_expect_items(scene, "a flood of connections");
    }
    scene_expect_items(scene, "a flood of connections");
    for (unsigned i = 0; i < COUNT; i++)
        close(socks[i]);
    scene_expect_items(scene, "a flood of connections");
    struct ofi_attacker *other; /* the endpoint still lets others in */
    other = scene_join(scene);
    ofi_attacker_read(other, 0, 64);
    scene_leave(scene);
    scene_await_sessions(scene, 0);
}

/* More than may be pending, and more come while others connect. All clients come from one host;
 * pending_test covers who makes room. */
TEST(silent_control_connections)
{
    enum { COUNT = 2 * OKV_PENDING_MAX };
    struct scene *scene = *state;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *server;
    int socks[COUNT];

    assert_int_equal(getaddrinfo(scene->uri.host, scene->uri.port, &hints, &server), 0);
    for (unsigned i = 0; i < COUNT; i++) {
        socks[i] = socket(server->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(socks[i] >= 0);
        assert_int_equal(connect(socks[i], server->ai_addr, server->ai_addrlen), 0);
        if (i % (COUNT / 4) != COUNT / 4 - 1)
            continue;
        struct ofi_attacker *other = scene_join(scene);
        ofi_attacker_read(other, 0, 64);
        scene_leave(scene);
        bystander_check(&scene->bystander);
    }
    for (unsigned i = 0; i < COUNT; i++)
        close(socks[i]);
    freeaddrinfo(server);
    scene_await_sessions(scene, 0);
    scene_expect_items(scene, "silent connections");
}

/* ---- processes that are killed ---- */

#define BURST 200u

static void post_burst(struct ofi_attacker *attacker, const struct ofi_attack *attack)
{
    for (unsigned i = 0; i < BURST; i++) {
        ssize_t rc = ofi_attacker_post(attacker, attack);
        ofi_attacker_progress(attacker);
        if (rc && rc != -FI_EAGAIN)
            return;
    }
}

static void send_burst(struct ofi_attacker *attacker, uint64_t key_flip, size_t more)
{
    flood(NULL, attacker, scene_write_ping(attacker, key_flip, 0) + more, BURST);
}

static const struct {
    const char *how;
    enum ofi_verb verb;
    uint64_t length;
    int64_t offset;
} VERBS[] = {
    {"read", OFI_VERB_READ, 65536, 0},    {"read-behind", OFI_VERB_READ, 65536, 1 << 20},
    {"write", OFI_VERB_WRITE, 65536, 0},  {"inject", OFI_VERB_INJECT_WRITE, 8, 64},
    {"atomic", OFI_VERB_ATOMIC, 8, 4096}, {"data", OFI_VERB_WRITE_DATA, 0, 0},
    {"signal", OFI_VERB_SIGNAL, 0, 0},
};
#define VERB_COUNT (sizeof VERBS / sizeof *VERBS)
static const struct {
    const char *how;
    uint64_t key_flip;
    size_t more; /* bytes behind a PING */
} MESSAGES[] = {
    {"junk", 1, 5000},
    {"pings", 0, 0},
    {"long", 0, 12000},
    {"longer", 0, OFI_ATTACKER_BYTES / 4},
};
#define MESSAGE_COUNT (sizeof MESSAGES / sizeof *MESSAGES)

static void attack_once(struct ofi_attacker *attacker, const char *how)
{
    for (size_t i = 0; i < VERB_COUNT; i++) {
        const struct ofi_attack attack = {VERBS[i].verb, VERBS[i].length,
                                          attacker->region + (uint64_t)VERBS[i].offset,
                                          attacker->region_key};
        if (strcmp(how, VERBS[i].how) == 0 && ofi_attacker_can(attacker, &attack))
            post_burst(attacker, &attack);
    }
    for (size_t i = 0; i < MESSAGE_COUNT; i++)
        if (strcmp(how, MESSAGES[i].how) == 0)
            send_burst(attacker, MESSAGES[i].key_flip, MESSAGES[i].more);
}

void run_attacker(const char *how)
{
    struct ofi_attacker attacker;
    struct okv_uri uri;

    if (okv_uri_parse(getenv("OKV_TEST_URI"), &uri, NULL))
        _exit(1);
    for (;;) {
        if (scene_may_join(&uri, &attacker)) {
            for (unsigned i = 0; i < 3; i++)
                attack_once(&attacker, how);
            if (write(STDOUT_FILENO, "!", 1) != 1)
                _exit(1);
            attack_once(&attacker, how);
        }
        ofi_attacker_leave(&attacker);
    }
}

static pid_t start_attacker(const char *how, int *said)
{
    int out[2];

    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(out[1], STDOUT_FILENO);
        execl("/proc/self/exe", "hostile_ofi_test", how, (char *)NULL);
        _exit(1);
    }
    close(out[1]);
    *said = out[0];
    return pid;
}

#define ATTACKERS 5

/* Kills an attacker after so many rounds of its attack, in the midst of another one. False: it
 * crashed before. libfabric 1.17 sometimes does in the process whose connection is cut. */
static bool kill_attacker_once(struct scene *scene, const char *how, unsigned rounds)
{
    unsigned made = 0;
    char word;
    int said;
    pid_t pid = start_attacker(how, &said);

    print_message("%s\n", how);

    while (made < rounds) {
        struct pollfd pollfd = {.fd = said, .events = POLLIN};
        if (poll(&pollfd, 1, PACE_GUARD_MS) <= 0)
            fail_msg("the attacker \"%s\" does not attack", how);
        if (read(said, &word, 1) != 1)
            break;
        bystander_check(&scene->bystander);
        made++;
    }
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(said);
    scene_await_sessions(scene, 0);
    scene_expect_items(scene, how);
    return made == rounds;
}

static void kill_attacker(struct scene *scene, const char *how, unsigned rounds)
{
    for (unsigned i = 0; i < ATTACKERS; i++)
        if (kill_attacker_once(scene, how, rounds))
            return;
    fail_msg("%d attackers \"%s\" have crashed", ATTACKERS, how);
}

/* Over verbs rxm of libfabric 1.17 serves atomics in the server's process, and finds the connection
 * of one by an index in the packet. When its sender is gone, that is nobody's or another's:
 * docs/fabrics.md. */
TEST(attackers_that_are_killed)
{
    struct scene *scene = *state;

    for (unsigned rounds = 1; rounds <= 2; rounds++) {
        for (size_t i = 0; i < VERB_COUNT; i++)
            if (VERBS[i].verb != OFI_VERB_ATOMIC || !scene_is_over_verbs(scene))
                kill_attacker(scene, VERBS[i].how, rounds);
        for (size_t i = 0; i < MESSAGE_COUNT; i++)
            if (scene_may_send(scene, MESSAGES[i].more))
                kill_attacker(scene, MESSAGES[i].how, rounds);
    }
}

/* ---- the client's side ---- */

TEST(a_descriptor_in_a_set_of_the_program)
{
    struct scene *scene = *state;
    okv *handle = scene->bystander.handle;
    struct epoll_event event = {.events = EPOLLIN};
    int set = epoll_create1(EPOLL_CLOEXEC);
    struct okv_result result;
    uint8_t value[64];

    assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, okv_fd(handle), &event), 0);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(okv_submit_get(handle, "item-1", 6, value, sizeof value, i), OKV_OK);
        for (;;) {
            if (okv_poll(handle, &result, 1))
                break;
            assert_int_equal(okv_arm(handle), OKV_OK);
            if (okv_poll(handle, &result, 1))
                break;
            assert_int_equal(epoll_wait(set, &event, 1, PACE_GUARD_MS), 1);
        }
        assert_int_equal(result.status, OKV_OK);
        assert_int_equal(result.tag, i);
    }
    close(set);
}

/* Each get ends with the right value, or an error that says what happened. */
static void expect_ends(okv *handle, const uint8_t *values, size_t stride)
{
    uint64_t end = pace_guard_end();
    struct okv_result results[16];

    while (okv_pending(handle) > 0) {
        assert_true(okv_clock_ns() < end);
        okv_wait(handle, 100);
        int count = okv_poll(handle, results, 16);
        assert_true(count >= 0);
        for (int i = 0; i < count; i++) {
            const uint8_t *value = values + results[i].tag * stride;
            if (results[i].status == OKV_ETIMEDOUT)
                continue;
            assert_int_equal(results[i].status, OKV_OK);
            for (size_t at = 0; at < results[i].length; at++)
                assert_int_equal(value[at], results[i].tag * 10);
        }
    }
}

void a_server_that_is_killed_amid_reads(void **state)
{
    enum { HANDLES = 4, GETS = 10, SIZE = 8192 };
    const struct okv_options options = {.timeout_ms = 1000};
    struct scene *scene = *state;
    okv *handles[HANDLES];
    uint8_t *values = calloc((size_t)HANDLES * GETS, SIZE);
    char keys[GETS][16]; /* theirs until the gets end */

    assert_non_null(values);
    for (unsigned i = 0; i < HANDLES; i++)
        handles[i] = server_connect(&scene->bystander.server, &options);
    for (unsigned i = 0; i < HANDLES; i++) {
        for (unsigned j = 0; j < GETS; j++) {
            int length = snprintf(keys[j], sizeof keys[j], "item-%u", j * 10);
            assert_int_equal(okv_submit_get(handles[i], keys[j], (size_t)length,
                                            values + (i * GETS + j) * SIZE, SIZE, j),
                             OKV_OK);
        }
    }
    server_signal(&scene->bystander.server, SIGKILL);
    for (unsigned i = 0; i < HANDLES; i++)
        expect_ends(handles[i], values + (size_t)i * GETS * SIZE, SIZE);
    ofi_attacker_leave(&scene->reader);
    server_start(&scene->bystander.server, NULL);
    for (unsigned i = 0; i < HANDLES; i++) {
        uint64_t end = pace_guard_end();
        int rc;
        while ((rc = okv_ping(handles[i])) == OKV_ETIMEDOUT)
            assert_true(okv_clock_ns() < end);
        assert_int_equal(rc, OKV_OK);
        okv_close(&handles[i]);
    }
    free(values);
    okv_close(&scene->bystander.handle);
    assert_int_equal(server_stop(&scene->bystander.server), 0);
    free(scene);
}
