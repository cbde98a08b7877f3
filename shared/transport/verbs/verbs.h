/*
 * What the files of the verbs transport share. Only this folder includes this header.
 *
 *   device      which device, how it is described, what it cannot do
 *   discover    the name of a server that is announced to its address
 *   mr          the region, message slots, the caller's memory
 *   endpoint    completion queue, the descriptor to wait on
 *   conn        one connection: its memory, its lists, how it fails
 *   qp          queue pairs: how they are made, and their states
 *   handover    where the listener's thread meets the endpoint's
 *   listen      the listener: requests, accept, reject
 *   ops         the table of operations
 *   connect     the client's connect: addresses and attempts, one after another
 *   attempt     one attempt, event by event
 *   binding     what ties a connection to its two ends, for proofs
 *   diagnose    why an attempt failed, for people
 *   post        posts sends, READs and heartbeats, and counts them
 *   rendezvous  a client's advertised buffers, the server's rendezvous reads
 *   poll        completions to events
 *   closing     how connections end
 *
 * Threads. A server has two: the listener's, which reads CM events, and the endpoint's. They meet
 * in `struct verbs_handover`, under its lock, and in a connection's `ready`. The listener's thread
 * touches a connection that it has handed over only between rdma_get_cm_event() and
 * rdma_ack_cm_event() for an event of that connection. The endpoint's thread frees a connection
 * only after rdma_destroy_id(), which waits until every event of the id is acknowledged (man
 * rdma_destroy_id); no new one can come afterwards. So neither thread sees a connection that the
 * other has freed. Two rules keep this free of deadlock: nobody calls rdma_destroy_id() with the
 * hand-over lock held, and no event stays unacknowledged between two calls of next_request.
 */
#ifndef OKV_SHARED_TRANSPORT_VERBS_VERBS_H
#define OKV_SHARED_TRANSPORT_VERBS_VERBS_H

#include <infiniband/verbs.h>
#include <netdb.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "shared/base/resolve.h"
#include "shared/transport/common/arrivals.h"
#include "shared/transport/common/hello.h"
#include "shared/transport/common/read_slots.h"
#include "shared/transport/common/rendezvous_reads.h"
#include "shared/transport/common/send_slots.h"
#include "shared/transport/common/slab.h"
#include "shared/transport/common/wakeup.h"
#include "shared/transport/transport.h"

#define VERBS_READ_DEPTH 16 /* READs that we ask the device to execute at once */
/* A rendezvous read is split into READs of at most this length, and so many are under way. */
#define VERBS_RENDEZVOUS_PIECE (1u << 20)
#define VERBS_RENDEZVOUS_DEPTH 4
#define VERBS_HEARTBEATS 1         /* heartbeats under way at once */
#define VERBS_SLAB_SPARE 64        /* bytes of a slab behind its slots, for a heartbeat's answer */
#define VERBS_MAX_INLINE 256       /* bytes that we ask to send without a DMA read */
#define VERBS_POLL_BATCH 16        /* completions taken from the queue at once */
#define VERBS_CLOSE_NS 1000000000u /* time for a closing connection to flush its work */
#define VERBS_HELLO_ROOM 256       /* private data lengths are 8 bits wide */

/* A client readies its queue pair when it processes our welcome. A heartbeat that comes earlier is
 * dropped and would end the connection, so the server waits this long for a sign that the client
 * is ready. A dead client is still found within a keepalive of 3 s. */
#define VERBS_READY_NS 1500000000u

/* An unanswered packet is sent again after 4.096 us * 2^14 = 67 ms, six times.
 * Never 7, which means "for ever" to some devices (rxe). */
#define VERBS_ACK_TIMEOUT 14
#define VERBS_RETRY_COUNT 6
/* Credits keep the receiver ready. A peer that exceeds them meets its own receive queue empty,
 * retries after 41 ms, VERBS_RETRY_COUNT times, and breaks its own queue pair. This is the
 * receiver's setting; the connection manager would choose 655 ms (man rdma_connect). */
#define VERBS_MIN_RNR_TIMER 24
/* Receives beyond the credits: a slot is posted again when the caller has released its message, and
 * a goodbye needs no credit. */
#define VERBS_SPARE_RECVS 2

/* A region, open for remote reading. A key of it is good for queue pairs of its domain only. */
struct verbs_share {
    struct ibv_pd *pd;
    struct ibv_mr *mr;
};

struct verbs_listener {
    struct okv_listener base;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_context *verbs; /* the connection manager's; never closed by us */
    unsigned share_count;
    struct verbs_share shares[OKV_REGIONS_MAX];
    uint8_t max_reads_in;      /* READs that the device can serve at once on one connection */
    uint8_t rendezvous_depth;  /* pieces that may be under way at once on one connection */
    uint32_t rendezvous_piece; /* bytes of a piece at most */
    bool removed;              /* the device went away */
};

struct verbs_request {
    struct okv_request base;
    struct rdma_cm_id *id;
    uint8_t responder_resources; /* READs that the client wants to have outstanding */
    uint8_t initiator_depth;     /* READs that it allows us to have outstanding */
    uint8_t hello[VERBS_HELLO_ROOM];
};

struct okv_memory {
    struct verbs_endpoint *endpoint;
    struct ibv_mr *mr;
    const void *base;
    size_t length;
};

/* Slots that are registered for the device to read and write. */
struct verbs_slab {
    struct okv_slab memory;
    uint8_t *spare; /* VERBS_SLAB_SPARE bytes behind the slots */
    struct ibv_mr *mr;
};

LIST_HEAD(verbs_conn_list, verbs_conn);

struct verbs_endpoint {
    struct okv_endpoint base; /* base.fd: the set of `wakeup`, with those of completions and CM */
    struct ibv_context *verbs;
    struct ibv_pd *pd;                     /* client; a server's connections have their share's */
    bool owns_verbs;                       /* client in a forked child */
    bool owns_pd;                          /* client */
    const struct verbs_listener *listener; /* NULL in a client */
    struct okv_message_limits limits;
    unsigned reads_per_conn; /* a client's READs, or a server's pieces of rendezvous reads */
    atomic_uint conns;

    struct ibv_comp_channel *completions;
    struct ibv_cq *cq;
    unsigned unacked_events; /* of the completion channel */
    struct okv_wakeup wakeup;
    struct rdma_event_channel *cm; /* client: CM events; NULL in a server */

    /* Used by the endpoint's thread only. */
    struct ibv_wc wc[VERBS_POLL_BATCH];
    int wc_next;
    int wc_count;
    bool armed;
    bool broken;
    unsigned empty_polls;
    uint64_t times_empty; /* how often the completion queue was found empty */
    struct verbs_conn_list closing;
    struct verbs_conn **by_qp_num; /* chained hash table */
    unsigned by_qp_num_mask;

    /* What the listener's thread leaves for the endpoint's. */
    struct okv_arrivals arrivals;
    struct verbs_conn *gone; /* by next_gone; under the lock of `arrivals`, whose `any` covers it */
};

enum verbs_conn_state {
    VERBS_CONN_OPEN,
    VERBS_CONN_CLOSING, /* queue pair in the error state, work being flushed */
    VERBS_CONN_CLOSED,  /* OKV_EVENT_CLOSED was delivered */
};

/* A message that waits for the flush. */
struct verbs_send {
    struct ibv_send_wr wr;
    struct ibv_sge sge;
};

struct verbs_conn {
    struct okv_conn base;
    struct rdma_cm_id *id;
    struct ibv_qp *qp; /* NULL when it was destroyed before the connection */
    uint32_t qp_num;
    uint32_t max_inline;
    enum verbs_conn_state state;

    int close_status;
    bool deaf; /* our side has closed: messages are dropped */
    uint64_t close_deadline;
    uint64_t close_times_empty; /* endpoint->times_empty when closing began */

    uint64_t remote_address;
    uint32_t remote_rkey;
    struct ibv_pd *pd;
    const struct verbs_share *share; /* a server's; NULL in a client */
    struct verbs_slab slab;          /* the send buffers, then the receive slots */
    unsigned recv_count;
    unsigned recvs_posted;
    struct okv_send_slots sends;
    struct verbs_send *send_wrs; /* one for each send buffer */

    bool heartbeat_pending;
    atomic_bool ready;          /* server: a sign came that the peer's queue pair accepts packets */
    atomic_bool *is_half_open;  /* the caller's: cleared then; or NULL */
    uint64_t heartbeat_from_ns; /* server: without such a sign no heartbeat before this time */

    struct okv_read_slots reads;

    struct okv_rendezvous_reads rendezvous; /* they end in order */
    unsigned pieces;                        /* under way, of all rendezvous reads */
    uint8_t rendezvous_depth; /* at most so many pieces; 0: no rendezvous reads here */

    struct verbs_conn *next_by_qp_num;
    LIST_ENTRY(verbs_conn) in_closing;
    struct verbs_conn *next_gone; /* under the lock of the arrivals */
    bool is_gone;                 /* under the lock of the arrivals */
};

/* wr_id: what was posted and where its bookkeeping is. */
enum verbs_work {
    VERBS_WORK_RECV = 1,
    VERBS_WORK_SEND,
    VERBS_WORK_READ,
    VERBS_WORK_RENDEZVOUS,
    VERBS_WORK_HEARTBEAT,
};

static inline uint64_t verbs_wr_id(enum verbs_work work, unsigned index)
{
    return (uint64_t)work << 32 | index;
}

/* A sign came that the peer's queue pair accepts packets. Any thread that may touch it. */
static inline void verbs_conn_is_ready(struct verbs_conn *conn)
{
    if (atomic_load_explicit(&conn->ready, memory_order_relaxed))
        return;
    atomic_store(&conn->ready, true);
    if (conn->is_half_open)
        atomic_store(conn->is_half_open, false);
}

/* Counts work that goes to the device, which completes each piece once. */
static inline void verbs_conn_posted(struct verbs_conn *conn, unsigned count)
{
    conn->base.unacknowledged += count;
}

/* The smaller of a device's attribute, which may be negative, and our limit. */
static inline uint8_t verbs_at_most(int allowed, uint8_t limit)
{
    if (allowed < 0)
        return 0;
    return allowed < limit ? (uint8_t)allowed : limit;
}

/* ---- device.c ---- */

/* Diagnoses why there is no event channel. Returns OKV_ENODEVICE or OKV_EPERM. */
int okv_verbs_no_channel(int errnum, struct okv_diag *diag);
/* Makes `fd` non-blocking and close-on-exec; -1 with errno. */
int okv_verbs_fd_prepare(int fd);
/* A non-blocking channel of CM events. */
int okv_verbs_channel(struct rdma_event_channel **out, struct okv_diag *diag);
/* The context for a client's objects: `managed`, which is the connection manager's, or in a forked
 * child one that is the caller's to close. */
int okv_verbs_context(struct ibv_context *managed, struct ibv_context **out, struct okv_diag *diag);
/* Queries the device; refuses one that cannot do what the protocol needs. */
int okv_verbs_check_device(struct ibv_context *verbs, struct ibv_device_attr *attr,
                           struct okv_diag *diag);
/* OKV_EADDRESS: it is not the device that `uri` names. */
int okv_verbs_check_named(struct ibv_context *verbs, const struct okv_uri *uri,
                          struct okv_diag *diag);
/* Names all RDMA devices, separated by commas; returns how many there are. */
int okv_verbs_device_names(char *out, size_t size);
/* "rxe0 port 1, GID 1 ::ffff:10.9.9.1 (RoCE v2), path MTU 4096, ethernet" */
void okv_verbs_describe(struct ibv_context *verbs, uint8_t port, const struct ibv_gid_entry *gid,
                        enum ibv_mtu mtu, char *out, size_t size);
/* The entry of the GID table that holds `gid`, RoCE v2 before others; with `gid`
 * NULL the first one made from an IPv4 address. */
bool okv_verbs_find_gid(struct ibv_context *verbs, uint8_t port, const union ibv_gid *gid,
                        struct ibv_gid_entry *out);
bool okv_verbs_is_loopback(const struct sockaddr *address);

/* ---- mr.c ---- */

/* Registers memory; OKV_EPERM with a sentence when the memlock limit is in the way.
 * Work requests and peers name its first byte by `address`, which must have the same
 * offset in its page as `base`. */
int okv_verbs_register(struct ibv_pd *pd, void *base, size_t length, int access, uint64_t address,
                       struct ibv_mr **out, struct okv_diag *diag);
int okv_verbs_slab_create(struct ibv_pd *pd, unsigned count, uint32_t slot_size,
                          struct verbs_slab *out, struct okv_diag *diag);
void okv_verbs_slab_destroy(struct verbs_slab *slab);
int okv_verbs_memory_register(struct okv_endpoint *endpoint, void *base, size_t length,
                              struct okv_memory **out);
void okv_verbs_memory_unregister(struct okv_memory *memory);

/* ---- endpoint.c ---- */

struct verbs_endpoint_params {
    struct ibv_context *verbs;
    struct ibv_pd *pd;
    bool owns_verbs; /* on failure the caller keeps both */
    bool owns_pd;
    const struct verbs_listener *listener;
    struct rdma_event_channel *cm;
    struct okv_message_limits limits;
    unsigned max_conns;
    unsigned reads_per_conn;
};

int okv_verbs_endpoint_new(const struct verbs_endpoint_params *params, struct verbs_endpoint **out,
                           struct okv_diag *diag);
int okv_verbs_endpoint_create(struct okv_listener *listener,
                              const struct okv_message_limits *limits, unsigned max_conns,
                              struct okv_endpoint **out, struct okv_diag *diag);
void okv_verbs_endpoint_destroy(struct okv_endpoint *endpoint);
int okv_verbs_arm(struct okv_endpoint *endpoint);

/* ---- conn.c ---- */

/* A connection with its queue pair in the reset state. `share` is what a server lends; a client has
 * NULL. `id` stays the caller's until `conn->id` is set. */
int okv_verbs_conn_new(struct verbs_endpoint *endpoint, const struct verbs_share *share,
                       struct verbs_conn **out, struct okv_diag *diag);
/* Frees what okv_verbs_conn_new made; `conn->id` must be destroyed. */
void okv_verbs_conn_free(struct verbs_conn *conn);
/* From now on the completions of the connection are found by its queue pair's number. */
void okv_verbs_conn_admit(struct verbs_conn *conn);
/* From now on its completions are dropped. */
void okv_verbs_conn_expel(struct verbs_conn *conn);
struct verbs_conn *okv_verbs_conn_find(struct verbs_endpoint *endpoint, uint32_t qp_num);
/* Starts to end a connection, once; `status` is what OKV_EVENT_CLOSED will say. */
void okv_verbs_conn_fail(struct verbs_conn *conn, int status);
void okv_verbs_conn_close(struct okv_conn *conn);
/* Disconnects and frees a connection in any state; its endpoint stays. */
void okv_verbs_conn_discard(struct verbs_conn *conn);
/* Takes the arrivals: accepted connections are admitted, lost ones begin to close. */
void okv_verbs_arrivals_process(struct verbs_endpoint *endpoint);
int okv_verbs_set_remote(struct okv_conn *conn, uint64_t address, uint64_t length, uint32_t rkey);

/* ---- closing.c ---- */

/* Reports what closing connections still owe. Returns the number of events. */
int okv_verbs_closing_finish(struct verbs_endpoint *endpoint, struct okv_event *events, int max);
void okv_verbs_conn_destroy(struct okv_conn *conn);

/* ---- handover.c ---- */

void okv_verbs_wake(struct okv_endpoint *endpoint);
/* True for the CM events after which a connection is of no use. */
bool okv_verbs_is_gone_event(enum rdma_cm_event_type type);
/* The connection manager says that the connection is lost; for the listener's thread. */
void okv_verbs_handover_gone(struct verbs_conn *conn);
/* Takes what the listener's thread has left; for the endpoint's thread. Returns the first accepted
 * connection, as okv_arrivals_take() does, and the lost ones in `*gone`, by next_gone. */
struct okv_conn *okv_verbs_handover_take(struct verbs_endpoint *endpoint, struct verbs_conn **gone);
/* Removes a connection from the lost ones; its id must be destroyed. */
void okv_verbs_handover_forget(struct verbs_conn *conn);

/* ---- qp.c ---- */

int okv_verbs_qp_create(struct verbs_conn *conn, struct okv_diag *diag);
/* Change the state of the queue pair with the connection manager's attributes; `access` is all
 * that the peer may ever do. Return 0 or an errno value. */
int okv_verbs_qp_to_init(struct verbs_conn *conn, struct rdma_cm_id *id, unsigned access);
int okv_verbs_qp_to_rts(struct verbs_conn *conn, struct rdma_cm_id *id, uint8_t reads_in,
                        uint8_t reads_out);

/* ---- post.c ---- */

/* Posts all receive slots: before the queue pair leaves the state INIT. Returns 0 or an errno
 * value. */
int okv_verbs_post_slots(struct verbs_conn *conn);
/* Posts receive slot `index`. */
void okv_verbs_post_slot(struct verbs_conn *conn, unsigned index);
const uint8_t *okv_verbs_slot(const struct verbs_conn *conn, unsigned index);
void okv_verbs_recv_release(struct okv_endpoint *endpoint, const struct okv_event *event);
/* Counts a completion. */
void okv_verbs_conn_completed(struct verbs_conn *conn, const struct ibv_wc *wc);
uint8_t *okv_verbs_send_buffer(struct okv_conn *conn);
int okv_verbs_post_send(struct okv_conn *conn, uint32_t length, uint32_t immediate);
void okv_verbs_flush(struct okv_conn *conn);
int okv_verbs_post_read(struct okv_conn *conn, const struct okv_read *reads, unsigned count);
int okv_verbs_heartbeat(struct okv_conn *conn);

/* ---- rendezvous.c ---- */

int okv_verbs_advertise(struct okv_conn *conn, const void *base, size_t length,
                        struct okv_advert **out);
void okv_verbs_withdraw(struct okv_advert *advert);
int okv_verbs_rendezvous(struct okv_conn *conn, const struct okv_rendezvous *rendezvous);
/* A piece has completed; returns the number of events, 1 or 0. */
int okv_verbs_complete_piece(struct verbs_conn *conn, const struct ibv_wc *wc,
                             struct okv_event *event);
/* Reports the rendezvous reads that the device never completed, and must not touch any more.
 * True when none is left. */
bool okv_verbs_end_rendezvous_reads(struct verbs_conn *conn, struct okv_event *events, int max,
                                    int *count);

/* ---- poll.c ---- */

int okv_verbs_poll(struct okv_endpoint *endpoint, struct okv_event *events, int max);

/* ---- listen.c ---- */

int okv_verbs_listen(const struct okv_uri *uri, const struct okv_region *regions, unsigned count,
                     struct okv_listener **out, struct okv_diag *diag);
void okv_verbs_unlisten(struct okv_listener *listener);
int okv_verbs_next_request(struct okv_listener *listener, struct okv_request **out);
int okv_verbs_accept(struct okv_request *request, const struct okv_accept *accept);
void okv_verbs_reject(struct okv_request *request, const uint8_t *reason, size_t length);

/* ---- discover.c ---- */

/* Fills in host and port of the server that `uri` names. Blocks for a second at most. OKV_EADDRESS
 * when no server has the name, or several have. */
int okv_verbs_discover(struct okv_uri *uri, uint64_t deadline_ns, struct okv_diag *diag);

/* ---- connect.c ---- */

int okv_verbs_connect_start(const struct okv_uri *uri, const struct okv_connect_params *params,
                            struct okv_connecting **out, struct okv_diag *diag);
int okv_verbs_connect_step(struct okv_connecting *connecting, struct okv_answer *answer,
                           struct okv_conn **out, struct okv_diag *diag);
void okv_verbs_connect_cancel(struct okv_connecting *connecting);

/* ---- attempt.c ---- */

/* What an attempt waits for, in this order. */
enum verbs_step { VERBS_STEP_ADDRESS, VERBS_STEP_ROUTE, VERBS_STEP_ANSWER, VERBS_STEP_DONE };

/* One attempt to reach one address. */
struct verbs_attempt {
    enum verbs_step step;
    uint64_t deadline_ns; /* of this step */
    bool again;           /* it failed, but another attempt may succeed */

    struct rdma_cm_id *id;      /* NULL while there is no attempt */
    struct verbs_conn *conn;    /* NULL before the first VERBS_STEP_ANSWER */
    struct okv_binding binding; /* of `conn` */
    uint8_t reads_out;          /* our READs that the device executes at once */
    uint8_t reads_in;           /* READs of the server that it serves at once */
    unsigned reads_posted;      /* READs that may be posted at once */
};

struct verbs_connecting {
    struct okv_connecting base;
    struct okv_uri uri;
    struct okv_hello hello;
    bool has_begun; /* an attempt */
    struct okv_message_limits limits;
    uint64_t deadline_ns;
    struct rdma_event_channel *channel; /* of all attempts; passes to the connection in the end */
    struct addrinfo *addresses;         /* of the host */
    const struct addrinfo *address;     /* the current one */
    struct addrinfo *source;            /* NULL: the route decides */
    unsigned attempts;                  /* to this address, with the current one */
    struct verbs_attempt attempt;
    struct okv_answer answer;
    struct okv_diag diag; /* why the latest attempt failed */
};

/* Begins an attempt. Returns 0 or a code of connect_step. okv_verbs_attempt_end or
 * okv_verbs_attempt_finish must follow. */
int okv_verbs_attempt_begin(struct verbs_connecting *c);
/* Begins it once more with another hello and the same queue pair, after a rejection. */
int okv_verbs_attempt_renew(struct verbs_connecting *c);
/* Handles one event of the connection manager; the caller acknowledges it. */
int okv_verbs_attempt_event(struct verbs_connecting *c, const struct rdma_cm_event *event);
/* Ends a failed attempt; the channel stays. */
void okv_verbs_attempt_end(struct verbs_connecting *c);
/* The connection of an attempt at VERBS_STEP_DONE; it owns id and channel. */
struct okv_conn *okv_verbs_attempt_finish(struct verbs_connecting *c);

/* ---- binding.c ---- */

/* `id` has its route, and a connect request has one. */
void okv_verbs_binding(struct rdma_cm_id *id, bool is_client, uint32_t qp_num,
                       struct okv_binding *out);

/* ---- diagnose.c: each fills c->diag and returns the code ---- */

/* The current step took too long. */
int okv_verbs_diagnose_silence(struct verbs_connecting *c);
int okv_verbs_diagnose_route(struct verbs_connecting *c, int errnum);
int okv_verbs_diagnose_rejection(struct verbs_connecting *c, const struct rdma_cm_event *event);
/* An event that no step waits for. */
int okv_verbs_diagnose_event(struct verbs_connecting *c, const struct rdma_cm_event *event);
/* The connection ended between the server's answer and its last step. */
int okv_verbs_diagnose_loss(struct verbs_connecting *c, int errnum);

#endif
