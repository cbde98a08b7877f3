/*
 * A server for the tests of transports: a region with a pattern in it, and a
 * thread that accepts, echoes every message, rendezvous reads when it is told to, heartbeats its
 * clients, and keeps count.
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
#define FIXTURE_SLOT_SIZE 6000u /* more than a packet of RDMA, and no power of two */
#define FIXTURE_CREDITS 8u
#define FIXTURE_MAX_CONNS 12u
#define FIXTURE_HELLO 40u
#define FIXTURE_WELCOME 100u
#define FIXTURE_REASON 30u

/* A test that waits longer hangs: it is no measure of anything. */
#define FIXTURE_GUARD_NS PACE_GUARD_NS
uint64_t fixture_soon(void); /* the deadline that it makes from now */

/* The first byte of a hello: what the server is to do. */
enum fixture_wish { FIXTURE_ACCEPT = 'A', FIXTURE_REJECT = 'R' };

/* The immediate of a message that is not echoed: the server rendezvous reads what `rendezvous
 * reads` says. */
#define FIXTURE_RENDEZVOUS 0x50554c4cu
#define FIXTURE_RENDEZVOUS_MAX 8u

struct fixture_rendezvous {
    struct okv_rendezvous rendezvous; /* the test's; the cookie is the server's */
    struct okv_conn *conn;
    int result;      /* what rendezvous read returned */
    unsigned events; /* that came for it, and what the latest said */
    int status;
    char failure[64]; /* what the device had said of the connection by then */
};

struct fixture {
    const struct okv_transport_ops *ops;
    struct okv_uri listen_uri, connect_uri;
    char directory[64]; /* of the socket; "" when the URI came from elsewhere */
    int region_fd;
    uint8_t *region;  /* the server's mapping */
    char address[64]; /* of the first client; the others must have the same */
    struct okv_listener *listener;
    struct okv_endpoint *endpoint;
    pthread_t thread;

    /* Orders to the thread; fixture_order makes it look. */
    atomic_bool stop, pause, close_all;

    atomic_uint connected; /* successful fixture_try_connects */

    /* The test's until rendezvous_reads_wanted is set, then the thread's until
     * rendezvous_reads_ended says that the accepted ones are over. */
    struct fixture_rendezvous rendezvous_reads[FIXTURE_RENDEZVOUS_MAX];
    atomic_uint rendezvous_reads_wanted, rendezvous_reads_asked, rendezvous_reads_ended;

    /* What the thread saw. */
    atomic_bool paused;
    atomic_uint opened, closed, echoed;
    atomic_uint without_immediate, wrong; /* `wrong`: bytes or events that should not have come */
    atomic_int last_close;                /* status of the last OKV_EVENT_CLOSED */

    /* The thread's own. */
    struct okv_conn *conns[FIXTURE_MAX_CONNS];
    unsigned conn_count;
    struct okv_event unanswered[256]; /* more than a transport has receive buffers for us */
    unsigned unanswered_count;
    uint64_t heartbeat_ns; /* when the connections are sent a heartbeat next, on okv_clock_ns() */
};

/* Starts a server at `listen_text` for clients at `connect_text`; NULL for a
 * local one in a fresh directory. Fails the test when it cannot. */
void fixture_start(struct fixture *fixture, const char *listen_text, const char *connect_text);
void fixture_stop(struct fixture *fixture);
/* Makes the thread look at its orders. */
void fixture_order(struct fixture *fixture, atomic_bool *order);
/* Stops the thread before its next poll, and waits until it has stopped; and lets it go on. */
void fixture_pause(struct fixture *fixture);
void fixture_resume(struct fixture *fixture);
/* Waits until `*count` is at least `wanted`; false when the guard ran out. */
bool fixture_reaches(const atomic_uint *count, unsigned wanted);
/* Waits until the server has opened and closed every connection that a client had. */
bool fixture_is_empty(const struct fixture *fixture);

/* Puts the pattern back where a rendezvous read brought something else. */
void fixture_restore(struct fixture *fixture, uint64_t offset, uint64_t length);
/* What the fixture put at `offset` of the region, into the i-th byte of a
 * handshake, and into the i-th byte of message `number`. */
uint8_t fixture_region_byte(uint64_t offset);
uint8_t fixture_hello_byte(unsigned i);
uint8_t fixture_welcome_byte(unsigned i);
uint8_t fixture_reason_byte(unsigned i);
uint8_t fixture_message_byte(unsigned number, unsigned i);
void fixture_fill_message(uint8_t *out, unsigned number, unsigned length);
bool fixture_is_message(const struct okv_event *event, unsigned number, unsigned length);

/* FIXTURE_WELCOME bytes that welcome a client of `listener`. */
void fixture_make_welcome(const struct okv_listener *listener, uint8_t *bytes);

/* Connects as a client that wants `wish`; these four may be called from any
 * thread and fail no test. */
int fixture_try_connect(struct fixture *fixture, enum fixture_wish wish, uint64_t deadline_ns,
                        struct okv_welcome *welcome, struct okv_conn **out, struct okv_diag *diag);
/* The same in steps: starts one. It counts as no connect of the fixture. */
int fixture_start_connect(struct fixture *fixture, enum fixture_wish wish, uint64_t deadline_ns,
                          struct okv_connecting **out, struct okv_diag *diag);
/* Sets what the welcome said about the region. */
int fixture_set_remote(struct okv_conn *conn, const struct okv_welcome *welcome);
/* Waits for the next event, spinning a little and then sleeping on the armed
 * descriptor; false when the guard ran out. */
bool fixture_wait(struct okv_endpoint *endpoint, struct okv_event *event);

/* A connection that is ready for READs and messages; fails the test when there is none. */
struct okv_conn *fixture_connect(struct fixture *fixture);

/* cmocka's group set-up and tear-down: a fixture over a fresh local socket, or
 * over what OKV_TEST_LISTEN and OKV_TEST_URI name, as *state. */
int fixture_setup_local(void **state);
int fixture_setup_from_environment(void **state);
int fixture_teardown(void **state);

#endif
