/*
 * A server and a client over RDMA in one thread, driven step by step by the test. Every wait has a
 * guard that fails the test.
 */
#ifndef OKV_TESTS_VERBS_MEETING_H
#define OKV_TESTS_VERBS_MEETING_H

#include "shared/transport/verbs/attempt.h"
#include "shared/transport/verbs/device.h"
#include "tests/support/pace.h"

#define MEETING_REGION (4u << 20)
#define MEETING_SLOT_SIZE 1000u
#define MEETING_CREDITS 8u
#define MEETING_MAX_CONNS 4u

/* One side's connection and its events. */
struct meeting_side {
    struct okv_conn *conn; /* NULL while there is none */
    unsigned opened, closed, messages, reads, rendezvous_reads;
    int close_status, read_status, rendezvous_status; /* the latest */
};

struct meeting {
    const struct okv_transport_ops *ops;
    struct okv_uri listen_uri, connect_uri;
    int region_fd, other_fd;
    uint8_t *region, *other; /* the listener's two regions; connections reach the first */
    struct okv_listener *listener;
    struct okv_endpoint *endpoint;
    bool deaf;  /* the listener is not served */
    bool quiet; /* requests are refused */
    unsigned requests;
    int accept_result; /* of the latest */
    char address[64];  /* of the latest request */
    struct meeting_side server, client;
};

/* Starts a server at OKV_TEST_LISTEN for clients at OKV_TEST_URI. */
void meeting_start(struct meeting *meeting);
/* Every connection must be destroyed. */
void meeting_stop(struct meeting *meeting);
/* Both sides do what they can without waiting. The server's connection is destroyed when it has
 * closed; the test destroys the client's. */
void meeting_progress(struct meeting *meeting);
uint64_t meeting_deadline(uint64_t ms);
/* Waits a little; fails the test when `deadline_ns` has passed. */
void meeting_nap(uint64_t deadline_ns, const char *what);

/* Makes progress until `condition` holds. */
#define MEETING_UNTIL(meeting, condition)                                        \
    do {                                                                         \
        uint64_t until_ = pace_guard_end();                                      \
        for (meeting_progress(meeting); !(condition); meeting_progress(meeting)) \
            meeting_nap(until_, #condition);                                     \
    } while (0)

struct okv_connecting *meeting_begin(struct meeting *meeting, const struct okv_uri *uri,
                                     uint64_t deadline_ns);
/* Connects a client, and waits until the server has it too and may heartbeat it. */
void meeting_connect(struct meeting *meeting);
bool meeting_is_ready(const struct meeting *meeting);
/* Destroys the client's connection, if there is one, and waits until the server's is gone. */
void meeting_disconnect(struct meeting *meeting);
/* Sends a message of `length` bytes with the next flush. */
void meeting_send(struct okv_conn *conn, uint32_t length);
/* Waits until both sides have sent everything and all of it is acknowledged. */
void meeting_settle(struct meeting *meeting);

/* Heartbeats through `conn`, and waits for the answer. */
void meeting_expect_answered_heartbeat(struct meeting *meeting, struct okv_conn *conn);

/* A client straight on the connection manager. */
struct knock {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
};
/* Asks the server for a connection with a queue pair that does not exist and allows the server
 * `reads` outstanding READs. Returns the connection manager's answer. */
enum rdma_cm_event_type knock_on(struct meeting *meeting, struct knock *knock, uint8_t reads);
void knock_end(struct knock *knock);

/* Cuts the network of the veth pair in both directions, or restores it. With one direction left, a
 * side would hear that the other has ended the connection. */
void meeting_cut_network(bool cut);
/* Delays the packets of this connection's device on the veth pair by `ms`; 0: no more. */
void meeting_delay(const struct okv_conn *conn, unsigned ms);
void meeting_no_delay(const struct okv_conn *conn);
/* The number of duplicate requests that this connection's device has received. */
unsigned long meeting_repeats(const struct okv_conn *conn);

#endif
