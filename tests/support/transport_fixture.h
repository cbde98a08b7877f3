/*
 * A server for the tests of transports: two regions with patterns, and a thread that accepts
 * clients, echoes their messages, starts rendezvous reads on order, sends heartbeats and counts.
 */
#ifndef OKV_TESTS_TRANSPORT_FIXTURE_H
#define OKV_TESTS_TRANSPORT_FIXTURE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shared/transport/transport.h"
#include "tests/support/pace.h"

#define FIXTURE_REGION (12u << 20)
#define FIXTURE_SLOT_SIZE 6000u /* more than an RDMA packet, not a power of two */
#define FIXTURE_CREDITS 8u
#define FIXTURE_MAX_CONNS 12u
#define FIXTURE_HELLO 40u
#define FIXTURE_WELCOME 100u
#define FIXTURE_REASON 30u

/* A wait that takes longer fails its test. Not a measure of speed. */
#define FIXTURE_GUARD_NS PACE_GUARD_NS
uint64_t fixture_soon(void); /* now + FIXTURE_GUARD_NS */

/* The first byte of a hello tells the server what to do. */
enum fixture_wish { FIXTURE_ACCEPT = 'A', FIXTURE_OTHER = 'O', FIXTURE_REJECT = 'R' };

/* The region of those who ask for FIXTURE_OTHER: all of it is FIXTURE_OTHER_BYTE. */
#define FIXTURE_OTHER_REGION (1u << 20)
#define FIXTURE_OTHER_BYTE 0xa7

/* The immediate of a message that is not echoed: the server starts the first `rendezvous_wanted` of
 * `rendezvous_reads` on the message's connection. */
#define FIXTURE_RENDEZVOUS 0x50554c4cu
#define FIXTURE_RENDEZVOUS_MAX 8u

struct fixture_rendezvous {
    struct okv_rendezvous rendezvous; /* filled by the test; the server sets the cookie */
    struct okv_conn *conn;
    int result;       /* of the operation */
    unsigned events;  /* so many came */
    int status;       /* of the latest */
    char failure[64]; /* of the connection, at that time */
};

struct fixture {
    const struct okv_transport_ops *ops;
    struct okv_uri listen_uri, connect_uri;
    char directory[64]; /* of the socket; "" when the URI came from elsewhere */
    int region_fd, other_fd;
    uint8_t *region, *other; /* the server's mappings */
    bool has_other;          /* the transport can serve both */
    char address[64];        /* of the first client; the others must have the same */
    struct okv_listener *listener;
    struct okv_tls *tls; /* of the listener; or NULL */
    struct okv_endpoint *endpoint;
    pthread_t thread;

    /* Orders to the thread; set them by fixture_order. */
    atomic_bool stop, pause, close_all;

    atomic_uint connected; /* successful fixture_try_connects */

    /* The test owns these until it sets rendezvous_wanted. The thread owns them until
     * rendezvous_ended has counted every one that started. */
    struct fixture_rendezvous rendezvous_reads[FIXTURE_RENDEZVOUS_MAX];
    atomic_uint rendezvous_wanted, rendezvous_started, rendezvous_ended;

    /* Counted by the thread. */
    atomic_bool paused;
    atomic_uint opened, closed, echoed;
    atomic_uint without_immediate, wrong; /* `wrong`: unexpected bytes or events */
    atomic_int last_close;                /* status of the last OKV_EVENT_CLOSED */

    /* Used by the thread only. */
    struct okv_conn *conns[FIXTURE_MAX_CONNS];
    unsigned conn_count;
    struct okv_event unanswered[256]; /* more than the transport has receive buffers */
    unsigned unanswered_count;
    uint64_t heartbeat_ns; /* time of the next heartbeats, on okv_clock_ns() */
};

/* Starts a server at `listen_text` for clients at `connect_text`; NULL for a
 * local one in a fresh directory. Fails the test when it cannot. */
void fixture_start(struct fixture *fixture, const char *listen_text, const char *connect_text);
void fixture_stop(struct fixture *fixture);
/* Sets an order and wakes the thread. */
void fixture_order(struct fixture *fixture, atomic_bool *order);
/* Pauses the thread before its next poll and waits for that. Resumes it. */
void fixture_pause(struct fixture *fixture);
void fixture_resume(struct fixture *fixture);
/* Waits until `*count` is at least `wanted`; false when the guard ran out. */
bool fixture_reaches(const atomic_uint *count, unsigned wanted);
/* Waits until the server has opened and closed every connection that a client had. */
bool fixture_is_empty(const struct fixture *fixture);

/* Restores the pattern of the region. */
void fixture_restore(struct fixture *fixture, uint64_t offset, uint64_t length);
/* The patterns: of the region at `offset`, of the i-th byte of the handshake messages, of the i-th
 * byte of message `number`. */
uint8_t fixture_region_byte(uint64_t offset);
uint8_t fixture_hello_byte(unsigned i);
uint8_t fixture_welcome_byte(unsigned i);
uint8_t fixture_reason_byte(unsigned i);
uint8_t fixture_message_byte(unsigned number, unsigned i);
void fixture_fill_message(uint8_t *out, unsigned number, unsigned length);
bool fixture_is_message(const struct okv_event *event, unsigned number, unsigned length);

/* FIXTURE_WELCOME bytes that welcome a client of `listener` who asked for `wish`. */
void fixture_make_welcome(const struct okv_listener *listener, enum fixture_wish wish,
                          uint8_t *bytes);

/* Connects with a hello that asks for `wish`. These four may be called from any thread and fail no
 * test. */
int fixture_try_connect(struct fixture *fixture, enum fixture_wish wish, uint64_t deadline_ns,
                        struct okv_answer *welcome, struct okv_conn **out, struct okv_diag *diag);
/* Starts a connect for connect_step. `connected` does not count it. */
int fixture_start_connect(struct fixture *fixture, enum fixture_wish wish, uint64_t deadline_ns,
                          struct okv_connecting **out, struct okv_diag *diag);
/* Calls set_remote with the fields of the welcome. */
int fixture_set_remote(struct okv_conn *conn, const struct okv_answer *welcome);
/* Waits for the next event, spinning a little and then sleeping on the armed
 * descriptor; false when the guard ran out. */
bool fixture_wait(struct okv_endpoint *endpoint, struct okv_event *event);

/* A connection that is ready for READs and messages, or a failed test; the second one to the other
 * region. */
struct okv_conn *fixture_connect(struct fixture *fixture);
struct okv_conn *fixture_connect_other(struct fixture *fixture);

/* cmocka's group set-up and tear-down: a fixture over a fresh local socket, or
 * over what OKV_TEST_LISTEN and OKV_TEST_URI name, as *state. */
int fixture_setup_local(void **state);
int fixture_setup_from_environment(void **state);
int fixture_teardown(void **state);

#endif
