#include "tests/support/session_fixture.h"

#include "tests/support/test.h"

#include "server/clients/admission.h"
#include "server/session/long_work.h"
#include "shared/base/error.h"

static struct client *client_of(struct okv_conn *conn)
{
    return (struct client *)((char *)conn - offsetof(struct client, conn));
}

static uint8_t *fake_send_buffer(struct okv_conn *conn)
{
    return client_of(conn)->no_buffers ? NULL : client_of(conn)->out;
}

static int fake_post_send(struct okv_conn *conn, uint32_t length, uint32_t immediate)
{
    struct client *client = client_of(conn);

    assert_false(client->closed);
    assert_in_range(client->posted, 0, FIXTURE_POSTED - 1);
    struct okv_reply_message *reply = &client->replies[client->posted];
    assert_int_equal(okv_reply_decode(immediate, client->out, length, reply), 0);
    if (reply->value_length <= OKV_WRITE_REPLY_MAX)
        memcpy(client->values[client->posted], reply->value, reply->value_length);
    client->posted++;
    return 0;
}

static void fake_flush(struct okv_conn *conn)
{
    client_of(conn)->flushes++;
    client_of(conn)->flushed = client_of(conn)->posted;
}

static void fake_close(struct okv_conn *conn)
{
    client_of(conn)->closed = true;
}

static void fake_conn_destroy(struct okv_conn *conn)
{
    client_of(conn)->destroyed = true;
}

static void fake_recv_release(struct okv_endpoint *endpoint, const struct okv_event *event)
{
    (void)endpoint;
    client_of(event->conn)->released++;
}

static int fake_heartbeat(struct okv_conn *conn)
{
    client_of(conn)->heartbeats++;
    conn->unacknowledged++;
    return 0;
}

static int fake_rendezvous(struct okv_conn *conn, const struct okv_rendezvous *rendezvous)
{
    client_of(conn)->rendezvous_reads++;
    client_of(conn)->rendezvous = *rendezvous;
    return client_of(conn)->rendezvous_result;
}

static const struct okv_transport_ops OPS = {
    .name = "fake",
    .send_buffer = fake_send_buffer,
    .post_send = fake_post_send,
    .flush = fake_flush,
    .close = fake_close,
    .conn_destroy = fake_conn_destroy,
    .recv_release = fake_recv_release,
    .heartbeat = fake_heartbeat,
    .rendezvous = fake_rendezvous,
};

void fixture_open(struct fixture *fixture, unsigned number, uint8_t id, uint64_t resume)
{
    struct client *client = &fixture->clients[number];
    const struct okv_admission_client anybody = {.user = "", .address = ""};
    uint32_t place;

    *client = (struct client){.conn = {.ops = &OPS}};
    client->session =
        server_core_session(&fixture->core, number + 1, id, resume, FIXTURE_REQUEST_SLOTS);
    client->conn.user = client->session;
    assert_int_equal(okv_admission_admit(fixture->core.server->admission, &anybody, NULL, &place),
                     0);
    client->session->place = place;
    atomic_fetch_add(&fixture->worker.sessions->clients[0], 1);
    okv_session_opened(fixture->worker.sessions, &client->conn);
}

int fixture_setup(void **state)
{
    static const struct okv_store_params params = {.length = UINT64_C(1) << 20, .max_value = 1000};

    return fixture_setup_with(state, &params);
}

int fixture_setup_with(void **state, const struct okv_store_params *params)
{
    return fixture_setup_databases(state, params, 1);
}

int fixture_setup_databases(void **state, const struct okv_store_params *params, unsigned databases)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    assert_non_null(fixture);
    server_core_open(&fixture->core, params);
    if (databases > 1)
        server_core_open_second(&fixture->core, params);
    struct okv_server *server = fixture->core.server;
    server->limits =
        (struct okv_message_limits){.slot_size = FIXTURE_SLOT, .credits = FIXTURE_REQUEST_SLOTS};
    server->config.workers = 1;
    server->config.keepalive_ms = 6000;
    server->workers = &fixture->worker;
    const struct okv_admission_limits limits = {.clients = 10};
    assert_int_equal(okv_admission_init(server->admission, &limits), 0);
    assert_int_equal(okv_worker_init(&fixture->worker, server, NULL), 0);
    fixture->worker.sessions->pass = 1;
    for (unsigned i = 0; i < 2; i++)
        fixture_open(fixture, i, (uint8_t)(i + 1), 0);
    *state = fixture;
    return 0;
}

int fixture_teardown(void **state)
{
    struct fixture *fixture = *state;

    for (unsigned i = 0; i < 2; i++)
        if (!fixture->clients[i].destroyed)
            okv_session_closed(fixture->worker.sessions, fixture->clients[i].session,
                               OKV_EDISCONNECTED);
    assert_int_equal(atomic_load(&fixture->core.server->stats.sessions), 0);
    assert_int_equal(atomic_load(&fixture->core.server->stats.credits_granted), 0);
    assert_int_equal(atomic_load(&fixture->core.server->stats.requests_waiting), 0);
    okv_worker_fini(&fixture->worker);
    okv_admission_fini(fixture->core.server->admission);
    server_core_close(&fixture->core);
    free(fixture);
    return 0;
}

void fixture_arrive_as(struct fixture *fixture, struct client *client,
                       const struct okv_request_message *request)
{
    struct okv_event *event = &client->events[client->count];

    *event = (struct okv_event){
        .type = OKV_EVENT_RECV,
        .conn = &client->conn,
        .immediate = okv_immediate(request->opcode, request->slot),
        .has_immediate = true,
        .data = client->messages[client->count],
        .length = okv_request_encode(request, client->messages[client->count]),
    };
    client->count++;
    if (!okv_session_receive(fixture->worker.sessions, client->session, event))
        client->released++;
}

void fixture_arrive(struct fixture *fixture, struct client *client, unsigned opcode,
                    uint16_t request_slot, uint64_t sequence)
{
    const struct okv_request_message request = {
        .opcode = opcode,
        .slot = request_slot,
        .sequence = sequence,
        .argument = opcode == OKV_OP_INCR,
        .key = (const uint8_t *)"k",
        .key_length = opcode != OKV_OP_PING && opcode != OKV_OP_GOODBYE,
    };

    fixture_arrive_as(fixture, client, &request);
}

void fixture_arrive_append(struct fixture *fixture, struct client *client, const char *key,
                           const char *text, uint16_t request_slot, uint64_t sequence)
{
    const struct okv_request_message append = {
        .opcode = OKV_OP_APPEND,
        .slot = request_slot,
        .sequence = sequence,
        .key = (const uint8_t *)key,
        .key_length = (uint32_t)strlen(key),
        .value = (const uint8_t *)text,
        .value_length = (uint32_t)strlen(text),
    };

    fixture_arrive_as(fixture, client, &append);
}

void fixture_rendezvous_done(struct fixture *fixture, struct client *client, unsigned number,
                             int status)
{
    const struct okv_event event = {.type = OKV_EVENT_RENDEZVOUS_DONE,
                                    .conn = &client->conn,
                                    .cookie = number,
                                    .status = status};

    okv_session_rendezvous_done(fixture->worker.sessions, client->session, &event);
}

unsigned fixture_next_pass(struct fixture *fixture)
{
    struct okv_session *session;

    while ((session = TAILQ_FIRST(&fixture->worker.sessions->unflushed)))
        okv_sessions_flush(fixture->worker.sessions, session);
    okv_long_work_run(fixture->worker.sessions);
    okv_sessions_begin_pass(fixture->worker.sessions);
    return okv_sessions_run_ready(fixture->worker.sessions);
}
