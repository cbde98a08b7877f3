/* okv_discovery_search() over UDP on the loopback interface: a thread answers as each test says,
 * and not as a server would. */
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/discovery/discovery.h"
#include "tests/support/discovery_socket.h"
#include "tests/support/pace.h"

#define MS UINT64_C(1000000)

struct responder;
/* Answers query number `count`, from 1. */
typedef void answer_query(struct responder *responder, uint64_t nonce, unsigned count);

struct responder {
    int fd;
    answer_query *answer;
    struct sockaddr_in to;
    pthread_t thread;
    atomic_bool stop;
    unsigned queries;
};

static void send_raw(const struct responder *responder, const void *bytes, size_t length)
{
    sendto(responder->fd, bytes, length, 0, (const struct sockaddr *)&responder->to,
           sizeof responder->to);
}

static void send_answer(const struct responder *responder, uint64_t nonce, uint64_t boot_id,
                        const char *name, const char *uri)
{
    struct okv_discovery_answer answer = {
        .nonce = nonce, .boot_id = boot_id, .release = "1", .uri_count = 1};
    struct okv_wire_discovery wire;

    snprintf(answer.name, sizeof answer.name, "%s", name);
    snprintf(answer.uris[0], sizeof answer.uris[0], "%s", uri);
    okv_discovery_answer_encode(&answer, &wire);
    send_raw(responder, &wire, sizeof wire);
}

static void *respond(void *user)
{
    struct responder *responder = user;
    struct pollfd fd = {.fd = responder->fd, .events = POLLIN};

    while (!atomic_load(&responder->stop)) {
        uint8_t bytes[2048];
        struct okv_discovery_query query;
        socklen_t size = sizeof responder->to;
        if (poll(&fd, 1, 10) != 1)
            continue;
        ssize_t length = recvfrom(responder->fd, bytes, sizeof bytes, MSG_DONTWAIT,
                                  (struct sockaddr *)&responder->to, &size);
        if (length < 0 || okv_discovery_query_decode(bytes, (size_t)length, &query))
            abort();
        responder->answer(responder, query.nonce, ++responder->queries);
    }
    return NULL;
}

/* Searches while a responder answers. Returns the number of queries that it saw. */
static unsigned search(answer_query *answer, const char *name, uint32_t timeout_ms,
                       uint32_t settle_ms, struct okv_discovery_found *found)
{
    char group[OKV_GROUP_SIZE];
    struct okv_discovery_search asked = {.group = group,
                                         .name = name,
                                         .source = "127.0.0.1",
                                         .udp = true,
                                         .timeout_ms = timeout_ms,
                                         .settle_ms = settle_ms};
    struct responder responder = {.answer = answer};
    struct okv_diag diag = {.text = ""};

    discovery_group(group);
    responder.fd = discovery_listener(group);
    assert_int_equal(pthread_create(&responder.thread, NULL, respond, &responder), 0);
    int rc = okv_discovery_search(&asked, found, &diag);
    atomic_store(&responder.stop, true);
    pthread_join(responder.thread, NULL);
    close(responder.fd);
    if (rc)
        fail_msg("%s", diag.text);
    return responder.queries;
}

static struct okv_discovery_found found;

/* Whether a search that found too little may have four times the time; false after the guard. */
static bool again(uint32_t *ms)
{
    *ms *= 4;
    return *ms < PACE_GUARD_MS;
}

static void answer_twice(struct responder *responder, uint64_t nonce, unsigned count)
{
    (void)count;
    send_answer(responder, nonce, 1, "one", "local:///a");
    send_answer(responder, nonce, 1, "one", "local:///b");
    send_answer(responder, nonce, 1, "one", "local:///a");
    send_answer(responder, nonce, 2, "one", "local:///c");
}

TEST(a_server_is_found_once)
{
    uint32_t timeout_ms = pace_ms(500);

    do
        search(answer_twice, "", timeout_ms, 0, &found);
    while (found.count < 2 && again(&timeout_ms));
    assert_int_equal(found.count, 2);
    assert_true(found.servers[0].boot_id == 1 && found.servers[1].boot_id == 2);
    assert_int_equal(found.servers[0].uri_count, 2);
    assert_string_equal(found.servers[0].uris[0], "local:///a");
    assert_string_equal(found.servers[0].uris[1], "local:///b");
    assert_int_equal(found.servers[1].uri_count, 1);
}

static void answer_with_many_uris(struct responder *responder, uint64_t nonce, unsigned count)
{
    char uri[32];

    (void)count;
    for (unsigned i = 0; i < OKV_DISCOVERY_URIS + 3; i++) {
        snprintf(uri, sizeof uri, "local:///%u", i);
        send_answer(responder, nonce, 1, "one", uri);
    }
    send_answer(responder, nonce, 2, "one", "local:///a"); /* these were all */
}

TEST(a_server_has_a_few_uris)
{
    uint32_t settle_ms = pace_ms(200);

    do
        search(answer_with_many_uris, "one", PACE_GUARD_MS, settle_ms, &found);
    while (found.count < 2 && again(&settle_ms));
    assert_int_equal(found.count, 2);
    assert_int_equal(found.servers[0].uri_count, OKV_DISCOVERY_URIS);
}

#define AT_ONCE 20u

static void answer_as_many(struct responder *responder, uint64_t nonce, unsigned count)
{
    for (uint64_t i = 0; i < AT_ONCE; i++)
        send_answer(responder, nonce, count * AT_ONCE + i, "one", "local:///a");
}

TEST(not_more_servers_than_there_is_room)
{
    const unsigned enough = OKV_DISCOVERY_FOUND_MAX / AT_ONCE + 3;
    uint32_t timeout_ms = pace_ms(1000);
    unsigned queries;

    do
        queries = search(answer_as_many, "", timeout_ms, 0, &found);
    while ((queries < enough || found.count < OKV_DISCOVERY_FOUND_MAX) && again(&timeout_ms));
    assert_true(queries >= enough);
    assert_int_equal(found.count, OKV_DISCOVERY_FOUND_MAX);
}

static void answer_with_rubbish(struct responder *responder, uint64_t nonce, unsigned count)
{
    const struct okv_discovery_query query = {.nonce = nonce, .name = "one"};
    struct okv_wire_discovery wire;
    uint8_t bytes[4096];

    (void)count;
    memset(bytes, 'x', sizeof bytes);
    send_answer(responder, nonce + 1, 1, "one", "local:///a"); /* to another query */
    send_answer(responder, nonce, 2, "two", "local:///a");     /* of a server that was not asked */
    send_answer(responder, nonce, 0, "one", "local:///a");
    send_answer(responder, nonce, 3, "one", "local:///\x1b[2J");
    okv_discovery_query_encode(&query, &wire);
    send_raw(responder, &wire, sizeof wire);
    send_raw(responder, bytes, 0);
    send_raw(responder, bytes, sizeof wire);
    send_raw(responder, bytes, sizeof bytes);
    send_answer(responder, nonce, 4, "one", "local:///a"); /* the end of the search */
}

TEST(rubbish_is_no_server)
{
    search(answer_with_rubbish, "one", PACE_GUARD_MS, 1, &found);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.servers[0].boot_id, 4);
}

static void answer_the_third(struct responder *responder, uint64_t nonce, unsigned count)
{
    if (count == 3)
        send_answer(responder, nonce, 1, "one", "local:///a");
}

/* And the search ends then, long before its time-out. */
TEST(lost_queries_are_repeated)
{
    assert_true(search(answer_the_third, "one", PACE_GUARD_MS, 1, &found) >= 3);
    assert_int_equal(found.count, 1);
}

static void answer_all(struct responder *responder, uint64_t nonce, unsigned count)
{
    send_answer(responder, nonce, 1, "one", "local:///a");
    if (count == 2)
        send_answer(responder, nonce, 2, "one", "local:///b");
}

/* One that missed the first query has until the search settles. */
TEST(a_second_server_is_waited_for)
{
    uint32_t settle_ms = pace_ms(400);

    do {
        uint64_t begun = okv_clock_ns();
        search(answer_all, "one", 2 * settle_ms, settle_ms, &found);
        assert_true(okv_clock_ns() - begun >= settle_ms * MS);
    } while (found.count < 2 && again(&settle_ms));
    assert_int_equal(found.count, 2);
}

static void answer_nothing(struct responder *responder, uint64_t nonce, unsigned count)
{
    (void)responder, (void)nonce, (void)count;
}

TEST(silence_ends_at_the_timeout)
{
    uint64_t begun = okv_clock_ns();

    search(answer_nothing, "", 250, 100, &found);
    assert_int_equal(found.count, 0);
    assert_true(okv_clock_ns() - begun >= 250 * MS);
}

TEST(without_interface_nothing_is_asked)
{
    const struct okv_discovery_search asked = {
        .group = "", .name = "", .source = "203.0.113.77", .udp = true, .timeout_ms = 100};
    struct okv_diag diag = {.text = ""};

    assert_int_equal(okv_discovery_search(&asked, &found, &diag), OKV_ENODEVICE);
    assert_non_null(strstr(diag.text, "203.0.113.77"));
    assert_int_equal(found.count, 0);
}

TEST(descriptors_are_closed)
{
    unsigned before = discovery_open_descriptors();

    search(answer_twice, "", 50, 0, &found);
    assert_int_equal(discovery_open_descriptors(), before);
}
