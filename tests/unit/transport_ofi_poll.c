/* Part of transport_ofi_test.c: descriptors in sets of the program, and how much one poll does. */
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/transport/ofi/ofi.h"
#include "tests/support/ofi_attacker.h"
#include "tests/support/transport_client.h"
#include "tests/unit/transport_ofi_list.h"

/* Linux allows few sets of descriptors in a chain, and some fabrics' own are sets as well. */
static void expect_room_in_sets(int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    int inner = epoll_create1(EPOLL_CLOEXEC), outer = epoll_create1(EPOLL_CLOEXEC);

    assert_true(inner >= 0 && outer >= 0);
    assert_int_equal(epoll_ctl(inner, EPOLL_CTL_ADD, fd, &event), 0);
    assert_int_equal(epoll_ctl(outer, EPOLL_CTL_ADD, inner, &event), 0);
    close(outer);
    close(inner);
}

TEST(descriptors_in_sets_of_the_program)
{
    struct fixture *fixture = *state;
    struct client *client = client_create(state);
    struct okv_connecting *connecting;
    struct okv_diag diag;

    expect_room_in_sets(client->conn->endpoint->fd);
    expect_room_in_sets(fixture->endpoint->fd);
    expect_room_in_sets(fixture->listener->fd);
    assert_int_equal(
        fixture_start_connect(fixture, FIXTURE_ACCEPT, fixture_soon(), &connecting, &diag), 0);
    expect_room_in_sets(connecting->fd);
    fixture->ops->connect_cancel(connecting);
    client_destroy(client);
}

/* ---- a flood ---- */

#define FLOOD 4000u

/* The operations of a completion queue, and what they gave away. */
static struct {
    struct fi_ops_cq own, counting;
    unsigned taken, calls;
} queue;

static ssize_t read_and_count(struct fid_cq *cq, void *entries, size_t count)
{
    ssize_t n = queue.own.read(cq, entries, count);

    if (count > 0) {
        queue.calls++;
        queue.taken += n > 0 ? (unsigned)n : 0;
    }
    return n;
}

/* Sends all that the provider takes, up to FLOOD, of messages for nobody. */
static unsigned flood(struct ofi_attacker *attacker, unsigned sent)
{
    size_t length = ofi_attacker_write_header(attacker, 1, 0, 0, 1);

    while (sent < FLOOD && ofi_attacker_post_send(attacker, length) == 0)
        sent++;
    ofi_attacker_progress(attacker);
    return sent;
}

/* A worker has other work: what more has come is for its next poll, of which it is told. Whether
 * the poll left something. */
static bool poll_is_limited(struct fixture *fixture)
{
    struct ofi_endpoint *ep = (struct ofi_endpoint *)fixture->endpoint;
    struct pollfd woken = {.fd = ep->wakeup.event, .events = POLLIN};
    struct okv_event events[64];
    uint64_t ignored;
    int before = ep->done_count - ep->done_next;

    ssize_t n = read(ep->wakeup.event, &ignored, sizeof ignored);
    (void)n; /* nothing may have woken it */
    queue.taken = queue.calls = 0;
    int count = fixture->ops->poll(fixture->endpoint, events, 64);
    int left = ep->done_count - ep->done_next;
    assert_int_equal(count, 0);
    assert_in_range(queue.calls, 0, OFI_TAKEN_MAX);
    assert_in_range(before + (int)queue.taken - left, 0, OFI_TAKEN_MAX);
    if (left > 0)
        assert_int_equal(poll(&woken, 1, 0), 1);
    return left > 0;
}

/* No thread but this polls the server meanwhile. */
static void flood_and_poll(struct fixture *fixture, struct ofi_attacker *attacker)
{
    struct ofi_endpoint *ep = (struct ofi_endpoint *)fixture->endpoint;
    uint64_t end = fixture_soon();
    unsigned sent = 0, all = 0, limited = 0;

    while (all < FLOOD || ep->done_next < ep->done_count) {
        assert_true(okv_clock_ns() < end);
        sent = flood(attacker, sent);
        limited += poll_is_limited(fixture);
        all += queue.taken;
    }
    assert_int_equal(ep->unposted_count, 0);
    assert_int_not_equal(limited, 0); /* else the flood was none */
}

TEST(a_flood_and_one_poll)
{
    struct fixture *fixture = *state;
    struct ofi_endpoint *ep = (struct ofi_endpoint *)fixture->endpoint;
    struct fi_ops_cq *own = ep->cq->ops;
    uint8_t hello[FIXTURE_HELLO] = {FIXTURE_ACCEPT};
    struct ofi_attacker attacker;

    for (unsigned i = 1; i < FIXTURE_HELLO; i++)
        hello[i] = fixture_hello_byte(i);
    unsigned opened = atomic_load(&fixture->opened), closed = atomic_load(&fixture->closed);
    ofi_attacker_join(&attacker, &fixture->connect_uri, hello, sizeof hello);
    ofi_attacker_read(&attacker, 0, 64);
    assert_true(fixture_reaches(&fixture->opened, opened + 1));
    fixture_pause(fixture);
    queue.own = queue.counting = *own;
    queue.counting.read = read_and_count;
    ep->cq->ops = &queue.counting;
    flood_and_poll(fixture, &attacker);
    ep->cq->ops = own;
    fixture_resume(fixture);
    ofi_attacker_leave(&attacker);
    assert_true(fixture_reaches(&fixture->closed, closed + 1));
}

/* ---- failures that peers bring about ---- */

static struct {
    struct fi_ops_msg *own, failing;
    unsigned failures;
} receives;

static ssize_t fail_first(struct fid_ep *ep, void *buffer, size_t length, void *desc,
                          fi_addr_t from, void *context)
{
    if (receives.failures > 0) {
        receives.failures--;
        return -FI_EOTHER;
    }
    return receives.own->recv(ep, buffer, length, desc, from, context);
}

/* A provider may fail to take a receive because of who has sent to it. The receive is posted again,
 * and the endpoint goes on. */
TEST(receives_that_fail)
{
    struct fixture *fixture = *state;
    struct ofi_endpoint *ep = (struct ofi_endpoint *)fixture->endpoint;
    struct client *client = client_create(state);

    fixture_pause(fixture);
    receives.own = ep->ep->msg;
    receives.failing = *receives.own;
    receives.failing.recv = fail_first;
    receives.failures = 1000;
    ep->ep->msg = &receives.failing;
    fixture_resume(fixture);
    for (unsigned i = 0; i < 3 * ep->pool_slots; i++)
        client_echo(client, i, 100, i);
    fixture_pause(fixture);
    ep->ep->msg = receives.own;
    assert_int_equal(receives.failures, 0);
    fixture_resume(fixture);
    client_destroy(client);
}

/* Errors that the completion queue tells of, the same one several times. */
static struct {
    struct fi_ops_cq *own, failing;
    uint8_t foreign[512]; /* what a pointer of the provider's own leads to */
    void *context;
    int err;
    unsigned left;
} errors;

static ssize_t read_or_fail(struct fid_cq *cq, void *entries, size_t count)
{
    return count > 0 && errors.left > 0 ? -FI_EAVAIL : errors.own->read(cq, entries, count);
}

static ssize_t tell_error(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
    (void)cq, (void)flags;
    errors.left--;
    *entry = (struct fi_cq_err_entry){.op_context = errors.context, .err = errors.err};
    return 1;
}

/* Nobody polls the endpoint meanwhile. */
static void errors_begin(struct ofi_endpoint *ep, void *context, int err, unsigned count)
{
    memset(errors.foreign, 1, sizeof errors.foreign);
    errors.context = context ? context : errors.foreign;
    errors.err = err;
    errors.left = count;
    errors.own = ep->cq->ops;
    errors.failing = *errors.own;
    errors.failing.read = read_or_fail;
    errors.failing.readerr = tell_error;
    ep->cq->ops = &errors.failing;
}

static void errors_end(struct ofi_endpoint *ep)
{
    ep->cq->ops = errors.own;
    assert_int_equal(errors.left, 0);
}

/* rxm tells of a failure of its own with a pointer of its own. A server has other peers. */
TEST(errors_of_nothing_of_ours)
{
    struct fixture *fixture = *state;
    struct ofi_endpoint *ep = (struct ofi_endpoint *)fixture->endpoint;
    struct client *client = client_create(state);

    fixture_pause(fixture);
    errors_begin(ep, NULL, FI_EOTHER, 1);
    fixture_resume(fixture);
    client_echo(client, 1, 100, 1);
    fixture_pause(fixture);
    errors_end(ep);
    fixture_resume(fixture);
    client_destroy(client);
}

/* A client has one peer. Its reply may have been what failed, so the connection ends. */
TEST(errors_of_a_client)
{
    struct client *client = client_create(state);
    struct ofi_endpoint *ep = (struct ofi_endpoint *)client->conn->endpoint;

    client_echo(client, 1, 100, 1);
    errors_begin(ep, &ofi_recv_of(ep, 0)->ops[ofi_recv_of(ep, 0)->turn].context, FI_EIO, 1);
    client_expect_closed(client);
    client_destroy(client);
}

/* An overrun queue has lost completions, and gives no more. */
TEST(a_queue_that_has_overrun)
{
    struct client *client = client_create(state);
    struct ofi_endpoint *ep = (struct ofi_endpoint *)client->conn->endpoint;
    struct okv_event event;

    errors_begin(ep, NULL, FI_EOVERRUN, 1);
    while (errors.left > 0)
        client->ops->poll(client->conn->endpoint, &event, 1);
    errors_end(ep);
    assert_int_equal(client->ops->poll(client->conn->endpoint, &event, 1), OKV_EIO);
    client_destroy(client);
}

static unsigned posts;

static ssize_t count_post(struct fid_ep *ep, void *buffer, size_t length, void *desc,
                          fi_addr_t from, void *context)
{
    (void)ep, (void)buffer, (void)length, (void)desc, (void)from, (void)context;
    posts++;
    return 0;
}

/* rxm tells of each part of a long message that failed. Posted each time, a slot would receive two
 * messages at once. */
TEST(a_receive_that_fails_four_times)
{
    struct fixture *fixture = *state;
    struct ofi_endpoint *ep = (struct ofi_endpoint *)fixture->endpoint;
    struct client *client = client_create(state);
    struct okv_event event;

    fixture_pause(fixture);
    struct ofi_recv *recv = ofi_recv_of(ep, 0);
    const struct ofi_recv before = *recv;
    struct fi_ops_msg *own = ep->ep->msg, counting = *own;
    counting.recv = count_post;
    posts = 0;
    ep->ep->msg = &counting;
    errors_begin(ep, &recv->ops[recv->turn].context, FI_EIO, 4);
    while (errors.left > 0)
        assert_int_equal(fixture->ops->poll(fixture->endpoint, &event, 1), 0);
    errors_end(ep);
    ep->ep->msg = own;
    assert_true(before.is_posted && recv->is_posted);
    assert_int_equal(posts, 1);
    recv->turn = before.turn; /* what the provider has in truth */
    fixture_resume(fixture);
    client_echo(client, 1, 100, 1);
    client_destroy(client);
}
