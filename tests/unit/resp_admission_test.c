/*
 * Who gets the places of a server with users, of clients of Redis: not strangers, who are silent
 * until they log in, and make room for each other.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "server/clients/admission.h"
#include "server/identity/authority.h"
#include "server/resp/resp.h"
#include "server/resp/run/shared.h"
#include "shared/identity/proof.h"
#include "shared/identity/user_key.h"
#include "tests/support/no_descriptors.h"
#include "tests/support/pace.h"
#include "tests/support/resp_talk.h"
#include "tests/support/sanitized.h"
#include "tests/support/users_file.h"

#define PLACES 8u
#define KEPT 2u /* a quarter of them */
#define SILENT 4u
#define FLOOD 20u
#define HONEST "127.0.0.3"
#define HOSTILE "127.0.0.2"
#define WRONG "AUTH alice wrong\r\n"
#define WRONGPASS "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
#define MASK 0x5a
#define WHOLE 15u /* bytes from the begin of a password on: with the end of its line */
#define NO_PLACE "-ERR max number of clients reached\r\n"

static const struct okv_store_params params = {
    .length = 8u << 20, .bucket_size = 256, .extra_reads = 1, .max_value = 1u << 20};

static struct users_file file;

static bool has_ipv6(void)
{
    const struct sockaddr_in6 own = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool has = fd >= 0 && bind(fd, (const struct sockaddr *)&own, sizeof own) == 0;

    if (fd >= 0)
        close(fd);
    return has;
}

static void configure(struct okv_server *server)
{
    struct okv_config *config = &server->config;

    users_file_open(&file);
    users_file_write(&file, "[alice]\nkey = " KEY_A "\ndefault = read, write\n"
                            "[bob]\nkey = " KEY_B "\ndefault = read, write\n"
                            "[root]\nkey = " KEY_C "\nsecond = read, admin\n");
    config->users = file.users;
    config->max_clients = PLACES;
    config->max_silent = SILENT;
    config->max_clients_per_user = 0;
    config->max_clients_per_address = OKV_CLIENTS_HALF;
    config->resp[0] = (struct okv_uri){.host = "127.0.0.1", .port = "0"};
    config->resp[1] = (struct okv_uri){.host = "::1", .port = "0"};
    config->resp_count = has_ipv6() ? 2 : 1;
    for (unsigned i = 0; i < server->database_count; i++)
        server->database_names[i] = config->databases[i].name;
    assert_int_equal(okv_identity_init(), 0);
    assert_int_equal(okv_authority_init(server->authority, config->users, server->database_names,
                                        server->database_count, NULL),
                     0);
    const struct okv_admission_limits limits = okv_admission_limits_of(config);
    assert_int_equal(limits.kept, KEPT);
    assert_int_equal(okv_admission_init(server->admission, &limits), 0);
}

static int open_server(void **state)
{
    (void)state;
    resp_fixture_open_with(&fixture, &params, configure);
    return 0;
}

static int close_server(void **state)
{
    struct okv_server *server = fixture.core.server;

    (void)state;
    okv_resp_end_all(fixture.worker.resp);
    assert_int_equal(server->admission->clients, 0);
    assert_int_equal(server->resp_shared->door.crowd.count, 0);
    assert_int_equal(server->resp_shared->door.leaving, 0);
    okv_admission_fini(server->admission);
    okv_authority_fini(server->authority);
    resp_fixture_close(&fixture);
    users_file_close(&file);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, open_server, close_server)

/* Nobody has accepted it yet. */
static int connect_unaccepted(const char *from)
{
    struct okv_resp_listener *listener = &fixture.core.server->resp_shared->listeners[0];
    struct sockaddr_in own = {.sin_family = AF_INET}, to;
    socklen_t length = sizeof to;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(inet_pton(AF_INET, from, &own.sin_addr), 1);
    assert_int_equal(bind(fd, (const struct sockaddr *)&own, sizeof own), 0);
    assert_int_equal(getsockname(listener->fd, (struct sockaddr *)&to, &length), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void accept_clients(void)
{
    const struct okv_socket_listener *listener = &fixture.core.server->sockets[0];

    listener->admit(fixture.core.server, listener->listener);
}

/* The worker does not serve it yet. */
static int connect_unserved(const char *from)
{
    int fd = connect_unaccepted(from);

    accept_clients();
    return fd;
}

static int connect_from(const char *from)
{
    int fd = connect_unserved(from);

    pass();
    return fd;
}

static void say_login(int fd, const char *user, const char *key_text)
{
    char password[OKV_PASSWORD_TEXT], line[128];
    struct okv_user_key *key;

    assert_int_equal(okv_user_key_parse(key_text, &key), 0);
    okv_user_key_password(key, password);
    okv_user_key_destroy(key);
    snprintf(line, sizeof line, "AUTH %s %s\r\n", user, password);
    say(fd, line);
}

static int log_in(const char *from, const char *user, const char *key)
{
    int fd = connect_from(from);

    say_login(fd, user, key);
    hear(fd, "+OK\r\n");
    return fd;
}

static void expect_no_place(const char *user, const char *key)
{
    int fd = connect_from(HONEST);

    say_login(fd, user, key);
    hear(fd, NO_PLACE);
    hear_end(fd);
}

static void close_all(const int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        close(fds[i]);
}

static bool is_open(int fd)
{
    uint8_t byte;

    for (unsigned i = 0; i < 10; i++)
        pass();
    return recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

FIXTURE_TEST(strangers_take_no_place)
{
    int strangers[FLOOD], users[PLACES - KEPT];

    for (unsigned i = 0; i < FLOOD; i++)
        strangers[i] = connect_from(HOSTILE);
    assert_int_equal(fixture.core.server->admission->clients, 0);
    for (unsigned i = 0; i < PLACES - KEPT; i++)
        users[i] = log_in(HONEST, "alice", KEY_A);
    assert_int_equal(fixture.core.server->admission->clients, PLACES - KEPT);
    close_all(strangers, FLOOD);
    close_all(users, PLACES - KEPT);
}

/* Those of their address, oldest first. */
FIXTURE_TEST(strangers_crowd_out_each_other)
{
    int strangers[FLOOD], honest = connect_from(HONEST);

    for (unsigned i = 0; i < FLOOD; i++)
        strangers[i] = connect_from(HOSTILE);
    for (unsigned i = 0; i < FLOOD; i++)
        assert_int_equal(is_open(strangers[i]), i >= FLOOD - (SILENT - 1));
    assert_int_equal(atomic_load(&fixture.core.server->stats.closed_crowded_out),
                     FLOOD - (SILENT - 1));
    say_login(honest, "alice", KEY_A);
    hear(honest, "+OK\r\n");
    close(honest);
    close_all(strangers, FLOOD);
}

/* While the worker is busy, descriptors of those that made room are open still. */
FIXTURE_TEST(there_are_at_most_twice_as_many_strangers)
{
    const struct okv_resp_door *door = &fixture.core.server->resp_shared->door;
    int strangers[FLOOD];

    for (unsigned i = 0; i < FLOOD; i++) {
        strangers[i] = connect_unserved(HOSTILE);
        assert_in_range(door->crowd.count, 1, SILENT);
        assert_in_range(door->leaving, 0, SILENT);
    }
    assert_int_equal(atomic_load(&fixture.core.server->stats.rejected_resources),
                     FLOOD - 2 * SILENT);
    pass();
    int late = log_in(HONEST, "alice", KEY_A);
    close(late);
    close_all(strangers, FLOOD);
}

/* Of whichever database, as it may select another one. */
FIXTURE_TEST(the_last_places_are_for_administrators)
{
    int users[PLACES];

    for (unsigned i = 0; i < PLACES - KEPT; i++)
        users[i] = log_in(HONEST, i % 2 ? "alice" : "bob", i % 2 ? KEY_A : KEY_B);
    expect_no_place("alice", KEY_A);
    for (unsigned i = PLACES - KEPT; i < PLACES; i++)
        users[i] = log_in(HONEST, "root", KEY_C);
    expect_no_place("root", KEY_C);
    assert_int_equal(atomic_load(&fixture.core.server->stats.rejected_busy), 2);
    close_all(users, PLACES);
}

FIXTURE_TEST(a_place_ends_with_the_log_in)
{
    struct okv_server *server = fixture.core.server;
    int fd = log_in(HONEST, "alice", KEY_A);

    say_login(fd, "bob", KEY_B);
    hear(fd, "+OK\r\n");
    assert_int_equal(server->admission->clients, 1);
    assert_int_equal(server->resp_shared->door.crowd.count, 0);
    say(fd, "RESET\r\n");
    hear(fd, "+RESET\r\n");
    assert_int_equal(server->admission->clients, 0);
    assert_int_equal(server->resp_shared->door.crowd.count, 1);
    say_login(fd, "alice", KEY_A);
    hear(fd, "+OK\r\n");
    assert_int_equal(server->admission->clients, 1);
    close(fd);
}

/* ---- who guesses ---- */

static void guess(const char *from)
{
    int fd = connect_from(from);

    say(fd, WRONG WRONG WRONG WRONG WRONG "PING\r\n");
    for (unsigned i = 0; i < OKV_RESP_REFUSALS_MAX / OKV_RESP_REFUSED_PASSWORD; i++)
        hear(fd, WRONGPASS);
    hear_end(fd);
}

FIXTURE_TEST(a_few_wrong_passwords_end_the_connection)
{
    guess(HOSTILE);
    int fd = log_in(HONEST, "alice", KEY_A); /* this one knows better, and may guess no more */
    say(fd, WRONG WRONG WRONG WRONG);
    for (unsigned i = 0; i < 4; i++)
        hear(fd, WRONGPASS);
    hear_end(fd);
}

FIXTURE_TEST(who_says_much_before_the_log_in_ends)
{
    int fd = connect_from(HOSTILE);

    for (unsigned i = 0; i < OKV_RESP_REFUSALS_MAX / 2; i++)
        say(fd, "PING\r\nHELLO 3\r\n");
    for (unsigned i = 0; i < OKV_RESP_REFUSALS_MAX / 2; i++) {
        uint8_t rest[sizeof "-NOAUTH HELLO must be called with the client already authenticated, "
                            "otherwise the HELLO <proto> AUTH <user> <pass> option can be used to "
                            "authenticate the client and select the RESP protocol version at the "
                            "same time\r\n" -
                     1];
        hear(fd, "-NOAUTH Authentication required.\r\n");
        hear_bytes(fd, rest, sizeof rest);
    }
    hear_end(fd);
}

/* Without the guesses the oldest one would have to leave. */
FIXTURE_TEST(wrong_passwords_cost_the_address)
{
    int honest[SILENT - 1], hostile;

    for (unsigned i = 0; i < SILENT - 1; i++)
        honest[i] = connect_from(HONEST);
    for (unsigned i = 0; i < SILENT; i++)
        guess(HOSTILE);
    hostile = connect_from(HOSTILE);
    int last = connect_from("127.0.0.4");
    assert_false(is_open(hostile));
    for (unsigned i = 0; i < SILENT - 1; i++)
        assert_true(is_open(honest[i]));
    close(hostile);
    close(last);
    close_all(honest, SILENT - 1);
}

/* As long as a client may be silent. */
FIXTURE_TEST(an_address_pays_for_a_while)
{
    struct okv_server *server = fixture.core.server;
    const struct okv_resp_door *door = &server->resp_shared->door;

    server->config.hello_ms = 1;
    guess(HOSTILE);
    usleep(2000);
    int fd = connect_from(HONEST);
    assert_int_equal(door->crowd.gone, 0);
    close(fd);
    server->config.hello_ms = 600000;
    for (unsigned i = 0; i < 2 * SILENT; i++)
        guess(HOSTILE);
    assert_int_equal(door->crowd.gone, SILENT); /* the others are forgotten */
}

/* ---- passwords in memory ---- */

/* One that occurs nowhere else, and here in disguise only. */
static const uint8_t disguised[] = {'x' ^ MASK, 'Q' ^ MASK, '7' ^ MASK, 'k' ^ MASK, 'Z' ^ MASK,
                                    'w' ^ MASK, '9' ^ MASK, 'p' ^ MASK, 'L' ^ MASK, 't' ^ MASK};

/* Says the line with the password in place of '%', and forgets it. The first piece ends `cut` bytes
 * after its begin. */
static void say_password(int fd, const char *line, size_t cut)
{
    char text[8192];
    const char *at = strchr(line, '%');
    size_t before = (size_t)(at - line), after = strlen(at + 1);
    size_t all = before + sizeof disguised + after, split = before + cut < all ? before + cut : all;

    assert_true(all <= sizeof text);
    memcpy(text, line, before);
    for (size_t i = 0; i < sizeof disguised; i++)
        text[before + i] = (char)(disguised[i] ^ MASK);
    memcpy(text + before + sizeof disguised, at + 1, after);
    assert_int_equal(send(fd, text, split, MSG_NOSIGNAL), split);
    pass();
    assert_int_equal(send(fd, text + split, all - split, MSG_NOSIGNAL), all - split);
    explicit_bzero(text, sizeof text);
    for (unsigned i = 0; i < 5; i++)
        pass();
}

static bool has_password(const volatile uint8_t *from, const volatile uint8_t *to)
{
    for (; from + sizeof disguised <= to; from++) {
        size_t i = 0;
        while (i < sizeof disguised && (from[i] ^ MASK) == disguised[i])
            i++;
        if (i == sizeof disguised)
            return true;
    }
    return false;
}

/* What a core dump of this process would have. */
static void expect_no_password(const char *line, size_t cut)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char text[512], rights[8];
    unsigned long from, to;

    assert_non_null(maps);
    while (fgets(text, sizeof text, maps)) {
        assert_int_equal(sscanf(text, "%lx-%lx %7s", &from, &to, rights), 3);
        if (strncmp(rights, "rw", 2) == 0 &&
            has_password((const volatile uint8_t *)from, (const volatile uint8_t *)to))
            fail_msg("cut at %zu, a copy remains of: %s", cut, line);
    }
    fclose(maps);
}

FIXTURE_TEST(no_password_stays_in_memory)
{
    static const char *const lines[] = {
        "AUTH alice %\r\n",
        "auth \"%\"\r\n",
        "*3\r\n$4\r\nAUTH\r\n$5\r\nalice\r\n$10\r\n%\r\n",
        "*5\r\n$5\r\nhello\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$5\r\nalice\r\n$10\r\n%\r\n",
        "HELLO 3 %\r\n",                                            /* the reply repeats it */
        "PING\r\nPING\r\nPING\r\nPING\r\nPING\r\nAUTH alice %\r\n", /* what came before leaves first
                                                                     */
        "AUTH alice %\r\nPING\r\n*1\r\n$4\r\nPI",
        "AUTHH alice %\r\n",
        "AUTH alice % 4\r\n",
        "*3\r\n$4\r\nAUTH\r\n$10\r\n%\r\n:\r\n", /* breaks the protocol */
        "AUTH alice %",                          /* it never ends */
    };

    if (OKV_SANITIZED)
        skip(); /* its memory is too large to search */
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        for (size_t cut = 0; cut <= WHOLE; cut += sizeof disguised / 2) {
            int fd = connect_from(HOSTILE), in = log_in(HONEST, "alice", KEY_A);
            say_password(fd, lines[i], cut);
            bool is_typo = strstr(lines[i], "AUTHH"); /* to a user it is a command with words */
            if (!is_typo)
                say_password(in, lines[i], cut);
            uint8_t replies[4096];
            while (recv(fd, replies, sizeof replies, MSG_DONTWAIT) > 0)
                ;
            while (recv(in, replies, sizeof replies, MSG_DONTWAIT) > 0)
                ;
            explicit_bzero(replies, sizeof replies);
            close(fd);
            close(in);
            for (unsigned k = 0; k < 5; k++)
                pass();
            expect_no_password(lines[i], cut);
        }
    }
}

/* The acceptor, which polls the listener, does not spin meanwhile. */
FIXTURE_TEST(a_client_waits_for_a_descriptor)
{
    int listening = fixture.core.server->sockets[0].fd, fd = connect_unaccepted(HONEST);
    struct rlimit before = no_descriptors_begin(0);

    accept_clients();
    assert_false(is_readable(listening, 0));
    no_descriptors_end(before);
    assert_true(is_readable(listening, PACE_GUARD_MS));
    accept_clients();
    say(fd, "PING\r\n");
    hear(fd, "-NOAUTH Authentication required.\r\n");
    close(fd);
}

/* A host of IPv6 that comes from many of its addresses is one. */
FIXTURE_TEST(a_network_of_ipv6_counts_as_one_address)
{
    struct okv_resp_shared *shared = fixture.core.server->resp_shared;
    struct okv_resp_listener *listener = &shared->listeners[1];
    struct sockaddr_in6 to;
    socklen_t length = sizeof to;

    if (shared->listener_count < 2)
        skip();
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(getsockname(listener->fd, (struct sockaddr *)&to, &length), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    fixture.core.server->sockets[1].admit(fixture.core.server, listener);
    pass();
    assert_string_equal(TAILQ_FIRST(&fixture.worker.resp->all)->address, "::/64");
    close(fd);
}
