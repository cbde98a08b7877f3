#include "tests/fuzz/fuzz_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include "tests/fuzz/fuzz_threads.h"
#include "tests/fuzz/fuzz_time.h"
#include "tests/support/store_audit.h"

enum { LISTENER_FD = 1000, ENDPOINT_FD = 1001 };
/* What rendezvous reads bring that are not to be applied; no other value begins so. */
#define LATE 'x'

/* Threads begin without a context. */
static struct fixture *world;
static const struct okv_transport_ops ops;

static struct fixture_connection *of_conn(struct okv_conn *conn)
{
    struct fixture_connection *c = (struct fixture_connection *)conn;

    FUZZ_CHECK(c >= world->connections && c < world->connections + FIXTURE_CONNECTIONS &&
               c->in_use);
    return c;
}

/* ---- threads ---- */

void fuzz_thread_begin(void *(*run)(void *), void *user)
{
    FUZZ_CHECK(world->task_count < 2);
    world->tasks[world->task_count++] = (struct fixture_task){.run = run, .user = user};
}

static bool is_ready(void *context, int fd)
{
    struct fixture *fixture = context;
    bool woken = fixture->woken;

    if (fd == LISTENER_FD)
        return fixture->has_request;
    if (fd == ENDPOINT_FD)
        return !fixture->ended;
    if (fixture->accepting) /* what ends the acceptor */
        return !fixture->has_request;
    fixture->woken = false;
    return woken;
}

/* ---- connecting ---- */

static int take_request(struct okv_listener *listener, struct okv_request **out)
{
    (void)listener;
    if (!world->has_request)
        return 0;
    world->has_request = false;
    *out = &world->request;
    return 1;
}

static unsigned id_of(const struct okv_hello *hello)
{
    unsigned id = hello->client_id[0] - 1u;

    for (unsigned i = 1; i < OKV_CLIENT_ID_SIZE; i++)
        if (hello->client_id[i] != hello->client_id[0])
            return FIXTURE_IDS;
    return id < FIXTURE_IDS ? id : FIXTURE_IDS;
}

static void replace(unsigned id)
{
    for (unsigned i = 0; i < FIXTURE_CONNECTIONS; i++)
        if (id < FIXTURE_IDS && world->connections[i].in_use && world->connections[i].id == id)
            world->connections[i].replaced = true;
}

/* What the welcome says is so. */
static void meet(struct fixture_connection *c, const struct okv_session *session,
                 const struct okv_welcome *welcome)
{
    struct fixture_client *client = &world->clients[c->id];

    FUZZ_CHECK(welcome->session_id > world->session && welcome->session_id == session->common.id);
    c->request_slot_count = welcome->credits;
    FUZZ_CHECK(welcome->credits == session->common.request_slots);
    FUZZ_CHECK(welcome->credits <= FIXTURE_REQUEST_SLOTS);
    world->session = welcome->session_id;
    if (c->id == FIXTURE_IDS)
        return;
    client->session = welcome->session_id;
    if (welcome->resumed)
        return;
    client->generation++;
    memset(client->answered, 0, sizeof client->answered);
}

static int transport_accept(struct okv_request *request, const struct okv_accept *accept)
{
    struct fixture_connection *c = world->connections;
    struct okv_welcome fields;
    struct okv_hello hello;

    FUZZ_CHECK(okv_hello_decode(request->hello, request->hello_length, &hello) == 0);
    FUZZ_CHECK(accept->length <= OKV_WELCOME_MAX);
    FUZZ_CHECK(okv_welcome_decode(accept->welcome, accept->length, &fields) == 0);
    while (c < world->connections + FIXTURE_CONNECTIONS && c->in_use)
        c++;
    if (c == world->connections + FIXTURE_CONNECTIONS)
        return OKV_EAGAIN;
    if (fuzz_rarely(world->input, 32))
        return OKV_EIO;
    replace(id_of(&hello));
    *c = (struct fixture_connection){.in_use = true, .id = id_of(&hello)};
    c->base.ops = &ops;
    c->base.endpoint = accept->endpoint;
    c->base.user = accept->user;
    c->base.slot_size = hello.slot_size;
    meet(c, accept->user, &fields);
    return 0;
}

static void transport_reject(struct okv_request *request, const uint8_t *reason, size_t length)
{
    struct okv_reject reject;

    (void)request;
    FUZZ_CHECK(okv_reject_decode(reason, length, &reject) == 0);
}

void fixture_connect(struct fixture *fixture, const uint8_t *hello, size_t length,
                     const char *address)
{
    uint8_t *bytes = malloc(length ? length : 1);

    FUZZ_CHECK(bytes);
    if (length)
        memcpy(bytes, hello, length);
    fixture->request = (struct okv_request){
        .listener = &fixture->listener, .hello = bytes, .hello_length = length};
    snprintf(fixture->request.address, sizeof fixture->request.address, "%s", address);
    fixture->has_request = fixture->accepting = true;
    atomic_store(&fixture->acceptor.has_to_stop, true);
    fixture->tasks[0].run(fixture->tasks[0].user);
    fixture->accepting = false;
    free(bytes);
    FUZZ_CHECK(fixture->core.server->admission->clients <= FIXTURE_CLIENTS_MAX);
    FUZZ_CHECK(okv_reply_caches_count(world->core.database->reply_caches) <= FIXTURE_REPLY_CACHES);
}

/* ---- the end of a connection ---- */

void fixture_break(struct fixture_connection *c, int status)
{
    if (c->ended)
        return;
    c->ended = true;
    c->status = status;
}

/* Writes too late get no answer; of other clients it is not known which those are. */
static bool is_owed(const struct fixture_connection *c, uint16_t number)
{
    const struct fixture_request_slot *request_slot = &c->request_slots[number];
    const struct okv_request_message *request = &request_slot->request;
    return request_slot->busy &&
           (!okv_opcode_is_write(request->opcode) ||
            (c->id < FIXTURE_HONEST && request->sequence > world->clients[c->id].answered[number]));
}

/* A server that ends without haste has answered all that it got. */
static void check_all_answered(const struct fixture_connection *c)
{
    bool is_apart = c->replaced || c->ended || c->may_end || c->wrong;

    for (uint16_t i = 0; i < FIXTURE_REQUEST_SLOTS && world->in_time && !is_apart; i++)
        FUZZ_CHECK(!is_owed(c, i));
}

static void transport_close(struct okv_conn *conn)
{
    struct fixture_connection *c = of_conn(conn);

    FUZZ_CHECK(!c->closed);
    check_all_answered(c);
    c->closed = true;
    fixture_break(c, OKV_EDISCONNECTED);
}

bool fixture_flush_next(struct fixture_connection *c, struct okv_event *event)
{
    if (!c->in_use || !c->opened || !c->ended || c->finished)
        return false;
    if (c->rendezvous_count > 0) {
        fixture_rendezvous_end(world, c, 0, OKV_EDISCONNECTED, event);
        return true;
    }
    *event = (struct okv_event){.type = OKV_EVENT_CLOSED, .status = c->status, .conn = &c->base};
    c->finished = true;
    return true;
}

static void request_slot_free(struct fixture_request_slot *request_slot)
{
    free(request_slot->bytes);
    *request_slot = (struct fixture_request_slot){.busy = false};
}

static void transport_conn_destroy(struct okv_conn *conn)
{
    struct fixture_connection *c = of_conn(conn);

    FUZZ_CHECK(c->finished && c->rendezvous_count == 0 && c->held == 0);
    for (unsigned i = 0; i < FIXTURE_REQUEST_SLOTS; i++)
        request_slot_free(&c->request_slots[i]);
    free(c->out);
    c->in_use = false;
}

/* ---- messages of clients ---- */

/* Remembers what is to be answered. Returns whether it may end the connection. */
static bool request_slot_fill(struct fixture_request_slot *request_slot, uint32_t immediate,
                              const uint8_t *bytes, uint32_t length)
{
    *request_slot = (struct fixture_request_slot){.busy = true, .batch = world->batch};
    request_slot->bytes = malloc(length ? length : 1);
    FUZZ_CHECK(request_slot->bytes);
    memcpy(request_slot->bytes, bytes, length);
    int rc = okv_request_decode(immediate, request_slot->bytes, length, &request_slot->request);
    request_slot->unsupported = rc == OKV_EUNSUPPORTED;
    request_slot->malformed = rc && rc != OKV_EUNSUPPORTED;
    unsigned opcode = request_slot->request.opcode; /* here are no hits and no other servers */
    return request_slot->malformed || (opcode >= OKV_OP_HITS && !request_slot->unsupported) ||
           (opcode == OKV_OP_FLUSH && request_slot->request.value_length % 8 != 0);
}

void fixture_send(struct fixture_connection *c, uint32_t immediate, bool has_immediate,
                  uint8_t *bytes, uint32_t length, struct okv_event *event)
{
    uint16_t number = okv_immediate_slot(immediate);

    *event = (struct okv_event){.type = OKV_EVENT_RECV,
                                .conn = &c->base,
                                .immediate = immediate,
                                .has_immediate = has_immediate,
                                .data = bytes,
                                .length = length};
    c->held++;
    if (has_immediate && fixture_is_repeated(c, immediate, bytes, length))
        return;
    if (number < c->request_slot_count && c->request_slots[number].busy && !is_owed(c, number))
        c->unsure = c->may_end = true; /* it may have been too late, and left without a word */
    else if (number >= c->request_slot_count || c->request_slots[number].busy || !has_immediate ||
             immediate != okv_immediate(okv_immediate_opcode(immediate), number))
        c->wrong = true;
    else
        c->may_end |= request_slot_fill(&c->request_slots[number], immediate, bytes, length);
}

static void transport_recv_release(struct okv_endpoint *endpoint, const struct okv_event *event)
{
    struct fixture_connection *c = of_conn(event->conn);

    FUZZ_CHECK(endpoint == &world->endpoint && c->held > 0);
    c->held--;
    free((void *)event->data);
}

/* ---- answers ---- */

static uint8_t *transport_send_buffer(struct okv_conn *conn)
{
    struct fixture_connection *c = of_conn(conn);

    if (c->no_buffers && !c->out)
        return NULL;
    if (!c->out)
        c->out = malloc(conn->slot_size);
    FUZZ_CHECK(c->out);
    return c->out;
}

/* What was put is what is got. */
static void check_put(const struct okv_request_message *request,
                      const struct okv_reply_message *reply)
{
    uint8_t got[OKV_SLOT_SIZE_DEFAULT];
    uint64_t version = 0;
    uint32_t length = 0;

    FUZZ_CHECK(okv_store_get(&world->core.database->store, NULL, request->key, request->key_length,
                             got, sizeof got, &length, &version) == 0);
    FUZZ_CHECK(length == request->value_length && version == reply->version && version != 0);
    FUZZ_CHECK(length == 0 || memcmp(got, request->value, length) == 0);
}

/* Of a client whose sequences are known. */
static void check_write(const struct fixture_client *client,
                        const struct fixture_request_slot *request_slot,
                        const struct okv_reply_message *reply)
{
    const struct okv_request_message *request = &request_slot->request;
    uint64_t answered = client->answered[reply->slot];
    bool is_rendezvous = request->flags & OKV_REQUEST_RENDEZVOUS;

    FUZZ_CHECK(is_rendezvous || reply->sequence >= answered);
    FUZZ_CHECK(reply->sequence <= answered || reply->opcode == request->opcode);
    if (reply->opcode == OKV_OP_INCR && reply->status == 0)
        FUZZ_CHECK(reply->value_length == 8 && okv_get_u64(reply->value) == 1);
    if (reply->sequence > answered && request->opcode == OKV_OP_PUT && !is_rendezvous &&
        reply->status == 0 && request->ttl_ms == 0)
        check_put(request, reply);
}

static void note_answered(const struct fixture_connection *c, const struct okv_reply_message *reply)
{
    if (c->id == FIXTURE_IDS || reply->slot >= FIXTURE_REQUEST_SLOTS ||
        !okv_opcode_is_write(reply->opcode))
        return;
    uint64_t *answered = &world->clients[c->id].answered[reply->slot];
    if (reply->sequence > *answered)
        *answered = reply->sequence;
}

static void check_reply(struct fixture_connection *c, const struct okv_reply_message *reply)
{
    FUZZ_CHECK(reply->slot < c->request_slot_count);
    struct fixture_request_slot *request_slot = &c->request_slots[reply->slot];
    bool is_write = okv_opcode_is_write(request_slot->request.opcode);

    FUZZ_CHECK(!c->replaced && request_slot->busy && !request_slot->malformed &&
               request_slot->request.opcode != OKV_OP_GOODBYE);
    FUZZ_CHECK(reply->status != OKV_ECORRUPT && reply->sequence == request_slot->request.sequence);
    FUZZ_CHECK(!request_slot->unsupported || reply->status == OKV_EUNSUPPORTED);
    FUZZ_CHECK(is_write || reply->opcode == request_slot->request.opcode);
    if (c->id < FIXTURE_HONEST && is_write)
        check_write(&world->clients[c->id], request_slot, reply);
    note_answered(c, reply);
    request_slot_free(request_slot);
}

static int transport_post_send(struct okv_conn *conn, uint32_t length, uint32_t immediate)
{
    struct fixture_connection *c = of_conn(conn);
    struct okv_reply_message reply;

    FUZZ_CHECK(c->out && !c->closed && length <= OKV_SLOT_SIZE_DEFAULT);
    FUZZ_CHECK(okv_reply_decode(immediate, c->out, length, &reply) == 0);
    if (c->ended) {
        note_answered(c, &reply);
        return OKV_EDISCONNECTED;
    }
    conn->unacknowledged++;
    if (reply.opcode == OKV_OP_GOODBYE) {
        FUZZ_CHECK(!c->told_goodbye && atomic_load(&world->core.server->stopping));
        c->told_goodbye = true;
    } else if (c->unsure) {
        note_answered(c, &reply);
    } else {
        check_reply(c, &reply);
    }
    free(c->out);
    c->out = NULL;
    return 0;
}

static void transport_flush(struct okv_conn *conn)
{
    FUZZ_CHECK(!of_conn(conn)->closed);
}

static int transport_heartbeat(struct okv_conn *conn)
{
    FUZZ_CHECK(!of_conn(conn)->closed);
    conn->unacknowledged++;
    return 0;
}

/* ---- rendezvous reads ---- */

static int transport_rendezvous(struct okv_conn *conn, const struct okv_rendezvous *rendezvous)
{
    struct fixture_connection *c = of_conn(conn);

    FUZZ_CHECK(!c->closed && c->rendezvous_count < OKV_RENDEZVOUS_MAX);
    FUZZ_CHECK(okv_range_inside(rendezvous->offset, rendezvous->length, FIXTURE_REGION));
    if (c->ended)
        return OKV_EDISCONNECTED;
    if (fuzz_rarely(world->input, 8))
        return OKV_EUNSUPPORTED;
    c->rendezvous_reads[c->rendezvous_count++] = *rendezvous;
    return 0;
}

void fixture_rendezvous_end(struct fixture *fixture, struct fixture_connection *c, unsigned which,
                            int status, struct okv_event *event)
{
    const struct okv_rendezvous rendezvous = c->rendezvous_reads[which];
    const struct okv_session *session = c->base.user;
    const struct okv_request_message *request = &session->long_writes[rendezvous.cookie].request;

    c->rendezvous_reads[which] = c->rendezvous_reads[--c->rendezvous_count];
    *event = (struct okv_event){.type = OKV_EVENT_RENDEZVOUS_DONE,
                                .status = status,
                                .conn = &c->base,
                                .cookie = rendezvous.cookie};
    if (status)
        return;
    memset((uint8_t *)fixture->core.database->region.base + rendezvous.offset,
           c->replaced || c->wrong ? LATE : 'p', rendezvous.length);
    uint64_t *answered = &fixture->clients[c->id < FIXTURE_IDS ? c->id : 0].answered[0];
    if (c->id < FIXTURE_IDS && request->sequence > answered[request->slot])
        answered[request->slot] = request->sequence;
}

/* ---- the endpoint ---- */

static int transport_endpoint_create(struct okv_listener *listener,
                                     const struct okv_message_limits *limits, unsigned max_conns,
                                     struct okv_endpoint **out, struct okv_diag *diag)
{
    (void)listener, (void)limits, (void)diag;
    FUZZ_CHECK(max_conns > FIXTURE_CLIENTS_MAX);
    *out = &world->endpoint;
    return 0;
}

static void transport_endpoint_destroy(struct okv_endpoint *endpoint)
{
    FUZZ_CHECK(endpoint == &world->endpoint);
}

static int transport_arm(struct okv_endpoint *endpoint)
{
    FUZZ_CHECK(endpoint == &world->endpoint);
    return 0;
}

/* The input has ended: so does the server, and every connection that it ends. */
static int finish(struct fixture *fixture, struct okv_event *events, int max)
{
    int n = 0;

    bool stopping = atomic_exchange(&fixture->core.server->stopping, true);
    if (!fixture->ended)
        fixture->woken = true;
    fixture->in_time |= !stopping;
    fixture->ended = true;
    for (unsigned i = 0; i < FIXTURE_CONNECTIONS; i++) {
        struct fixture_connection *c = &fixture->connections[i];
        c->no_buffers = false;
        c->base.unacknowledged = 0;
        c->base.acknowledged++;
        while (n < max && c->in_use && !c->ended && c->rendezvous_count > 0)
            fixture_rendezvous_end(fixture, c, 0, 0, &events[n++]);
        while (n < max && fixture_flush_next(c, &events[n]))
            n++;
    }
    return n;
}

static int transport_poll(struct okv_endpoint *endpoint, struct okv_event *events, int max)
{
    struct fixture *fixture = world;
    int n = 0;

    FUZZ_CHECK(endpoint == &fixture->endpoint);
    fixture->batch++;
    for (unsigned i = 0; i < FIXTURE_CONNECTIONS; i++) {
        struct fixture_connection *c = &fixture->connections[i];
        FUZZ_CHECK(!c->in_use || !c->wrong || c->ended);
        if (!c->in_use || c->opened || n == max)
            continue;
        c->opened = true;
        events[n++] = (struct okv_event){.type = OKV_EVENT_OPENED, .conn = &c->base};
    }
    if (fixture->input->left == 0)
        return n + finish(fixture, events + n, max - n);
    return n + fixture_act(fixture, events + n, max - n);
}

static const struct okv_transport_ops ops = {
    .name = "hostile",
    .endpoint_create = transport_endpoint_create,
    .endpoint_destroy = transport_endpoint_destroy,
    .next_request = take_request,
    .accept = transport_accept,
    .reject = transport_reject,
    .close = transport_close,
    .conn_destroy = transport_conn_destroy,
    .rendezvous = transport_rendezvous,
    .send_buffer = transport_send_buffer,
    .post_send = transport_post_send,
    .flush = transport_flush,
    .heartbeat = transport_heartbeat,
    .poll = transport_poll,
    .recv_release = transport_recv_release,
    .arm = transport_arm,
};

/* ---- begin and end ---- */

void fixture_open(struct fixture *fixture, struct fuzz_input *input,
                  const struct okv_store_params *params)
{
    memset(fixture, 0, sizeof *fixture);
    world = fixture;
    fixture->input = input;
    fuzz_time_begin(is_ready, fixture);
    server_core_open(&fixture->core, params);
    struct okv_server *server = fixture->core.server;
    struct okv_reply_caches *caches = fixture->core.database->reply_caches;
    okv_reply_caches_fini(caches);
    FUZZ_CHECK(okv_reply_caches_init(caches, FIXTURE_REPLY_CACHES, 1000, 7) == 0);
    FUZZ_CHECK(okv_admission_init(server->admission, &FIXTURE_LIMITS) == 0);
    server->limits = (struct okv_message_limits){.slot_size = OKV_SLOT_SIZE_DEFAULT,
                                                 .credits = FIXTURE_REQUEST_SLOTS};
    server->config.workers = 1;
    server->config.max_clients = FIXTURE_CLIENTS_MAX;
    server->config.keepalive_ms = 600;
    server->config.idle_s = 5;
    server->config.remember_s = 1;
    server->config.drain_ms = 200;
    server->workers = &fixture->worker;
    fixture->endpoint = (struct okv_endpoint){.ops = &ops, .fd = ENDPOINT_FD, .max_conns = 1000};
    fixture->listener = (struct okv_listener){.ops = &ops, .fd = LISTENER_FD};
    server->listeners[0] = &fixture->listener;
    server->listener_count = 1;
    FUZZ_CHECK(okv_worker_init(&fixture->worker, server, NULL) == 0);
    FUZZ_CHECK(okv_acceptor_start(&fixture->acceptor, server, NULL) == 0);
    FUZZ_CHECK(okv_worker_start(&fixture->worker, NULL) == 0);
}

static void check_applied_once(void *context, const struct okv_entry *entry)
{
    (void)context;
    FUZZ_CHECK(entry->value_length == 0 || *(const uint8_t *)entry->value != LATE);
    if (entry->key_length > strlen(FIXTURE_ONCE) &&
        memcmp(entry->key, FIXTURE_ONCE, strlen(FIXTURE_ONCE)) == 0)
        FUZZ_CHECK(entry->value_length == 1 && *(const uint8_t *)entry->value == '1');
}

void fixture_audit(struct fixture *fixture)
{
    struct okv_store *store = &fixture->core.database->store;
    struct store_audit found;
    unsigned long_writes = 0;

    for (const struct fixture_connection *c = fixture->connections;
         c < fixture->connections + FIXTURE_CONNECTIONS; c++)
        if (c->in_use)
            long_writes += ((const struct okv_session *)c->base.user)->long_write_count;
    store_audit_run(fixture->core.database->region.base, FIXTURE_REGION, store->table.inline_max,
                    check_applied_once, NULL, &found);
    FUZZ_CHECK(found.items == atomic_load(&store->totals.items));
    FUZZ_CHECK(found.user_bytes == atomic_load(&store->totals.user_bytes));
    FUZZ_CHECK(found.buckets == atomic_load(&store->bucket_count));
    FUZZ_CHECK(found.references == atomic_load(&store->totals.references));
    FUZZ_CHECK(found.overflow_pages == atomic_load(&store->totals.overflow_pages));
    FUZZ_CHECK(found.expiring == atomic_load(&store->totals.expiring));
    uint64_t segment = (uint64_t)store->table.segment_buckets * store->table.bucket_size;
    uint64_t used = found.class_bytes + (store->reserve ? store_size_class(segment) : 0);
    FUZZ_CHECK(long_writes > 0 || okv_heap_used(&store->heap) == used);
}

static uint64_t count_closed(struct okv_stats *stats)
{
    uint64_t total = 0;

#define ADD_CLOSED(name, counter) total += atomic_load(&stats->closed_##counter);
    OKV_SESSION_END_LIST(ADD_CLOSED)
#undef ADD_CLOSED
    return total;
}

void fixture_run(struct fixture *fixture)
{
    const struct okv_server *server = fixture->core.server;
    struct okv_stats *stats = &fixture->core.server->stats;

    fixture->tasks[1].run(fixture->tasks[1].user);
    okv_acceptor_stop(&fixture->acceptor);
    okv_worker_fini(&fixture->worker);
    for (unsigned i = 0; i < FIXTURE_CONNECTIONS; i++)
        FUZZ_CHECK(!fixture->connections[i].in_use);
    FUZZ_CHECK(atomic_load(&stats->sessions) == 0 && atomic_load(&stats->credits_granted) == 0 &&
               atomic_load(&stats->requests_waiting) == 0);
    FUZZ_CHECK(atomic_load(&stats->sessions_total) == count_closed(stats));
    FUZZ_CHECK(server->admission->clients == 0);
    fixture_audit(fixture);
}

void fixture_close(struct fixture *fixture)
{
    okv_admission_fini(fixture->core.server->admission);
    server_core_close(&fixture->core);
    fuzz_time_end();
}
