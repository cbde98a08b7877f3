#include "tests/support/chaos_transport.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/error.h"
#include "tests/support/random.h"

/* Events of one connection that are held back. */
#define HELD_MAX 256u
#define DELAY_POLLS_DEFAULT 3u

/* A connect that is to fail does so at one of its first steps. */
#define STEPS_MAX 20u

struct held {
    struct okv_event event;
    unsigned polls; /* that it and all behind it still wait */
};

/* A connection that meets faults. */
struct chaos_link {
    struct chaos_link *next;
    struct chaos *chaos;
    const struct okv_transport_ops *real;
    struct okv_conn *conn;
    enum chaos_fault pending; /* of the request that is under way */
    bool silent;              /* requests are lost from here on, until the break */
    bool broken;              /* the real close was called; what was received is lost */
    unsigned first, count;    /* of the ring of held events */
    struct held held[HELD_MAX];
};

/* What the linker makes of calls to okv_transport_for(): see tests/CMakeLists.txt. */
const struct okv_transport_ops *__real_okv_transport_for(enum okv_scheme scheme);

static _Thread_local struct chaos *current;

static struct {
    pthread_once_t once;
    struct okv_transport_ops local, verbs, ofi, tcp;
} tables = {.once = PTHREAD_ONCE_INIT};

void chaos_init(struct chaos *chaos, uint64_t seed)
{
    *chaos = (struct chaos){.random = seed};
}

void chaos_fini(struct chaos *chaos)
{
    assert(!chaos->links);
    if (current == chaos)
        current = NULL;
}

void chaos_use(struct chaos *chaos)
{
    current = chaos;
}

void chaos_fail(struct chaos *chaos, enum chaos_call call, unsigned nth, int code)
{
    chaos->countdown[call] = nth;
    chaos->code[call] = code;
}

const char *chaos_fault_name(enum chaos_fault fault)
{
    static const char *const names[CHAOS_FAULTS] = {
        "none",
        "lost replies",
        "lost requests",
        "breaks after a request",
        "breaks after a reply",
        "breaks in a poll",
        "delays",
        "failed connects",
    };

    return names[fault];
}

/* ---- what happens when ---- */

static struct chaos_link **link_slot(const struct okv_endpoint *endpoint)
{
    struct chaos_link **slot = current ? &current->links : NULL;

    while (slot && *slot && (*slot)->conn->endpoint != endpoint)
        slot = &(*slot)->next;
    return slot;
}

/* NULL: the connection meets no faults. */
static struct chaos_link *link_of(const struct okv_endpoint *endpoint)
{
    struct chaos_link **slot = link_slot(endpoint);

    return slot ? *slot : NULL;
}

static bool strikes(struct chaos *chaos, enum chaos_fault fault)
{
    uint32_t one_in = chaos->one_in[fault];

    return one_in > 0 && random_below(&chaos->random, one_in) == 0;
}

/* The code with which this call is to fail, or 0. */
static int call_fails(struct chaos *chaos, enum chaos_call call)
{
    if (!chaos || chaos->countdown[call] == 0 || --chaos->countdown[call] > 0)
        return 0;
    chaos->failed[call]++;
    return chaos->code[call];
}

static void break_link(struct chaos_link *link, enum chaos_fault fault)
{
    struct chaos *chaos = link->chaos;

    if (link->broken)
        return;
    link->broken = true;
    link->pending = CHAOS_NONE;
    chaos->breaks++;
    chaos->injected[fault]++;
    link->real->close(link->conn);
    if (fault != CHAOS_NONE && fault != CHAOS_BREAK_POLL && chaos->on_break) {
        chaos_use(NULL);
        chaos->on_break(chaos->user, fault);
        chaos_use(chaos);
    }
}

static int fail_call(struct chaos_link *link, enum chaos_call call)
{
    int code = link ? call_fails(link->chaos, call) : 0;

    if (code == OKV_EDISCONNECTED || code == OKV_EIO)
        break_link(link, CHAOS_NONE);
    return code;
}

/* ---- connecting ---- */

static int chaos_connect_start(const struct okv_uri *uri, const struct okv_connect_params *params,
                               struct okv_connecting **out, struct okv_diag *diag)
{
    const struct okv_transport_ops *real = __real_okv_transport_for(uri->scheme);
    int code = call_fails(current, CHAOS_CONNECT_START);

    if (code)
        return okv_diag_set(diag, code, "a connect_start was made to fail");
    if (current)
        current->steps_left = strikes(current, CHAOS_FAIL_CONNECT)
                                  ? 1 + (unsigned)random_below(&current->random, STEPS_MAX)
                                  : 0;
    return real->connect_start(uri, params, out, diag);
}

static int link_create(const struct okv_transport_ops *real, struct okv_conn *conn)
{
    struct chaos_link *link = calloc(1, sizeof *link);

    if (!link)
        return OKV_ENOMEM;
    link->chaos = current;
    link->real = real;
    link->conn = conn;
    link->next = current->links;
    current->links = link;
    return 0;
}

static void chaos_conn_destroy(struct okv_conn *conn)
{
    struct chaos_link **slot = link_slot(conn->endpoint);
    struct chaos_link *link = slot ? *slot : NULL;

    if (link)
        *slot = link->next;
    free(link);
    conn->ops->conn_destroy(conn);
}

static int connected(const struct okv_transport_ops *real, struct okv_conn *conn,
                     struct okv_diag *diag)
{
    int code = link_create(real, conn);

    if (current->steps_left > 0) {
        current->steps_left = 0;
        current->injected[CHAOS_FAIL_CONNECT]++;
        code = okv_diag_set(diag, OKV_EDISCONNECTED, "a connect was made to fail at its end");
    }
    if (code)
        chaos_conn_destroy(conn);
    return code;
}

static int chaos_connect_step(struct okv_connecting *connecting, struct okv_answer *welcome,
                              struct okv_conn **out, struct okv_diag *diag)
{
    const struct okv_transport_ops *real = connecting->ops;
    int code = call_fails(current, CHAOS_CONNECT_STEP);

    if (code == 0 && current && current->steps_left > 0 && --current->steps_left == 0) {
        current->injected[CHAOS_FAIL_CONNECT]++;
        code = OKV_ETIMEDOUT;
    }
    if (code) {
        memset(welcome, 0, sizeof *welcome);
        real->connect_cancel(connecting);
        return okv_diag_set(diag, code, "a connect was made to fail");
    }
    code = real->connect_step(connecting, welcome, out, diag);
    return code || !current ? code : connected(real, *out, diag);
}

/* ---- requests ---- */

/* What befalls this request. The chosen one has its turn when the one before is over. */
static enum chaos_fault choose_fault(struct chaos_link *link)
{
    static const enum chaos_fault faults[] = {CHAOS_LOSE_REQUEST, CHAOS_BREAK_SENT,
                                              CHAOS_LOSE_REPLY, CHAOS_BREAK_REPLIED};
    struct chaos *chaos = link->chaos;
    enum chaos_fault fault = chaos->next;

    chaos->next = CHAOS_NONE;
    for (unsigned i = 0; fault == CHAOS_NONE && i < sizeof faults / sizeof faults[0]; i++) {
        if (strikes(chaos, faults[i]))
            fault = faults[i];
    }
    return fault;
}

static int chaos_post_send(struct okv_conn *conn, uint32_t length, uint32_t immediate)
{
    struct chaos_link *link = link_of(conn->endpoint);
    int code = fail_call(link, CHAOS_POST_SEND);

    if (code)
        return code;
    if (link && !link->broken && link->pending == CHAOS_NONE) {
        link->pending = choose_fault(link);
        link->silent = link->pending == CHAOS_LOSE_REQUEST;
    }
    return link && link->silent && !link->broken ? 0
                                                 : conn->ops->post_send(conn, length, immediate);
}

static void chaos_flush(struct okv_conn *conn)
{
    struct chaos_link *link = link_of(conn->endpoint);

    conn->ops->flush(conn);
    if (link && (link->pending == CHAOS_LOSE_REQUEST || link->pending == CHAOS_BREAK_SENT))
        break_link(link, link->pending);
}

/* ---- other calls ---- */

static int chaos_post_read(struct okv_conn *conn, const struct okv_read *reads, unsigned count)
{
    int code = fail_call(link_of(conn->endpoint), CHAOS_POST_READ);

    return code ? code : conn->ops->post_read(conn, reads, count);
}

static int chaos_heartbeat(struct okv_conn *conn)
{
    int code = fail_call(link_of(conn->endpoint), CHAOS_HEARTBEAT);

    return code ? code : conn->ops->heartbeat(conn);
}

static int chaos_memory_register(struct okv_endpoint *endpoint, void *base, size_t length,
                                 struct okv_memory **out)
{
    int code = call_fails(current, CHAOS_MEMORY_REGISTER);

    return code ? code : endpoint->ops->memory_register(endpoint, base, length, out);
}

static int chaos_advertise(struct okv_conn *conn, const void *base, size_t length,
                           struct okv_advert **out)
{
    int code = call_fails(current, CHAOS_ADVERTISE);

    return code ? code : conn->ops->advertise(conn, base, length, out);
}

/* ---- events ---- */

/* True when the event goes on to the client. */
static bool pass_event(struct chaos_link *link, const struct okv_event *event)
{
    if (event->type != OKV_EVENT_RECV)
        return true;
    if (!link->broken && link->pending == CHAOS_LOSE_REPLY)
        break_link(link, CHAOS_LOSE_REPLY);
    if (!link->broken)
        return true;
    link->real->recv_release(link->conn->endpoint, event);
    return false;
}

static void hold(struct chaos_link *link, const struct okv_event *event)
{
    struct chaos *chaos = link->chaos;
    struct held *held = &link->held[(link->first + link->count++) % HELD_MAX];
    unsigned most = chaos->delay_polls_max ? chaos->delay_polls_max : DELAY_POLLS_DEFAULT;

    *held = (struct held){.event = *event};
    if (strikes(chaos, CHAOS_DELAY)) {
        chaos->injected[CHAOS_DELAY]++;
        held->polls = 1 + (unsigned)random_below(&chaos->random, most);
    }
}

/* Polls the real transport; a code when it failed. */
static int gather(struct chaos_link *link)
{
    struct okv_event events[16];
    unsigned room = HELD_MAX - link->count;
    int count = link->real->poll(link->conn->endpoint, events, room < 16 ? (int)room : 16);

    for (int i = 0; i < count; i++) {
        if (!pass_event(link, &events[i]))
            continue;
        hold(link, &events[i]);
        /* The reply is the client's; what comes after it is not. */
        if (events[i].type == OKV_EVENT_RECV && link->pending == CHAOS_BREAK_REPLIED)
            break_link(link, CHAOS_BREAK_REPLIED);
    }
    return count < 0 ? count : 0;
}

static int chaos_poll(struct okv_endpoint *endpoint, struct okv_event *events, int max)
{
    struct chaos_link *link = link_of(endpoint);
    int count = 0;

    if (!link)
        return endpoint->ops->poll(endpoint, events, max);
    if (!link->broken && strikes(link->chaos, CHAOS_BREAK_POLL))
        break_link(link, CHAOS_BREAK_POLL);
    if (link->count < HELD_MAX) {
        int code = gather(link);
        if (code)
            return code;
    }
    while (count < max && link->count > 0) {
        struct held *held = &link->held[link->first];
        if (held->polls > 0) {
            held->polls--;
            break;
        }
        events[count++] = held->event;
        link->first = (link->first + 1) % HELD_MAX;
        link->count--;
    }
    return count;
}

static int chaos_arm(struct okv_endpoint *endpoint)
{
    struct chaos_link *link = link_of(endpoint);
    int code = endpoint->ops->arm(endpoint);

    if (code == 0 && link && link->count > 0)
        endpoint->ops->wake(endpoint); /* held events make the descriptor readable no more */
    return code;
}

/* ---- the tables ---- */

static void make_table(struct okv_transport_ops *table, const struct okv_transport_ops *real)
{
    *table = *real;
    table->connect_start = chaos_connect_start;
    table->connect_step = chaos_connect_step;
    table->conn_destroy = chaos_conn_destroy;
    table->memory_register = chaos_memory_register;
    table->post_read = chaos_post_read;
    table->read_now = NULL; /* so that each READ is one that can fail, and be held */
    table->advertise = chaos_advertise;
    table->post_send = chaos_post_send;
    table->flush = chaos_flush;
    table->heartbeat = chaos_heartbeat;
    table->poll = chaos_poll;
    table->arm = chaos_arm;
}

static void make_tables(void)
{
    make_table(&tables.local, &okv_transport_local);
    make_table(&tables.verbs, &okv_transport_verbs);
    make_table(&tables.tcp, &okv_transport_tcp);
    make_table(&tables.ofi, __real_okv_transport_for(OKV_SCHEME_OFI));
}

const struct okv_transport_ops *__wrap_okv_transport_for(enum okv_scheme scheme);

const struct okv_transport_ops *__wrap_okv_transport_for(enum okv_scheme scheme)
{
    pthread_once(&tables.once, make_tables);
    switch (scheme) {
    case OKV_SCHEME_RDMA:
        return &tables.verbs;
    case OKV_SCHEME_OFI:
        return &tables.ofi;
    case OKV_SCHEME_TCP:
        return &tables.tcp;
    case OKV_SCHEME_LOCAL:
        return &tables.local;
    case OKV_SCHEME_RESP: /* no transport */
        break;
    }
    return NULL;
}
