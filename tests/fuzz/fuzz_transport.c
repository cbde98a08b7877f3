#include "tests/fuzz/fuzz_transport.h"

#include "shared/base/error.h"
#include "tests/fuzz/fuzz_time.h"

#define EVENTS_MAX 256
#define SEQUENCES 256
#define UNASKED_MAX 64
#define FAKE_FD 1000
#define STEP_NS 1000000

struct okv_memory {
    struct okv_memory *next;
    uint8_t *base;
    size_t length;
};

struct advert {
    struct okv_advert base;
    struct advert *next;
    const uint8_t *bytes;
    size_t length;
};

/* An event on its way; a READ is done when it is delivered. */
struct held {
    struct okv_event event;
    struct okv_read read;
};

struct connection {
    struct okv_conn base;
    struct okv_endpoint endpoint;
    struct connection *next;
    struct okv_memory *memory;
    struct advert *adverts;
    uint8_t *send_room;
    bool closing;
    bool probing;
    unsigned reads;
    unsigned messages_held;
    uint32_t credits; /* that it was granted */
    bool resumed;
    uint64_t hash_seed;
    uint64_t request_slots[OKV_CREDITS_MAX]; /* sequence of the request under way; 0: none */
    unsigned polls;
    unsigned count;
    struct held held[EVENTS_MAX];
};

struct connecting {
    struct okv_connecting base;
    struct okv_connect_params params;
    uint8_t hello[OKV_HELLO_MAX];
};

/* A request that was sent. */
struct sent {
    uint64_t sequence;
    unsigned opcode;
    uint16_t request_slot;
};

/* okv_transport_for() has no context. */
static struct {
    struct hostile *server;
    struct connection *connections;
    unsigned connectings;
    unsigned reads_outside;
    uint64_t hash_seed; /* of the last connection that was used */
    uint64_t sequence;  /* the highest one */
    struct sent sent[SEQUENCES];
} world;

static const struct okv_transport_ops ops;

void fuzz_transport_reset(struct hostile *server)
{
    world.server = server;
    world.connections = NULL;
    world.connectings = 0;
    world.reads_outside = 0;
    world.hash_seed = 0;
    world.sequence = 0;
    memset(world.sent, 0, sizeof world.sent);
}

void fuzz_transport_check_end(void)
{
    FUZZ_CHECK(!world.connections);
    FUZZ_CHECK(world.connectings == 0);
}

unsigned fuzz_transport_reads_outside(void)
{
    return world.reads_outside;
}

bool fuzz_transport_is_ready(void *context, int fd)
{
    (void)context, (void)fd;
    for (struct connection *c = world.connections; c; c = c->next)
        if (c->count > 0)
            return true;
    return false;
}

static struct connection *of_endpoint(struct okv_endpoint *endpoint)
{
    struct connection *c = world.connections;

    while (c && &c->endpoint != endpoint)
        c = c->next;
    FUZZ_CHECK(c);
    return c;
}

static struct connection *of_conn(struct okv_conn *conn)
{
    return of_endpoint(conn->endpoint);
}

/* ---- events ---- */

static void push(struct connection *c, const struct okv_event *event, const struct okv_read *read)
{
    static const struct okv_read none;

    FUZZ_CHECK(c->count < EVENTS_MAX);
    c->held[c->count] = (struct held){.event = *event, .read = read ? *read : none};
    c->held[c->count++].event.conn = &c->base;
}

static struct held take(struct connection *c, unsigned i)
{
    struct held held = c->held[i];

    c->count--;
    memmove(&c->held[i], &c->held[i + 1], (c->count - i) * sizeof held);
    return held;
}

/* What is under way is flushed, messages on their way are lost, CLOSED is the last. */
static void end(struct connection *c, int status)
{
    const struct okv_event closed = {.type = OKV_EVENT_CLOSED, .status = status};
    unsigned kept = 0;

    if (c->closing)
        return;
    c->closing = true;
    for (unsigned i = 0; i < c->count; i++) {
        struct held held = c->held[i];
        if (held.event.type == OKV_EVENT_RECV) {
            free((void *)held.event.data);
            continue;
        }
        held.event.status = OKV_EDISCONNECTED;
        c->held[kept++] = held;
    }
    c->count = kept;
    push(c, &closed, NULL);
}

static void say(struct connection *c, const uint8_t *bytes, uint32_t length, uint32_t immediate,
                bool has_immediate)
{
    uint8_t *data = malloc(length ? length : 1);
    struct okv_event event = {
        .type = OKV_EVENT_RECV,
        .data = data,
        .length = length,
        .immediate = immediate,
        .has_immediate = has_immediate,
    };

    FUZZ_CHECK(data);
    memcpy(data, bytes, length);
    push(c, &event, NULL);
}

static bool is_registered(const struct connection *c, const struct okv_read *read)
{
    const struct okv_memory *memory = c->memory;

    while (memory && memory != read->memory)
        memory = memory->next;
    const uint8_t *to = read->destination;
    return memory && to >= memory->base && read->length <= memory->length &&
           (size_t)(to - memory->base) <= memory->length - read->length;
}

/* Memory that is not registered any more is out of the device's reach. */
static void finish_read(struct connection *c, struct held *held)
{
    c->reads--;
    c->base.unacknowledged--;
    c->base.acknowledged += held->event.status == 0;
    if (held->event.status == 0 && is_registered(c, &held->read))
        hostile_read(world.server, held->read.offset, held->read.destination, held->read.length);
}

static void look_at_adverts(const struct connection *c)
{
    volatile uint8_t sum = 0;

    for (struct advert *e = c->adverts; e; e = e->next)
        for (size_t i = 0; i < e->length; i += 509)
            sum = (uint8_t)(sum + e->bytes[i]);
}

/* What a server says or does unasked. */
static void act_unasked(struct connection *c)
{
    static const int ends[] = {OKV_EDISCONNECTED, OKV_ETIMEDOUT, OKV_EIO, OKV_EPROTO};
    struct fuzz_input *input = world.server->input;
    uint8_t bytes[64];
    uint8_t choice = c->polls++ % 8 ? 0 : fuzz_u8(input);

    if (world.server->reads > HOSTILE_READS)
        end(c, OKV_EDISCONNECTED);
    if (choice < 0xe0 || c->closing || c->count > UNASKED_MAX)
        return;
    if (choice >= 0xf8) {
        end(c, ends[choice & 3]);
    } else if (choice >= 0xf0) {
        const struct okv_reply_message goodbye = {.status =
                                                      choice & 1 ? OKV_EDENIED : OKV_ESHUTDOWN};
        say(c, bytes, okv_reply_encode(&goodbye, bytes),
            okv_immediate(OKV_OP_GOODBYE, 0) | OKV_IMMEDIATE_REPLY, true);
    } else {
        fuzz_copy(input, bytes, sizeof bytes);
        say(c, bytes, choice & 1 ? (uint32_t)OKV_REPLY_HEADER : choice & 63, fuzz_u32(input),
            choice & 2);
    }
}

static void receive(struct connection *c, const struct okv_event *event)
{
    struct okv_reply_message reply;

    c->messages_held++;
    if (okv_reply_decode(event->immediate, event->data, event->length, &reply) == 0 &&
        reply.slot < c->credits && c->request_slots[reply.slot] == reply.sequence)
        c->request_slots[reply.slot] = 0;
}

static int transport_poll(struct okv_endpoint *endpoint, struct okv_event *events, int max)
{
    struct connection *c = of_endpoint(endpoint);
    int n = 0;

    look_at_adverts(c);
    act_unasked(c);
    if (c->probing) {
        c->probing = false;
        c->base.unacknowledged--;
        c->base.acknowledged++;
    }
    if (c->count == 0)
        return 0;
    uint8_t choice = fuzz_u8(world.server->input);
    if ((choice & 0x30) == 0x30 && !c->closing)
        return 0;
    int wanted = choice & 8 ? 1 + (choice & 7) : max;
    while (n < max && n < wanted && c->count > 0) {
        bool last = c->closing && c->count == 1;
        struct held held = take(c, choice & 0x40 && !last && !c->closing ? c->count - 1 : 0);
        if (held.event.type == OKV_EVENT_READ)
            finish_read(c, &held);
        if (held.event.type == OKV_EVENT_RECV)
            receive(c, &held.event);
        events[n++] = held.event;
    }
    return n;
}

static void transport_recv_release(struct okv_endpoint *endpoint, const struct okv_event *event)
{
    struct connection *c = of_endpoint(endpoint);

    FUZZ_CHECK(c->messages_held > 0);
    c->messages_held--;
    free((void *)event->data);
}

static int transport_arm(struct okv_endpoint *endpoint)
{
    of_endpoint(endpoint);
    return 0;
}

static void transport_wake(struct okv_endpoint *endpoint)
{
    of_endpoint(endpoint);
}

/* ---- connecting ---- */

static int transport_connect(const struct okv_uri *uri, const struct okv_connect_params *params,
                             struct okv_answer *welcome, struct okv_conn **out,
                             struct okv_diag *diag)
{
    struct okv_hello hello;
    uint8_t choice = fuzz_u8(world.server->input);
    int rc = hostile_connect(world.server, params, welcome);

    (void)uri;
    FUZZ_CHECK(okv_hello_decode(params->hello, params->hello_length, &hello) == 0);
    if (rc)
        return okv_diag_set(diag, rc, "the connection was refused");
    struct connection *c = calloc(1, sizeof *c);
    FUZZ_CHECK(c);
    c->endpoint = (struct okv_endpoint){.ops = &ops, .fd = FAKE_FD};
    c->base = (struct okv_conn){
        .ops = &ops,
        .endpoint = &c->endpoint,
        .slot_size = params->limits.slot_size,
        .max_reads = 1 + choice % 32,
        .how = "hostile",
    };
    c->credits = world.server->welcome.credits;
    c->resumed = world.server->welcome.resumed;
    c->hash_seed = world.server->welcome.hash_seed;
    c->next = world.connections;
    world.connections = c;
    *out = &c->base;
    return 0;
}

static int transport_connect_start(const struct okv_uri *uri,
                                   const struct okv_connect_params *params,
                                   struct okv_connecting **out, struct okv_diag *diag)
{
    struct connecting *connecting = calloc(1, sizeof *connecting);

    (void)uri, (void)diag;
    FUZZ_CHECK(connecting && params->hello_length <= OKV_HELLO_MAX);
    connecting->base = (struct okv_connecting){.ops = &ops, .fd = -1};
    connecting->params = *params;
    memcpy(connecting->hello, params->hello, params->hello_length);
    connecting->params.hello = connecting->hello;
    world.connectings++;
    *out = &connecting->base;
    return 0;
}

static void transport_connect_cancel(struct okv_connecting *connecting)
{
    if (!connecting)
        return;
    world.connectings--;
    free((struct connecting *)connecting);
}

static int transport_connect_step(struct okv_connecting *base, struct okv_answer *welcome,
                                  struct okv_conn **out, struct okv_diag *diag)
{
    struct connecting *connecting = (struct connecting *)base;
    uint64_t now = fuzz_time_ns();
    int rc = OKV_ETIMEDOUT;

    if (now < connecting->params.deadline_ns) {
        if (fuzz_rarely(world.server->input, 4)) {
            base->wake_ns = now + STEP_NS;
            return OKV_EAGAIN;
        }
        rc = transport_connect(NULL, &connecting->params, welcome, out, diag);
    }
    transport_connect_cancel(base);
    return rc;
}

static int transport_set_remote(struct okv_conn *conn, uint64_t address, uint64_t length,
                                uint32_t rkey)
{
    (void)address, (void)rkey;
    conn->remote_length = length;
    return fuzz_rarely(world.server->input, 64) ? OKV_EPROTO : 0;
}

static void transport_close(struct okv_conn *conn)
{
    end(of_conn(conn), OKV_EDISCONNECTED);
}

static void transport_conn_destroy(struct okv_conn *conn)
{
    struct connection *c = of_conn(conn), **at = &world.connections;

    FUZZ_CHECK(!c->memory);
    FUZZ_CHECK(!c->adverts);
    FUZZ_CHECK(c->messages_held == 0);
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    for (unsigned i = 0; i < c->count; i++)
        free((void *)c->held[i].event.data);
    free(c->send_room);
    free(c);
}

/* ---- memory ---- */

static int transport_memory_register(struct okv_endpoint *endpoint, void *base, size_t length,
                                     struct okv_memory **out)
{
    struct connection *c = of_endpoint(endpoint);
    struct okv_memory *memory = malloc(sizeof *memory);

    FUZZ_CHECK(memory && length > 0);
    if (fuzz_rarely(world.server->input, 128)) {
        free(memory);
        return OKV_ENOMEM;
    }
    *memory = (struct okv_memory){.next = c->memory, .base = base, .length = length};
    c->memory = memory;
    *out = memory;
    return 0;
}

static void transport_memory_unregister(struct okv_memory *memory)
{
    for (struct connection *c = world.connections; c; c = c->next) {
        struct okv_memory **at = &c->memory;
        while (*at && *at != memory)
            at = &(*at)->next;
        if (*at) {
            *at = memory->next;
            free(memory);
            return;
        }
    }
    FUZZ_CHECK(!"memory of a connection");
}

static int transport_advertise(struct okv_conn *conn, const void *base, size_t length,
                               struct okv_advert **out)
{
    struct connection *c = of_conn(conn);
    struct advert *advert = malloc(sizeof *advert);

    FUZZ_CHECK(advert);
    if (c->closing || fuzz_rarely(world.server->input, 32)) {
        free(advert);
        return c->closing ? OKV_EDISCONNECTED : OKV_EIO;
    }
    *advert = (struct advert){
        .base = {.address = 0x7000, .key = 1}, .next = c->adverts, .bytes = base, .length = length};
    c->adverts = advert;
    *out = &advert->base;
    return 0;
}

static void transport_withdraw(struct okv_advert *advert, bool is_read)
{
    (void)is_read;
    for (struct connection *c = world.connections; c && advert; c = c->next) {
        struct advert **at = &c->adverts;
        while (*at && &(*at)->base != advert)
            at = &(*at)->next;
        if (*at) {
            *at = (*at)->next;
            free((struct advert *)advert);
            return;
        }
    }
    FUZZ_CHECK(!advert);
}

/* ---- READs and messages ---- */

static int transport_post_read(struct okv_conn *conn, const struct okv_read *reads, unsigned count)
{
    struct connection *c = of_conn(conn);

    if (c->closing)
        return OKV_EDISCONNECTED;
    for (unsigned i = 0; i < count; i++) {
        FUZZ_CHECK(is_registered(c, &reads[i]));
        if (!okv_range_inside(reads[i].offset, reads[i].length, conn->remote_length)) {
            world.reads_outside++;
            return OKV_EINVAL;
        }
    }
    if (c->reads + count > conn->max_reads)
        return OKV_EAGAIN;
    for (unsigned i = 0; i < count; i++) {
        const struct okv_event event = {.type = OKV_EVENT_READ, .cookie = reads[i].cookie};
        c->reads++;
        conn->unacknowledged++;
        push(c, &event, &reads[i]);
    }
    return 0;
}

static uint8_t *transport_send_buffer(struct okv_conn *conn)
{
    struct connection *c = of_conn(conn);

    if (!c->send_room)
        c->send_room = malloc(conn->slot_size);
    FUZZ_CHECK(c->send_room);
    return c->send_room;
}

/* One request at a time on each request slot that was granted; one that is sent again is a write
 * whose results the server knows, and stays what it was. */
static void check_request(struct connection *c, const struct okv_request_message *request)
{
    struct sent *sent = &world.sent[request->sequence % SEQUENCES];

    FUZZ_CHECK(request->slot < c->credits && c->request_slots[request->slot] == 0);
    bool resumed = c->resumed && c->hash_seed == world.hash_seed;
    world.hash_seed = c->hash_seed;
    if (request->opcode == OKV_OP_GOODBYE)
        return;
    c->request_slots[request->slot] = request->sequence;
    if (request->sequence > world.sequence) {
        world.sequence = request->sequence;
        *sent = (struct sent){request->sequence, request->opcode, request->slot};
        return;
    }
    bool is_write = request->opcode != OKV_OP_PING && request->opcode != OKV_OP_STAT &&
                    request->opcode != OKV_OP_GET;
    FUZZ_CHECK(resumed && is_write && sent->sequence == request->sequence &&
               sent->opcode == request->opcode && sent->request_slot == request->slot);
}

static int transport_post_send(struct okv_conn *conn, uint32_t length, uint32_t immediate)
{
    struct connection *c = of_conn(conn);
    struct okv_request_message request;
    uint8_t room[OKV_SLOT_SIZE_DEFAULT];
    bool has_immediate;

    FUZZ_CHECK(c->send_room && length <= world.server->welcome.slot_size);
    if (c->closing)
        return OKV_EDISCONNECTED;
    FUZZ_CHECK(okv_request_decode(immediate, c->send_room, length, &request) == 0);
    check_request(c, &request);
    conn->acknowledged++;
    if (request.opcode != OKV_OP_GOODBYE &&
        hostile_reply(world.server, &request, room, &length, &immediate, &has_immediate))
        say(c, room, length, immediate, has_immediate);
    free(c->send_room);
    c->send_room = NULL;
    return 0;
}

static void transport_flush(struct okv_conn *conn)
{
    of_conn(conn);
}

static int transport_heartbeat(struct okv_conn *conn)
{
    struct connection *c = of_conn(conn);

    if (c->closing)
        return OKV_EDISCONNECTED;
    conn->unacknowledged += !c->probing;
    c->probing = true;
    return 0;
}

static const struct okv_transport_ops ops = {
    .name = "hostile",
    .connect_start = transport_connect_start,
    .connect_step = transport_connect_step,
    .connect_cancel = transport_connect_cancel,
    .set_remote = transport_set_remote,
    .close = transport_close,
    .conn_destroy = transport_conn_destroy,
    .memory_register = transport_memory_register,
    .memory_unregister = transport_memory_unregister,
    .post_read = transport_post_read,
    .advertise = transport_advertise,
    .withdraw = transport_withdraw,
    .send_buffer = transport_send_buffer,
    .post_send = transport_post_send,
    .flush = transport_flush,
    .heartbeat = transport_heartbeat,
    .poll = transport_poll,
    .recv_release = transport_recv_release,
    .arm = transport_arm,
    .wake = transport_wake,
};

const struct okv_transport_ops *__wrap_okv_transport_for(enum okv_scheme scheme);

const struct okv_transport_ops *__wrap_okv_transport_for(enum okv_scheme scheme)
{
    (void)scheme;
    return &ops;
}
