/* Part of the list in transport_list.c: fairness of a busy endpoint. Server and clients share one
 * thread, so that the clients refill between two polls however slow the machine is. */
#include <poll.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "tests/support/transport_client.h"
#include "tests/unit/transport_list.h"

#define GREEDY 4u
#define MODEST GREEDY /* the number of the client that has one message to send */
#define BATCH 32      /* events of one poll: as many as the greedy have under way at once */

_Static_assert(GREEDY *FIXTURE_CREDITS == BATCH, "the greedy fill every poll");

struct crowd {
    const struct okv_transport_ops *ops;
    struct okv_listener *listener;
    struct okv_endpoint *endpoint;
    struct okv_conn *clients[GREEDY + 1];
    struct okv_conn *served[GREEDY + 1]; /* the server's connection; NULL before its message */
    unsigned under_way[GREEDY + 1];
    unsigned received[GREEDY + 1];
    unsigned opened, closed;
};

static void answer_requests(struct crowd *crowd)
{
    struct okv_request *request;
    uint8_t bytes[OKV_WELCOME_MAX];
    const struct okv_accept accept = {
        .endpoint = crowd->endpoint, .welcome = bytes, .length = FIXTURE_WELCOME};

    while (crowd->ops->next_request(crowd->listener, &request) > 0) {
        fixture_make_welcome(crowd->listener, FIXTURE_ACCEPT, bytes);
        assert_int_equal(crowd->ops->accept(request, &accept), 0);
    }
}

static void take_event(struct crowd *crowd, const struct okv_event *event)
{
    if (event->type == OKV_EVENT_OPENED) {
        crowd->opened++;
    } else if (event->type == OKV_EVENT_CLOSED) {
        for (unsigned i = 0; i <= MODEST; i++)
            if (crowd->served[i] == event->conn)
                crowd->served[i] = NULL;
        crowd->ops->conn_destroy(event->conn);
        crowd->closed++;
    } else {
        assert_int_equal(event->type, OKV_EVENT_RECV);
        assert_in_range(event->immediate, 0, MODEST);
        crowd->served[event->immediate] = event->conn;
        crowd->received[event->immediate]++;
        crowd->under_way[event->immediate]--;
        crowd->ops->recv_release(crowd->endpoint, event);
    }
}

static void serve(struct crowd *crowd)
{
    struct okv_event events[BATCH];
    int count = crowd->ops->poll(crowd->endpoint, events, BATCH);

    assert_in_range(count, 0, BATCH);
    for (int i = 0; i < count; i++)
        take_event(crowd, &events[i]);
}

static void say(struct crowd *crowd, unsigned number)
{
    struct okv_conn *conn = crowd->clients[number];
    uint8_t *buffer = crowd->ops->send_buffer(conn);

    if (!buffer)
        return;
    fixture_fill_message(buffer, number, 16);
    assert_int_equal(crowd->ops->post_send(conn, 16, number), 0);
    crowd->under_way[number]++;
}

/* The greedy have all their messages under way again, and the server polls once. */
static void pass(struct crowd *crowd)
{
    struct okv_event event;

    for (unsigned i = 0; i < GREEDY; i++) {
        struct okv_conn *conn = crowd->clients[i];
        assert_int_equal(crowd->ops->poll(conn->endpoint, &event, 1), 0);
        for (unsigned free = FIXTURE_CREDITS - crowd->under_way[i]; free > 0; free--)
            say(crowd, i);
        crowd->ops->flush(conn);
    }
    serve(crowd);
}

static unsigned received_of_the_greedy(const struct crowd *crowd)
{
    unsigned sum = 0;

    for (unsigned i = 0; i < GREEDY; i++)
        sum += crowd->received[i];
    return sum;
}

static void join(struct crowd *crowd, struct fixture *other, unsigned number)
{
    struct okv_connecting *connecting;
    struct okv_answer welcome = {.length = 0};
    struct okv_diag diag = {""};
    uint64_t end = fixture_soon();
    int status = fixture_start_connect(other, FIXTURE_ACCEPT, end, &connecting, &diag);

    assert_int_equal(status, 0);
    while ((status = crowd->ops->connect_step(connecting, &welcome, &crowd->clients[number],
                                              &diag)) == OKV_EAGAIN) {
        answer_requests(crowd);
        serve(crowd); /* some transports connect their endpoints by it */
        poll(NULL, 0, 1);
    }
    if (status)
        fail_msg("connect: %s", diag.text);
    while (crowd->opened <= number && okv_clock_ns() < end)
        serve(crowd);
    assert_int_equal(crowd->opened, number + 1);
}

static void crowd_gather(struct crowd *crowd, const struct fixture *fixture)
{
    static const struct okv_message_limits limits = {FIXTURE_SLOT_SIZE, FIXTURE_CREDITS};
    const struct okv_region region = {fixture->region, FIXTURE_REGION, fixture->region_fd};
    struct fixture *other = test_calloc(1, sizeof *other);
    struct okv_uri uri = fixture->listen_uri;
    struct okv_diag diag = {""};

    crowd->ops = fixture->ops;
    other->ops = fixture->ops;
    other->connect_uri = fixture->connect_uri;
    choose_other_address(&uri);
    choose_other_address(&other->connect_uri);
    if (crowd->ops->listen(&uri, &region, 1, &crowd->listener, &diag) ||
        crowd->ops->endpoint_create(crowd->listener, &limits, GREEDY + 1, &crowd->endpoint, &diag))
        fail_msg("%s", diag.text);
    crowd->listener->tls = fixture->tls;
    for (unsigned i = 0; i <= MODEST; i++)
        join(crowd, other, i);
    test_free(other);
}

static void crowd_disperse(struct crowd *crowd)
{
    uint64_t end = fixture_soon();

    for (unsigned i = 0; i <= MODEST; i++)
        crowd->ops->conn_destroy(crowd->clients[i]);
    while (crowd->closed <= MODEST && okv_clock_ns() < end) {
        answer_requests(crowd);
        serve(crowd);
    }
    assert_int_equal(crowd->closed, MODEST + 1);
    crowd->ops->endpoint_destroy(crowd->endpoint);
    crowd->ops->unlisten(crowd->listener);
}

TEST(busy_connections_starve_nobody)
{
    enum { PASSES_BEFORE = 10, ROUNDS = 20, MOST = 20000 };
    struct crowd *crowd = test_calloc(1, sizeof *crowd);
    uint64_t end;

    crowd_gather(crowd, *state);
    for (unsigned i = 0; i < PASSES_BEFORE; i++)
        pass(crowd);
    for (unsigned round = 1; round <= ROUNDS; round++) {
        unsigned before = received_of_the_greedy(crowd);
        struct okv_event event; /* a poll brings send buffers back */
        assert_int_equal(crowd->ops->poll(crowd->clients[MODEST]->endpoint, &event, 1), 0);
        say(crowd, MODEST);
        crowd->ops->flush(crowd->clients[MODEST]);
        while (crowd->received[MODEST] < round && received_of_the_greedy(crowd) - before < MOST)
            pass(crowd);
        assert_int_equal(crowd->received[MODEST], round);
    }
    for (unsigned i = 0; i < GREEDY; i++)
        assert_true(crowd->received[i] > 0);

    /* its end is reported too while the others go on */
    crowd->ops->close(crowd->served[MODEST]);
    for (end = fixture_soon(); crowd->closed == 0 && okv_clock_ns() < end;)
        pass(crowd);
    assert_int_equal(crowd->closed, 1);
    assert_null(crowd->served[MODEST]);
    crowd_disperse(crowd);
    test_free(crowd);
}
