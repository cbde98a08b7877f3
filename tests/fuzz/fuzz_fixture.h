/*
 * The fixture of fuzz_server.c: the worker and the acceptor of a server, without threads, on the
 * clock of fuzz_time.h, and the clients that a fuzz input makes for them: who connects, what
 * arrives in which order, how rendezvous reads and connections end. The linker puts functions of
 * ours in the place of pthread_create and pthread_join (CMakeLists.txt): the worker's loop runs in
 * the caller's thread, and the acceptor's when a client comes.
 *
 * What a server owes a transport is checked, and what it owes its clients: each answer is one to
 * a request that waits for it, a session that was replaced answers no more, and a write is
 * applied at most once. For that, clients number 0 to FIXTURE_HONEST - 1 keep their sequences,
 * and each of their INCRs has a key of its own, whose number is 1 or nothing.
 */
#ifndef OKV_TESTS_FUZZ_FIXTURE_H
#define OKV_TESTS_FUZZ_FIXTURE_H

#include "server/clients/admission.h"
#include "server/database/reply_cache.h"
#include "server/net/acceptor.h"
#include "server/session/lifecycle.h"
#include "server/session/long_write.h"
#include "server/session/sessions.h"
#include "server/worker/worker.h"
#include "shared/base/error.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/server_core.h"

#define FIXTURE_REGION (UINT64_C(1) << 20)
#define FIXTURE_CONNECTIONS 4
#define FIXTURE_CLIENTS_MAX 3
#define FIXTURE_LIMITS \
    ((struct okv_admission_limits){.clients = FIXTURE_CLIENTS_MAX, .per_address = 2})
#define FIXTURE_REPLY_CACHES 3
#define FIXTURE_IDS 6
#define FIXTURE_HONEST 3
#define FIXTURE_REQUEST_SLOTS 6
/* The keys of those INCRs begin so. */
#define FIXTURE_ONCE "once-"

/* A request that was not answered yet. */
struct fixture_request_slot {
    bool busy;
    unsigned batch; /* in which it was sent */
    bool malformed; /* or of an unknown operation: `request` has no more than slot and sequence */
    bool unsupported;
    struct okv_request_message request;
    uint8_t *bytes; /* of the message; the request points into it */
};

struct fixture_connection {
    struct okv_conn base;
    bool in_use;
    bool opened;
    bool ended;    /* by whom ever: nothing comes but what flushes it */
    bool finished; /* CLOSED came */
    bool closed;   /* by the server */
    bool replaced; /* the client has another one */
    bool wrong;    /* it sent what ends a connection at once */
    bool may_end;  /* it sent what ends it once it is served */
    bool unsure;   /* what its request slots hold is not known any more */
    bool no_buffers;
    bool told_goodbye;
    int status;  /* why it ended */
    unsigned id; /* of the client; FIXTURE_IDS: of none of them */
    uint32_t request_slot_count;
    struct fixture_request_slot request_slots[FIXTURE_REQUEST_SLOTS];
    uint64_t sequences[FIXTURE_REQUEST_SLOTS]; /* of the last request that was sent */
    unsigned rendezvous_count;
    struct okv_rendezvous rendezvous_reads[OKV_RENDEZVOUS_MAX];
    unsigned held; /* receive buffers that the server has */
    uint8_t *out;  /* the send buffer */
};

/* The request came on this connection before, so the server drops it; else notes its sequence. */
static inline bool fixture_is_repeated(struct fixture_connection *c, uint32_t immediate,
                                       const uint8_t *bytes, uint32_t length)
{
    uint64_t sequence = length < OKV_REQUEST_HEADER ? 0 : okv_get_u64(bytes);
    uint16_t number = okv_immediate_slot(immediate);

    if (number >= c->request_slot_count || sequence == 0 ||
        immediate != okv_immediate(okv_immediate_opcode(immediate), number))
        return false;
    if (sequence <= c->sequences[number])
        return true;
    c->sequences[number] = sequence;
    return false;
}

/* What is known of a client. */
struct fixture_client {
    uint64_t session;    /* the last one */
    unsigned generation; /* of its reply cache */
    uint64_t sent[FIXTURE_REQUEST_SLOTS];
    uint64_t answered[FIXTURE_REQUEST_SLOTS];
};

struct fixture_task {
    void *(*run)(void *user);
    void *user;
};

struct fixture {
    struct fuzz_input *input;
    struct server_core core;
    struct okv_worker worker;
    struct okv_acceptor acceptor;
    struct okv_listener listener;
    struct okv_endpoint endpoint;
    struct fixture_task tasks[2]; /* the acceptor's, the worker's */
    unsigned task_count;

    bool has_request, accepting, ended, woken;
    bool in_time; /* it had all its time to end */
    struct okv_request request;
    uint64_t session; /* the last one */
    unsigned batch;
    struct fixture_connection connections[FIXTURE_CONNECTIONS];
    struct fixture_client clients[FIXTURE_IDS];
};

/* A server with this table. */
void fixture_open(struct fixture *fixture, struct fuzz_input *input,
                  const struct okv_store_params *params);
/* Runs it until the input has ended, and the server then; checks that it gives all back. */
void fixture_run(struct fixture *fixture);
/* Checks the whole table, and that no INCR of an honest client was applied twice. */
void fixture_audit(struct fixture *fixture);
void fixture_close(struct fixture *fixture);

/* ---- of fuzz_server.c: what the clients do ---- */

/* Of each poll: appends up to `room` events. Returns how many. */
int fixture_act(struct fixture *fixture, struct okv_event *events, int room);

/* ---- for it ---- */

/* A hello comes. */
void fixture_connect(struct fixture *fixture, const uint8_t *hello, size_t length,
                     const char *address);
/* The connection breaks. */
void fixture_break(struct fixture_connection *c, int status);
/* What follows the end of a connection: a rendezvous read that is flushed, or CLOSED. False:
 * nothing. */
bool fixture_flush_next(struct fixture_connection *c, struct okv_event *event);
/* A message arrives; `bytes` are on the heap and go to the server. */
void fixture_send(struct fixture_connection *c, uint32_t immediate, bool has_immediate,
                  uint8_t *bytes, uint32_t length, struct okv_event *event);
/* A rendezvous read ends. */
void fixture_rendezvous_end(struct fixture *fixture, struct fixture_connection *c, unsigned which,
                            int status, struct okv_event *event);

#endif
