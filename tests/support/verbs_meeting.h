/*
 * A server and a client over RDMA in one thread, whose every step the test makes. What is waited
 * for has a guard; a test whose guard runs out fails.
 */
#ifndef OKV_TESTS_VERBS_MEETING_H
#define OKV_TESTS_VERBS_MEETING_H

#include "shared/transport/verbs/verbs.h"
#include "tests/support/pace.h"

#define MEETING_REGION (4u << 20)
#define MEETING_SLOT_SIZE 1000u
#define MEETING_CREDITS 8u
#define MEETING_MAX_CONNS 4u

/* One side's connection, and what its endpoint said of it. */
struct meeting_side {
    struct okv_conn *conn; /* NULL while there is none */
    unsigned opened, closed, messages, reads, rendezvous_reads;
    int close_status, read_status, rendezvous_status; /* the latest */
};

struct meeting {
    const struct okv_transport_ops *ops;
    struct okv_uri listen_uri, connect_uri;
    int region_fd;
    uint8_t *region;
    struct okv_listener *listener;
    struct okv_endpoint *endpoint;
    bool deaf;  /* the listener is not looked at */
    bool quiet; /* requests are refused */
    unsigned requests;
    int accept_result; /* of the latest */
    char address[64];  /* of the latest request */
    struct meeting_side server, client;
};

/* Starts a server at OKV_TEST_LISTEN for clients at OKV_TEST_URI. */
void meeting_start(struct meeting *meeting);
/* Everything that was connected must be gone. */
void meeting_stop(struct meeting *meeting);
/* What both sides have to do now, without waiting. The server's connection is destroyed when it
 * has closed, the client's is the test's. */
void meeting_turn(struct meeting *meeting);
uint64_t meeting_deadline(uint64_t ms);
/* Waits a little; fails the test when `deadline_ns` has passed. */
void meeting_nap(uint64_t deadline_ns, const char *what);

/* Turns until `condition` holds. */
#define MEETING_UNTIL(meeting, condition)                                \
    do {                                                                 \
        uint64_t until_ = pace_guard_end();                              \
        for (meeting_turn(meeting); !(condition); meeting_turn(meeting)) \
            meeting_nap(until_, #condition);                             \
    } while (0)

struct okv_connecting *meeting_begin(struct meeting *meeting, const struct okv_uri *uri,
                                     uint64_t deadline_ns);
/* Connects a client, and waits until the server has it too and may heartbeat it. */
void meeting_connect(struct meeting *meeting);
bool meeting_is_ready(const struct meeting *meeting);
/* Destroys the client's connection, if there is one, and waits until the server's is gone. */
void meeting_part(struct meeting *meeting);
/* Sends a message of `length` bytes with the next flush. */
void meeting_send(struct okv_conn *conn, uint32_t length);
/* Both sides have sent what they had to, and the peers' devices have answered all of it. */
void meeting_settle(struct meeting *meeting);

/* Heartbeats through `conn`, and waits for the answer. */
void meeting_expect_answered_heartbeat(struct meeting *meeting, struct okv_conn *conn);

/* A client straight on the connection manager. */
struct knock {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
};
/* Asks the server for a connection with a queue pair that there is not; `reads` is what the server
 * may have outstanding. Returns the connection manager's answer. */
enum rdma_cm_event_type knock_on(struct meeting *meeting, struct knock *knock, uint8_t reads);
void knock_end(struct knock *knock);

/* Cuts the network of the veth pair, or fixes it: in both directions, or else one side hears that
 * the other has ended the connection. */
void meeting_cut_network(bool cut);
/* Holds back for `ms` what the device of this connection sends over the veth pair, or no more. */
void meeting_delay(const struct okv_conn *conn, unsigned ms);
void meeting_no_delay(const struct okv_conn *conn);
/* Requests that the device of this connection has got a second time, ever. */
unsigned long meeting_repeats(const struct okv_conn *conn);

#endif
