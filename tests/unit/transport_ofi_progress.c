/* Part of transport_ofi_test.c: READs while the server's worker does not poll. A device serves them
 * by itself; otherwise the progress thread does, unless it stands still as well. */
#include <poll.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/transport/ofi/ofi.h"
#include "tests/support/transport_client.h"
#include "tests/unit/transport_ofi_list.h"

#define ROUNDS 30u

/* Whether the READ ends well before the guard is over. */
static bool read_ends(struct client *client, uint64_t offset, uint32_t length)
{
    struct okv_read read = client_make_read(client, offset, length, 1, offset);
    struct okv_event event;

    memset(client->bytes, 0xEE, sizeof client->bytes);
    assert_int_equal(client->ops->post_read(client->conn, &read, 1), 0);
    return fixture_wait(client->conn->endpoint, &event) && event.type == OKV_EVENT_READ &&
           event.status == 0 && event.cookie == offset;
}

/* The thread helps again and again, also when the worker has polled just before. */
TEST(reads_beside_a_busy_worker)
{
    static const uint32_t lengths[] = {1, 777, CLIENT_LARGE_READ};
    struct client *client = client_create(state);
    bool have_ended = true;

    for (unsigned i = 0; i < ROUNDS && have_ended; i++) {
        uint32_t length = lengths[i % 3];
        client_echo(client, i, 100, i);
        fixture_pause(client->fixture);
        have_ended = read_ends(client, i * 4099, length) && read_ends(client, i * 511, length);
        fixture_resume(client->fixture);
        if (have_ended)
            assert_region_bytes(client->bytes + 1, i * 511, length);
    }
    client_destroy(client); /* first: a test that fails leaves no connection to the next one */
    assert_true(have_ended);
}

/* The worker is asleep on its descriptor, and what the provider had for it is taken by the progress
 * thread. */
TEST(a_sleeping_worker_is_woken)
{
    struct fixture *fixture = *state;
    struct client *client = client_create(state);
    struct pollfd worker = {.fd = fixture->endpoint->fd, .events = POLLIN};

    if (client->conn->is_one_sided) {
        client_destroy(client);
        print_message("there is no progress thread: the device serves READs\n");
        skip();
    }
    client_echo(client, 1, 100, 1);
    fixture_pause(fixture);
    int armed = fixture->ops->arm(fixture->endpoint);
    bool has_ended = read_ends(client, 4099, 777);
    int woken = poll(&worker, 1, PACE_GUARD_MS);
    fixture_resume(fixture);
    client_destroy(client);
    assert_int_equal(armed, 0);
    assert_true(has_ended);
    assert_int_equal(woken, 1);
}

/* ---- a server that stands still ---- */

/* The operations of its completion queue. */
static struct {
    struct fi_ops_cq *own, still;
    uint64_t end;
    atomic_bool holds, has_caught;
} queue;

static ssize_t stand_still(struct fid_cq *cq, void *entries, size_t count)
{
    while (atomic_load(&queue.holds) && okv_clock_ns() < queue.end) {
        atomic_store(&queue.has_caught, true);
        usleep(1000);
    }
    return queue.own->read(cq, entries, count);
}

bool server_stand_still(struct client *client)
{
    struct fixture *fixture = client->fixture;
    struct ofi_endpoint *ep = (struct ofi_endpoint *)fixture->endpoint;

    fixture_pause(fixture);
    queue.own = ep->cq->ops;
    queue.still = *queue.own;
    queue.still.read = stand_still;
    queue.end = fixture_soon();
    atomic_store(&queue.has_caught, false);
    atomic_store(&queue.holds, true);
    ep->cq->ops = &queue.still;
    assert_int_equal(client_send(client, 1, 100, 1), 0); /* for which the thread makes progress */
    while (!atomic_load(&queue.has_caught) && okv_clock_ns() < queue.end)
        usleep(1000);
    return atomic_load(&queue.has_caught);
}

void server_go_on(struct client *client)
{
    struct fixture *fixture = client->fixture;
    struct ofi_endpoint *ep = (struct ofi_endpoint *)fixture->endpoint;

    atomic_store(&queue.holds, false);
    ep->cq->ops = queue.own;
    fixture_resume(fixture);
    client_expect_message(client, 1, 100, 1);
}
