/*
 * Types of the verbs transport. Only this folder and tests include this header.
 *
 *   device      which device, how it is described, what it cannot do
 *   mr          the region, message slots, the caller's memory
 *   stage       registered room for copies of a client's long values
 *   domain      the protection domain of a client
 *   endpoint    completion queue, the descriptor to wait on
 *   qp          queue pairs: how they are made, and their states
 *   conn        one connection: its memory, how it is found, how it begins to end
 *   handover    where the listener's thread meets the endpoint's
 *   post        posts sends, READs and heartbeats, and counts them
 *   rendezvous  a client's advertised buffers, the server's rendezvous reads
 *   closing     how connections and endpoints end
 *   poll        completions to events
 *   binding     what ties a connection to its two ends, for proofs
 *   listen      the listener: requests, accept, reject
 *   attempt     one attempt to connect, event by event
 *   diagnose    why an attempt failed, for people
 *   connect     the client's connect: addresses and attempts, one after another
 *   ops         the table of operations
 *
 * Each uses those before it.
 *
 * Threads. A server has two: the listener's, which reads CM events, and the endpoint's. They meet
 * in the endpoint's `arrivals` and `gone`, under the lock of the arrivals, and in a connection's
 * `ready`. The listener's thread touches a connection that it has handed over only between
 * rdma_get_cm_event() and rdma_ack_cm_event() for an event of that connection. The endpoint's
 * thread frees a connection only after rdma_destroy_id(), which waits until every event of the id
 * is acknowledged (man rdma_destroy_id); no new one can come afterwards. So neither thread sees a
 * connection that the other has freed. Two rules keep this free of deadlock: nobody calls
 * rdma_destroy_id() with that lock held, and no event stays unacknowledged between two calls of
 * next_request.
 */
#ifndef OKV_SHARED_TRANSPORT_VERBS_VERBS_H
#define OKV_SHARED_TRANSPORT_VERBS_VERBS_H

#include <infiniband/verbs.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "shared/base/resolve.h"
#include "shared/transport/common/arrivals.h"
#include "shared/transport/common/read_slots.h"
#include "shared/transport/common/rendezvous_reads.h"
#include "shared/transport/common/send_slots.h"
#include "shared/transport/common/slab.h"
#include "shared/transport/common/wakeup.h"
#include "shared/transport/transport.h"

#define VERBS_READ_DEPTH 16 /* READs that we ask the device to execute at once */
/* A rendezvous read is split into READs of at most this length; DEPTH of them are under way. */
#define VERBS_RENDEZVOUS_PIECE (1u << 20)
#define VERBS_RENDEZVOUS_DEPTH 4
/* A client copies values of these lengths into registered memory of the connection, VERBS_STAGES at
 * once: a registration takes longer, a command to the device's firmware at its begin and its end.
 */
#define VERBS_STAGED_MIN 16384u
#define VERBS_STAGE_SIZE 131072u
#define VERBS_STAGES 4
#define VERBS_HEARTBEATS 1         /* heartbeats under way at once */
#define VERBS_SLAB_SPARE 64        /* bytes of a slab after its slots, for a heartbeat's answer */
#define VERBS_MAX_INLINE 256       /* bytes that we ask to send without a DMA read */
#define VERBS_POLL_BATCH 16        /* completions taken from the queue at once */
#define VERBS_CLOSE_NS 1000000000u /* time for a closing connection to flush its work */
#define VERBS_HELLO_ROOM 256       /* private data lengths are 8 bits wide */

/* A client readies its queue pair when it processes our welcome. A heartbeat that arrives earlier
 * is dropped and would end the connection, so the server waits this long for a sign that the client
 * is ready. A dead client is still found within a keepalive of 3 s. */
#define VERBS_READY_NS 1500000000u

/* An unanswered packet is sent again after 4.096 us * 2^16 = 0.27 s, six times: 1.9 s, less than a
 * keepalive, and more than short pauses of a link. Adapters that retransmit adaptively repair a
 * loss long before. Soft-RoCE waits that long for each loss, so it gets 2^14, 67 ms. Never 7 times,
 * which means "for ever" to some devices (rxe). */
#define VERBS_ACK_TIMEOUT 16
#define VERBS_ACK_TIMEOUT_SOFT 14
#define VERBS_SOFT_VENDOR 0xffffff /* RXE_VENDOR_ID of the kernel's rxe_param.h */
#define VERBS_RETRY_COUNT 6
/* Credits keep the receiver ready. A peer that exceeds them meets its own receive queue empty,
 * retries after 41 ms, VERBS_RETRY_COUNT times, and breaks its own queue pair. This is the
 * receiver's setting; the connection manager would choose 655 ms (man rdma_connect). */
#define VERBS_MIN_RNR_TIMER 24
/* Receives beyond the credits: a slot is posted again when the caller has released its message, and
 * a goodbye needs no credit. */
#define VERBS_SPARE_RECVS 2

/* A region, open for remote reading. Its key is valid for queue pairs of its domain only. */
struct verbs_region {
    struct ibv_pd *pd;
    struct ibv_mr *mr;
};

struct verbs_listener {
    struct okv_listener base;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_context *verbs;    /* the connection manager's; never closed by us */
    struct ibv_context **devices; /* keeps `verbs` open where no address does; else NULL */
    unsigned region_count;
    struct verbs_region regions[OKV_REGIONS_MAX];
    uint8_t max_reads_in;      /* READs that the device can serve at once on one connection */
    uint8_t rendezvous_depth;  /* pieces that may be under way at once on one connection */
    uint32_t rendezvous_piece; /* bytes of a piece at most */
    unsigned next_vector;      /* of completions, for the next endpoint */
    int failure;               /* why it cannot go on: its device went away, its address moved */
    bool is_infiniband;        /* else it is Ethernet */
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
    uint8_t *spare; /* VERBS_SLAB_SPARE bytes after the slots */
    struct ibv_mr *mr;
};

/* Room for a copy of a value that is advertised. */
struct verbs_stage {
    struct verbs_slab slab; /* zeroed until it is needed */
    bool is_busy;
};

LIST_HEAD(verbs_conn_list, verbs_conn);

/* A protection domain, of which a thread domain is a part if the device has those. */
struct verbs_domain {
    struct ibv_pd *pd; /* for all objects: `whole`, or its part */
    struct ibv_pd *whole;
    struct ibv_td *thread; /* NULL: there is none */
};

struct verbs_endpoint {
    struct okv_endpoint base; /* base.fd: the set of `wakeup`, with those of completions and CM */
    struct ibv_context *verbs;
    struct verbs_domain domain;            /* client; a server's connections have their region's */
    bool owns_verbs;                       /* client in a forked child */
    const struct verbs_listener *listener; /* NULL in a client */
    struct okv_message_limits limits;
    unsigned reads_per_conn; /* a client's READs, or a server's pieces of rendezvous reads */
    uint8_t ack_timeout;     /* of its device: VERBS_ACK_TIMEOUT or the other one */
    atomic_uint conns;

    struct ibv_comp_channel *completions;
    struct ibv_cq *cq;
    unsigned unacked_events; /* of the completion channel */
    struct okv_wakeup wakeup;
    struct rdma_event_channel *cm; /* client: CM events; NULL in a server */
    struct rdma_cm_id *last_id; /* client: destroyed after all else, see close_id() in listen.c */

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
    bool discards_receives; /* our side has closed: messages are dropped */
    uint64_t close_deadline;
    uint64_t close_times_empty; /* endpoint->times_empty when closing began */

    uint64_t remote_address;
    uint32_t remote_rkey;
    struct ibv_pd *pd;
    const struct verbs_region *region; /* a server's; NULL in a client */
    struct verbs_slab slab;            /* the send buffers, then the receive slots */
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
    /* Of those with a destination beside the region. */
    struct ibv_mr *destinations[OKV_RENDEZVOUS_MAX];
    unsigned pieces;          /* under way, of all rendezvous reads */
    uint8_t rendezvous_depth; /* limit of `pieces`; 0: no rendezvous reads here */

    struct verbs_stage stages[VERBS_STAGES]; /* a client's */

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

/* Called at a sign that the peer's queue pair accepts packets. Any thread that may touch the
 * connection. */
static inline void verbs_conn_is_ready(struct verbs_conn *conn)
{
    if (atomic_load_explicit(&conn->ready, memory_order_relaxed))
        return;
    atomic_store(&conn->ready, true);
    if (conn->is_half_open)
        atomic_store(conn->is_half_open, false);
}

/* Counts work that is passed to the device, which completes each piece once. */
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

#endif
