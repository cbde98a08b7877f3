/* What tests of sessions work on: a worker without a thread, with two sessions over a transport
 * that only records calls. Each call fails the test when it fails. */
#ifndef OKV_TESTS_SESSION_FIXTURE_H
#define OKV_TESTS_SESSION_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/session/admit.h"
#include "server/session/closing.h"
#include "server/session/lifecycle.h"
#include "server/session/sessions.h"
#include "server/worker/worker.h"
#include "tests/support/server_core.h"

enum {
    FIXTURE_REQUEST_SLOTS = 32,
    FIXTURE_MESSAGES = 256,
    FIXTURE_POSTED = 256,
    FIXTURE_SLOT = OKV_SLOT_SIZE_DEFAULT
};

/* A client, and the recorded calls on its connection. */
struct client {
    struct okv_conn conn;
    struct okv_session *session;
    uint8_t out[FIXTURE_SLOT];
    uint8_t messages[FIXTURE_MESSAGES][512];
    struct okv_event events[FIXTURE_MESSAGES];
    unsigned count;
    bool no_buffers;
    bool closed, destroyed;
    unsigned flushes, released, heartbeats;
    unsigned posted, flushed; /* messages; of these, flushed ones */
    struct okv_reply_message replies[FIXTURE_POSTED];
    uint8_t values[FIXTURE_POSTED][OKV_WRITE_REPLY_MAX]; /* of short ones */
    unsigned rendezvous_reads;
    int rendezvous_result;            /* of the next ones */
    struct okv_rendezvous rendezvous; /* the last one */
};

struct fixture {
    struct server_core core;
    struct okv_worker worker;
    struct client clients[2];
};

/* Set-up and tear-down of a test. Its state is the fixture; clients 0 and 1 have ids 1 and 2. */
int fixture_setup(void **state);
int fixture_setup_with(void **state, const struct okv_store_params *params);
/* The same with one database or two; both clients use the first. */
int fixture_setup_databases(void **state, const struct okv_store_params *params,
                            unsigned databases);
int fixture_teardown(void **state);
/* Opens a new session of client `number`, whose old one is closed. The client's id is `id`. */
void fixture_open(struct fixture *fixture, unsigned number, uint8_t id, uint64_t resume);

/* A message of the client arrives. */
void fixture_arrive_as(struct fixture *fixture, struct client *client,
                       const struct okv_request_message *request);
/* The same, with a key if the operation needs one. */
void fixture_arrive(struct fixture *fixture, struct client *client, unsigned opcode,
                    uint16_t request_slot, uint64_t sequence);
/* An append of a text. */
void fixture_arrive_append(struct fixture *fixture, struct client *client, const char *key,
                           const char *text, uint16_t request_slot, uint64_t sequence);
/* Rendezvous read `number` of the client's session has ended. */
void fixture_rendezvous_done(struct fixture *fixture, struct client *client, unsigned number,
                             int status);
/* Ends the pass with a slice of long work and begins the next one, which serves the ready queue.
 * Returns the number of requests served. */
unsigned fixture_next_pass(struct fixture *fixture);

static inline uint64_t stat_of(const atomic_uint_fast64_t *figure)
{
    return atomic_load(figure);
}

#endif
