/*
 * Types of the ofi transport: any fabric that libfabric has a provider for. Only this folder and
 * tests include this header. docs/fabrics.md is the design.
 *
 *   wire        the bytes that both sides share
 *   fabric      a provider that is open; memory for it
 *   protection  whether a provider keeps the promise "readable, never writable"
 *   provider    chooses a provider, opens it, checks it
 *   control     the TCP connection beside the fabric: frames, the end, the host's death
 *   receive     receive slots
 *   progress    a thread that serves READs while a worker is busy
 *   endpoint    the fabric's endpoint, its queues, the descriptor to wait on
 *   conn        one connection: its memory, its peer, how it begins to end
 *   post        posts messages and READs
 *   rendezvous  a client's advertised buffers, the server's rendezvous reads
 *   bare        READs by libfabric alone, to measure
 *   closing     how connections and endpoints end
 *   poll        completions to events
 *   listen      the listener: requests, accept, reject
 *   descriptors libfabric's own, which are not for other programs
 *   connect     the client's connect, step by step
 *   ops         the table of operations
 *
 * Each uses those before it.
 *
 * Threads. A server's listener thread makes connections and leaves them in `arrivals` for the
 * endpoint's thread. All else of a connection belongs to the endpoint's thread. The progress thread
 * drives the completion queue, and takes nothing from it.
 */
#ifndef OKV_SHARED_TRANSPORT_OFI_OFI_H
#define OKV_SHARED_TRANSPORT_OFI_OFI_H

#include <netdb.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdatomic.h>

#include "shared/base/resolve.h"
#include "shared/transport/common/arrivals.h"
#include "shared/transport/common/pending.h"
#include "shared/transport/common/read_slots.h"
#include "shared/transport/common/rendezvous_reads.h"
#include "shared/transport/common/send_slots.h"
#include "shared/transport/common/slab.h"
#include "shared/transport/common/wakeup.h"
#include "shared/transport/ofi/wire.h"

/* What libokv finds in this library. */
extern const struct okv_transport_ops okv_transport_ofi;

#define OFI_API FI_VERSION(1, 17)
#define OFI_RENDEZVOUS_PIECE (1u << 18) /* a rendezvous read is split into READs of this length */
#define OFI_RENDEZVOUS_DEPTH 4          /* of them may be under way on one connection */
#define OFI_POLL_BATCH 64               /* completions taken from the queue at once */
#define OFI_TAKEN_MAX 256               /* and in one poll, also when they make no events */
/* How a queue's descriptor is watched. Once the queue has had a completion, that of net stays
 * readable for ever: its fi_trywait() does nothing. So only changes count, and a poll follows each.
 */
#define OFI_QUEUE_EVENTS (EPOLLIN | EPOLLET)
#define OFI_CONTROL_INTERVAL 64u /* polls per look at the control connections */

/* A provider, opened on a local address. */
struct ofi_fabric {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    bool is_one_sided;   /* the device serves READs without the process */
    const char *refused; /* a better provider that is there and cannot be used; NULL: none */
};

/* Memory that the fabric may access. */
struct ofi_region {
    struct fid_mr *mr;
    void *desc;       /* for operations of our own; NULL unless the provider wants one */
    uint64_t address; /* of its first byte, for the peer */
    uint64_t key;
};

struct okv_memory {
    struct ofi_region region;
    const void *base;
    size_t length;
};

struct ofi_slab {
    struct okv_slab memory;
    struct ofi_region region;
};

enum ofi_work { OFI_WORK_RECV, OFI_WORK_SEND, OFI_WORK_READ, OFI_WORK_PIECE, OFI_WORK_FIRST };

/* An operation of the fabric. It must not move until its completion: libfabric has a pointer to it,
 * and some providers write into it. */
struct ofi_op {
    struct fi_context2 context;
    const struct ofi_op *self; /* tells it from a pointer of the provider's own */
    enum ofi_work work;
    unsigned index;
    struct ofi_conn *conn; /* NULL for a receive */
};

/* Operations of a receive slot, used in turn: rxm reports the failure of one long message once for
 * each of its parts, of which it has 4 at most. */
#define OFI_RECV_TURNS 8

struct ofi_recv {
    struct ofi_op ops[OFI_RECV_TURNS];
    unsigned turn;  /* of the operation that is posted, or will be */
    bool is_posted; /* the provider has the slot */
};

/* Receive slots of one connection number. They are made for the first connection that has it, and
 * stay for the next one, since the provider keeps them. */
struct ofi_receive_pool {
    struct ofi_slab slots;  /* [pool_slots] */
    struct ofi_recv *recvs; /* [pool_slots]; NULL: not made yet */
    bool is_in_use;         /* its slots are posted, or wait in `unposted` */
};

struct ofi_request {
    struct okv_pending_client client;
    size_t got; /* bytes of `frame` */
    struct ofi_frame frame;
};

struct ofi_listener {
    struct okv_listener base;
    struct okv_pending pending;
    struct ofi_fabric fabric;
    unsigned region_count;
    struct okv_region memories[OKV_REGIONS_MAX];
    struct ofi_region regions[OKV_REGIONS_MAX];
};

/* The thread that makes progress for a busy worker. */
struct ofi_progress {
    pthread_t thread;
    bool runs;
    struct okv_wakeup wakeup; /* its set has the queue's descriptor; signalled when `ends` */
    atomic_bool ends;
    atomic_uint polls; /* of the queue, that the worker made */
};

LIST_HEAD(ofi_conn_list, ofi_conn);

struct ofi_endpoint {
    struct okv_endpoint base; /* base.fd: the set of `wakeup`, with `controls` and the queue */
    struct ofi_fabric own;    /* a client's */
    struct ofi_fabric *fabric;
    const struct ofi_listener *listener; /* NULL in a client */
    struct okv_message_limits limits;

    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep; /* NULL when a client has closed it, or tried to */
    uint8_t name[OFI_NAME_MAX];
    uint8_t name_length;
    unsigned pool_slots;            /* slots of each pool */
    unsigned pool_count;            /* a server's last one is for messages of no connection */
    struct ofi_receive_pool *pools; /* by connection number; slot n is in pool n / pool_slots */
    unsigned *unposted;             /* stack of slots that the provider did not take */
    unsigned unposted_count;
    struct okv_wakeup wakeup;
    int controls; /* an epoll set of the control connections */

    /* Used by the endpoint's thread only. */
    struct fi_cq_msg_entry done[OFI_POLL_BATCH];
    int done_next, done_count;
    bool broken;
    bool is_stuck; /* `ep` did not close: the provider may write to the memory that it has */
    unsigned polls_until_controls;
    uint64_t times_empty;         /* how often the completion queue was found empty */
    struct ofi_conn **table;      /* by number; NULL: free, or not admitted yet */
    struct ofi_conn_list blocked; /* have work that the provider had no room for */
    struct ofi_conn_list closing;
    unsigned zombie_count;
    struct ofi_conn_list zombies; /* destroyed, operations outstanding */
    struct ofi_progress progress;

    struct okv_arrivals arrivals; /* its lock guards the next two, too */
    unsigned *numbers;            /* stack of free connection numbers */
    unsigned number_count;
};

enum ofi_conn_state { OFI_CONN_OPEN, OFI_CONN_CLOSING, OFI_CONN_CLOSED };

struct ofi_read {
    struct ofi_op op;
    struct okv_read read;
};

struct ofi_bare; /* bare.c */

struct ofi_conn {
    struct okv_conn base;
    int control;
    enum ofi_conn_state state;
    int close_status;
    bool discards_receives; /* our side has closed */
    uint64_t close_deadline;
    uint64_t close_times_empty;

    unsigned number;
    uint64_t key; /* that messages for us must have */
    fi_addr_t peer;
    uint32_t peer_connection; /* of the headers of messages for the peer */
    uint64_t peer_key;
    uint64_t remote_address, remote_key, remote_limit; /* the region, which the client reads */
    unsigned pending;                                  /* operations that the provider has */
    unsigned adverts;                                  /* buffers that a client advertises */
    bool has_number;

    /* A server's: what the client may read. */
    const struct okv_region *memory;
    const struct ofi_region *region;

    struct ofi_slab send_slab;
    struct okv_send_slots sends;
    struct ofi_op *send_ops;
    uint32_t *send_lengths; /* with the header */

    struct okv_read_slots reads;
    struct ofi_read read_ops[OKV_READ_SLOTS];
    struct ofi_op first; /* a client's first READ, before the connection stands */
    bool is_first_posted, is_first_done;
    unsigned read_queue[OKV_READ_SLOTS]; /* ring of those that the provider had no room for */
    unsigned read_first, read_count;

    struct okv_rendezvous_reads rendezvous;
    /* Where pieces arrive, unless a device serves them. A peer that stops making progress can delay
     * the provider's READs for ever, and late ones must not write to the region. With a device,
     * once memory beside the region was a destination. */
    struct ofi_slab bounce;
    struct ofi_piece {
        struct ofi_op op;
        unsigned rendezvous; /* the one that it belongs to */
        uint32_t length;
        uint8_t *to;
        bool busy;
        bool orphaned; /* its rendezvous read was reported as ended */
    } pieces[OFI_RENDEZVOUS_DEPTH];

    struct ofi_bare *bare; /* a client's that measures bare READs */

    LIST_ENTRY(ofi_conn) in_blocked;
    bool is_blocked;
    LIST_ENTRY(ofi_conn) in_closing; /* or in `zombies` */
};

static inline void ofi_op_init(struct ofi_op *op, enum ofi_work work, unsigned index,
                               struct ofi_conn *conn)
{
    *op = (struct ofi_op){.self = op, .work = work, .index = index, .conn = conn};
}

static inline struct ofi_endpoint *ofi_endpoint_of(const struct ofi_conn *conn)
{
    return (struct ofi_endpoint *)conn->base.endpoint;
}

static inline struct ofi_recv *ofi_recv_of(const struct ofi_endpoint *ep, unsigned slot)
{
    return &ep->pools[slot / ep->pool_slots].recvs[slot % ep->pool_slots];
}

static inline uint8_t *ofi_slot(const struct ofi_endpoint *ep, unsigned slot)
{
    const struct ofi_slab *slots = &ep->pools[slot / ep->pool_slots].slots;

    return okv_slab_slot(&slots->memory, slot % ep->pool_slots);
}

/* The provider has taken an operation. Where a process serves READs, a slow answer says nothing
 * about its host, so nothing counts as unacknowledged: the control connection finds a dead host. */
static inline void ofi_conn_posted(struct ofi_conn *conn)
{
    conn->pending++;
    conn->base.unacknowledged += ofi_endpoint_of(conn)->fabric->is_one_sided;
}

#endif
