/* The acceptor: which clients it refuses and why, and what a refusal leaves behind. The transport
 * is a list of connecting clients and accepts them as the test says. */
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/database/reply_cache.h"
#include "server/session/sessions.h"
#include "tests/support/test.h"

#include "server/clients/admission.h"
#include "server/clients/client_table.h"
#include "server/net/acceptor.h"
#include "server/session/session.h"
#include "server/store/status.h"
#include "server/worker/worker.h"
#include "shared/base/error.h"
#include "shared/format/wire.h"
#include "tests/support/pace.h"
#include "tests/support/server_core.h"

#define LIMIT 2
#define MORE 4
#define ROOM 100
#define WAIT_MS PACE_GUARD_MS

struct gate {
    struct server_core core;
    struct okv_worker worker;
    struct okv_acceptor acceptor;
    struct okv_listener listener;
    struct okv_endpoint endpoint;
    struct okv_request request;
    struct okv_wire_hello hello;
    atomic_bool is_endless;     /* the same request arrives again and again */
    atomic_bool is_done;        /* every request was answered */
    int accept_answer;          /* what the transport returns from accept */
    int reason;                 /* of the last rejection, or 0 */
    struct okv_session *got;    /* the last accepted session */
    struct okv_welcome welcome; /* its */
    unsigned spare;             /* connections beyond the clients that a worker has room for */
};

static struct gate gate;

static int gate_endpoint_create(struct okv_listener *listener,
                                const struct okv_message_limits *limits, unsigned max_conns,
                                struct okv_endpoint **out, struct okv_diag *diag)
{
    (void)listener, (void)limits, (void)diag;
    assert_true(max_conns > LIMIT);
    gate.spare = max_conns - LIMIT;
    gate.endpoint.max_conns = ROOM;
    *out = &gate.endpoint;
    return 0;
}

static void gate_endpoint_destroy(struct okv_endpoint *endpoint)
{
    (void)endpoint;
}

static int gate_next_request(struct okv_listener *listener, struct okv_request **out)
{
    eventfd_t count;

    if (!gate.is_endless && eventfd_read(listener->fd, &count)) {
        atomic_store(&gate.is_done, true);
        return 0;
    }
    *out = &gate.request;
    return 1;
}

static int gate_accept(struct okv_request *request, const struct okv_accept *accept)
{
    (void)request;
    if (gate.accept_answer)
        return gate.accept_answer;
    gate.got = accept->user;
    gate.reason = okv_welcome_decode(accept->welcome, accept->length, &gate.welcome);
    return 0;
}

static void gate_reject(struct okv_request *request, const uint8_t *bytes, size_t length)
{
    struct okv_reject reject;

    (void)request;
    gate.reason = okv_reject_decode(bytes, length, &reject) ? -1 : (int)reject.reason;
}

static const struct okv_transport_ops OPS = {
    .name = "gate",
    .endpoint_create = gate_endpoint_create,
    .endpoint_destroy = gate_endpoint_destroy,
    .next_request = gate_next_request,
    .accept = gate_accept,
    .reject = gate_reject,
};

static int setup(void **state)
{
    static const struct okv_store_params params = {.length = UINT64_C(1) << 20, .max_value = 1000};

    (void)state;
    gate = (struct gate){
        .listener = {.ops = &OPS, .fd = eventfd(0, EFD_NONBLOCK | EFD_SEMAPHORE)},
        .endpoint = {.ops = &OPS, .fd = -1},
    };
    gate.request = (struct okv_request){
        .listener = &gate.listener,
        .hello = (const uint8_t *)&gate.hello,
        .hello_length = sizeof gate.hello,
        .address = "somewhere",
    };
    server_core_open(&gate.core, &params);
    server_core_open_second(&gate.core, &params);
    struct okv_server *server = gate.core.server;
    server->limits = (struct okv_message_limits){.slot_size = OKV_SLOT_SIZE_DEFAULT, .credits = 4};
    server->config.workers = 1;
    server->config.max_clients = LIMIT;
    server->listener_count = 1;
    server->listeners[0] = &gate.listener;
    server->workers = &gate.worker;
    const struct okv_admission_limits limits = {.clients = MORE};
    assert_int_equal(okv_admission_init(server->admission, &limits), 0);
    server->admission->limits.clients = LIMIT;
    assert_int_equal(okv_worker_init(&gate.worker, server, NULL), 0);
    assert_int_equal(okv_acceptor_start(&gate.acceptor, server, NULL), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    okv_acceptor_stop(&gate.acceptor);
    okv_worker_fini(&gate.worker);
    okv_admission_fini(gate.core.server->admission);
    server_core_close(&gate.core);
    close(gate.listener.fd);
    return 0;
}

/* A client with this id connects, which offers features. Returns the reason of the refusal, or 0
 * and its session. */
static int come_with(uint32_t features, uint8_t id, uint32_t resume, struct okv_session **out)
{
    struct okv_hello hello = {.slot_size = OKV_SLOT_SIZE_DEFAULT,
                              .credits = 4,
                              .features = features,
                              .resume = resume,
                              .database = gate.core.database->id};

    memset(hello.client_id, id, sizeof hello.client_id);
    okv_hello_encode(&hello, &gate.hello);
    gate.got = NULL;
    gate.reason = 0;
    atomic_store(&gate.is_done, false);
    assert_int_equal(eventfd_write(gate.listener.fd, 1), 0);
    for (int i = 0; i < WAIT_MS && !atomic_load(&gate.is_done); i++)
        usleep(1000);
    assert_true(gate.is_done);
    if (out)
        *out = gate.got;
    return gate.reason;
}

static int come(uint8_t id, uint32_t resume, struct okv_session **out)
{
    return come_with(0, id, resume, out);
}

/* As okv_session_closed() does. */
static void leave(struct okv_session *session)
{
    struct okv_server *server = gate.core.server;

    if (okv_reply_cache_release(server->databases[session->common.database].reply_caches,
                                session->reply_cache, session->common.id, 1, true))
        okv_admission_release(server->admission, session->place);
    atomic_fetch_sub(&gate.worker.sessions->clients[0], 1);
    okv_client_table_remove(server->clients, &session->common);
    okv_session_destroy(session);
}

static bool is_replaced(const struct okv_session *session)
{
    return okv_reply_cache_is_replaced(session->reply_cache, session->common.id);
}

#define GATE_TEST(name) TEST_WITH(name, setup, teardown)

GATE_TEST(a_full_server_readmits_a_connected_client)
{
    struct okv_session *first, *other, *second, *third;

    assert_int_equal(come(1, 0, &first), 0);
    assert_int_equal(come(2, 0, &other), 0);
    assert_int_equal(come(3, 0, NULL), OKV_REJECT_BUSY);
    assert_int_equal(come(1, first->common.id, &second), 0);
    assert_true(is_replaced(first));
    assert_true(gate.core.server->worker_signals[0].has_unwanted[OKV_CLIENT_NATIVE]);
    assert_int_equal(gate.core.server->stats.resumed, 1);
    assert_int_equal(come(1, second->common.id, &third), 0);
    assert_int_equal(gate.core.server->admission->clients, LIMIT);
    assert_int_equal(come(3, 0, NULL), OKV_REJECT_BUSY);
    leave(first);
    leave(second);
    assert_int_equal(gate.core.server->admission->clients, LIMIT);
    assert_int_equal(come(3, 0, NULL), OKV_REJECT_BUSY);
    leave(third);
    assert_int_equal(come(3, 0, &first), 0);
    leave(first);
    leave(other);
    assert_int_equal(gate.core.server->admission->clients, 0);
    assert_int_equal(gate.worker.sessions->clients[0], 0);
}

/* Who presents the client id of another database gets neither its session nor its replies. */
GATE_TEST(a_client_id_belongs_to_its_database)
{
    struct okv_session *first, *second;

    assert_int_equal(come(1, 0, &first), 0);
    gate.core.database = &gate.core.server->databases[1];
    assert_int_equal(come(1, first->common.id, &second), 0);
    assert_int_equal(second->common.database, 1);
    assert_false(is_replaced(first));
    assert_int_equal(gate.core.server->stats.resumed, 0);
    assert_ptr_not_equal(first->reply_cache, second->reply_cache);
    gate.core.database = gate.core.server->databases;
    leave(first);
    leave(second);
    assert_int_equal(gate.core.server->admission->clients, 0);
}

/* READs of a client that knows of no lease would not be checked. */
GATE_TEST(a_member_of_a_cluster_wants_clients_with_leases)
{
    const struct okv_store_lease lease = {.table = {5, 3, 41, 0, OKV_LEASE_MEMBER},
                                          .longest_ms = 1000};
    struct okv_session *session;
    uint64_t before_us = okv_clock_lease_us();

    assert_int_equal(come_with(OKV_FEATURE_LEASE, 1, 0, &session), 0);
    assert_int_equal(gate.welcome.features, 0);
    assert_int_equal(gate.welcome.lease_clock_us, 0);
    leave(session);
    okv_store_set_lease(&gate.core.database->store, &lease);
    assert_int_equal(come(1, 0, NULL), OKV_REJECT_FEATURE);
    assert_int_equal(gate.core.server->admission->clients, 0);
    assert_int_equal(come_with(OKV_FEATURE_LEASE, 1, 0, &session), 0);
    assert_int_equal(gate.welcome.features, OKV_FEATURE_LEASE);
    assert_int_equal(gate.welcome.lease_ms, 1000);
    assert_int_equal(gate.welcome.epoch, 3);
    assert_int_equal(gate.welcome.map_version, 41);
    assert_int_equal(gate.welcome.valid_until_us, 5);
    assert_in_range(gate.welcome.lease_clock_us, before_us, okv_clock_lease_us());
    leave(session);
}

/* It gets nothing, and takes no place. */
GATE_TEST(a_user_without_access_is_refused)
{
    struct okv_server *server = gate.core.server;
    struct okv_session *session;

    gate.request.is_foreign = true;
    assert_int_equal(come(1, 0, NULL), OKV_REJECT_UID);
    assert_int_equal(okv_reject_code(OKV_REJECT_UID), OKV_EDENIED);
    assert_int_equal(server->stats.rejected_uid, 1);
    assert_int_equal(server->stats.sessions_total, 0);
    assert_int_equal(server->admission->clients, 0);
    gate.request.is_foreign = false;
    assert_int_equal(come(1, 0, &session), 0);
    leave(session);
}

/* ---- half-open connections ---- */

static void expect_end_of(const struct okv_session *session)
{
    assert_int_equal(session->unwanted, OKV_SESSION_END_CROWDED_OUT);
    assert_true(atomic_exchange(
        &gate.core.server->worker_signals[0].has_unwanted[OKV_CLIENT_NATIVE], false));
}

/* Another client comes, is refused, and finds a place when one of them has gone. */
GATE_TEST(half_open_connections_make_room)
{
    struct okv_session *half_open, *other;

    gate.request.is_half_open = true;
    assert_int_equal(come(1, 0, &half_open), 0);
    assert_int_equal(come(2, 0, &other), 0);
    assert_false(half_open->unwanted || other->unwanted);
    assert_int_equal(come(3, 0, NULL), OKV_REJECT_BUSY);
    expect_end_of(half_open);
    assert_false(other->unwanted);
    leave(half_open);
    assert_int_equal(come(3, 0, &half_open), 0);
    leave(half_open);
    leave(other);
    assert_int_equal(gate.core.server->admission->half_open, 0);
    assert_int_equal(gate.core.server->admission->clients, 0);
}

/* The oldest of those from where most come, and not simply the oldest. */
GATE_TEST(who_has_most_half_open_connections_makes_room)
{
    struct okv_session *honest, *flood[MORE - 1];

    gate.core.server->admission->limits.clients = MORE;
    gate.request.is_half_open = true;
    assert_int_equal(come(1, 0, &honest), 0);
    strcpy(gate.request.address, "elsewhere");
    for (unsigned i = 0; i < MORE - 1; i++)
        assert_int_equal(come((uint8_t)(i + 2), 0, &flood[i]), 0);
    assert_int_equal(come(MORE + 1, 0, NULL), OKV_REJECT_BUSY);
    expect_end_of(flood[0]);
    assert_false(honest->unwanted || flood[1]->unwanted);
    leave(honest);
    for (unsigned i = 0; i < MORE - 1; i++)
        leave(flood[i]);
    assert_int_equal(gate.core.server->admission->clients, 0);
}

/* There are places, and the device has no room for more connections. */
GATE_TEST(half_open_connections_make_room_on_a_small_device)
{
    struct okv_session *sessions[MORE];

    gate.core.server->admission->limits.clients = MORE;
    gate.endpoint.max_conns = gate.spare + 2;
    gate.request.is_half_open = true;
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(come((uint8_t)(i + 1), 0, &sessions[i]), 0);
    assert_false(sessions[0]->unwanted);
    assert_int_equal(come(3, 0, &sessions[2]), 0);
    expect_end_of(sessions[0]);
    for (unsigned i = 0; i < 3; i++)
        leave(sessions[i]);
    assert_int_equal(gate.core.server->admission->clients, 0);
}

GATE_TEST(a_client_that_is_ready_makes_no_room)
{
    struct okv_session *ready, *half_open;

    gate.request.is_half_open = true;
    assert_int_equal(come(1, 0, &ready), 0);
    assert_int_equal(come(2, 0, &half_open), 0);
    atomic_store(&ready->is_half_open, false);
    assert_int_equal(come(3, 0, NULL), OKV_REJECT_BUSY);
    expect_end_of(half_open);
    atomic_store(&half_open->is_half_open, false); /* too late */
    assert_int_equal(come(3, 0, NULL), OKV_REJECT_BUSY);
    assert_false(ready->unwanted ||
                 gate.core.server->worker_signals[0].has_unwanted[OKV_CLIENT_NATIVE]);
    leave(ready);
    leave(half_open);
    assert_int_equal(gate.core.server->admission->clients, 0);
}

/* Two connections of an address that may have one, both accepted before either was ready. */
GATE_TEST(an_address_has_no_more_than_it_may_in_the_end)
{
    struct okv_session *first, *second;

    gate.core.server->admission->limits.per_address = 1;
    gate.request.is_half_open = true;
    assert_int_equal(come(1, 0, &first), 0);
    assert_int_equal(come(2, 0, &second), 0);
    atomic_store(&first->is_half_open, false);
    atomic_store(&second->is_half_open, false);
    assert_int_equal(come(3, 0, NULL), OKV_REJECT_BUSY);
    assert_false(first->unwanted);
    expect_end_of(second);
    assert_int_equal(gate.core.server->stats.rejected_address, 1);
    leave(second);
    assert_int_equal(come(3, 0, NULL), OKV_REJECT_ADDRESS);
    leave(first);
    assert_int_equal(gate.core.server->admission->clients, 0);
}

/* Its earlier connection is replaced: it has no place any more that another could need. */
GATE_TEST(a_half_open_client_that_comes_back)
{
    struct okv_session *first, *second, *other;

    gate.request.is_half_open = true;
    assert_int_equal(come(1, 0, &first), 0);
    assert_int_equal(come(1, first->common.id, &second), 0);
    assert_true(is_replaced(first));
    assert_int_equal(gate.core.server->admission->half_open, 1);
    assert_int_equal(come(2, 0, &other), 0);
    atomic_store(&first->is_half_open, false);
    assert_int_equal(come(3, 0, NULL), OKV_REJECT_BUSY);
    assert_false(first->unwanted || other->unwanted);
    assert_true(second->unwanted);
    assert_int_equal(gate.core.server->admission->half_open, 2);
    leave(first);
    leave(second);
    leave(other);
    assert_int_equal(gate.core.server->admission->half_open, 0);
    assert_int_equal(gate.core.server->admission->clients, 0);
}

GATE_TEST(a_connection_the_transport_refuses_leaves_no_trace)
{
    static const struct {
        int answer, reason;
    } refusals[] = {
        {OKV_EAGAIN, OKV_REJECT_BUSY},        {OKV_EUNSUPPORTED, OKV_REJECT_FEATURE},
        {OKV_ENOMEM, OKV_REJECT_RESOURCES},   {OKV_EIO, OKV_REJECT_RESOURCES},
        {OKV_EDISCONNECTED, OKV_REJECT_GONE},
    };
    struct okv_session *first, *second;

    assert_int_equal(come(1, 0, &first), 0);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        gate.accept_answer = refusals[i].answer;
        assert_int_equal(come(1, first->common.id, NULL), refusals[i].reason);
        assert_int_equal(come(2, 0, NULL), refusals[i].reason);
        assert_false(is_replaced(first));
        assert_false(gate.core.server->worker_signals[0].has_unwanted[OKV_CLIENT_NATIVE]);
        assert_int_equal(gate.core.server->admission->clients, 1);
        assert_int_equal(gate.worker.sessions->clients[0], 1);
        assert_int_equal(okv_reply_caches_count(gate.core.database->reply_caches), 1);
    }
    assert_int_equal(gate.core.server->stats.rejected_feature, 2);
    assert_int_equal(gate.core.server->stats.rejected_resources, 4);
    assert_int_equal(gate.core.server->stats.rejected_gone, 2);
    gate.accept_answer = 0;
    assert_int_equal(come(1, first->common.id, &second), 0);
    assert_true(is_replaced(first));
    leave(first);
    leave(second);
    assert_int_equal(gate.core.server->admission->clients, 0);
}

GATE_TEST(an_endless_listener_does_not_keep_the_acceptor_from_stopping)
{
    alarm(PACE_GUARD_MS / 1000);
    gate.request.hello_length = 0;
    atomic_store(&gate.is_endless, true);
    assert_int_equal(eventfd_write(gate.listener.fd, 1), 0);
    while (atomic_load(&gate.core.server->stats.rejected_malformed) < 1000)
        usleep(1000);
    okv_acceptor_stop(&gate.acceptor);
    alarm(0);
    atomic_store(&gate.is_endless, false);
    assert_int_equal(okv_acceptor_start(&gate.acceptor, gate.core.server, NULL), 0);
}
