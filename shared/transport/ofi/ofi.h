/*
 * What the files of the ofi transport share: any fabric that libfabric has a provider for. Only
 * this folder includes this header. docs/fabrics.md is the design.
 *
 *   wire        the bytes that both sides share
 *   fabric      which provider, opened on a local address; memory for it
 *   protection  whether a provider keeps the promise "readable, never writable"
 *   control     the TCP connection beside the fabric: frames, the end, the host's death
 *   endpoint    the fabric's endpoint and queues, receive slots, the descriptor to wait on
 *   progress    a thread that serves READs while a worker is busy
 *   conn        one connection: its memory, its lists, how it ends
 *   listen      the listener: requests, accept, reject
 *   connect     the client's connect, step by step
 *   post        posts messages and READs
 *   bare        READs by libfabric alone, to measure
 *   rendezvous  a client's advertised buffers, the server's rendezvous reads
 *   poll        completions to events
 *   ops         the table of operations
 *
 * Threads. A server's listener thread makes connections and hands them to the endpoint's thread in
 * `opened`, under the endpoint's lock. All else of a connection belongs to the endpoint's thread.
 * The progress thread drives the completion queue, and takes nothing from it.
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
/* Sets libfabric's environment and opens its providers, once in a process. This takes a time that
 * no deadline of a connect should have to cover: the verbs provider of 1.17 reads all symbols of
 * the kernel. */
void okv_ofi_prepare(void);
/* For okv doctor, which looks it up by its name: what of the ranking is here, at any address, best
 * first: "verbs, net, tcp", or "none". */
void okv_ofi_providers(char *out, size_t size);

#define OFI_API FI_VERSION(1, 17)
#define OFI_RENDEZVOUS_PIECE (1u << 18) /* a rendezvous read is split into READs of this length */
#define OFI_RENDEZVOUS_DEPTH 4          /* of which so many are under way on one connection */
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

/* An operation of the fabric. It has to stay where it is until its completion: libfabric has a
 * pointer to it, and some providers write into it. */
struct ofi_op {
    struct fi_context2 context;
    const struct ofi_op *self; /* by which it is told from a pointer of the provider's own */
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

/* Receive slots for one connection. They are made for the first connection with this number and
 * stay for the next one, since the provider has them. */
struct ofi_share {
    struct ofi_slab slots;  /* [share_slots] */
    struct ofi_recv *recvs; /* [share_slots]; NULL: not made yet */
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

/* The thread that makes progress in a busy worker's place. */
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
    unsigned share_slots;     /* slots of a share */
    unsigned share_count;     /* a server's last one is of no connection, for what strangers send */
    struct ofi_share *shares; /* by connection number; slot n is in share n / share_slots */
    unsigned *unposted;       /* stack of slots that the provider did not take */
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
    struct ofi_conn_list zombies; /* destroyed, but the provider still has operations of theirs */
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
    bool deaf; /* our side has closed: messages are dropped */
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
    /* Where pieces arrive, unless a device serves them. A peer that stops making progress keeps the
     * provider's READs for ever, and they must not write to the region then. */
    struct ofi_slab bounce;
    struct ofi_piece {
        struct ofi_op op;
        unsigned rendezvous; /* the one that it belongs to */
        uint32_t length;
        uint64_t offset; /* in the region */
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
    return &ep->shares[slot / ep->share_slots].recvs[slot % ep->share_slots];
}

static inline uint8_t *ofi_slot(const struct ofi_endpoint *ep, unsigned slot)
{
    const struct ofi_slab *slots = &ep->shares[slot / ep->share_slots].slots;

    return okv_slab_slot(&slots->memory, slot % ep->share_slots);
}

/* The provider has taken an operation. Where a process serves READs, one that takes its time says
 * nothing about its host, so nothing counts as unacknowledged: the control connection finds a host
 * that is dead. */
static inline void ofi_conn_posted(struct ofi_conn *conn)
{
    conn->pending++;
    conn->base.unacknowledged += ofi_endpoint_of(conn)->fabric->is_one_sided;
}

/* ---- fabric.c ---- */

/* Opens a provider on the local address `host`, which is numeric: the one of this name, or with ""
 * the first of a ranking that opens. A server's has passed okv_ofi_protection_check(), and is safe
 * for several threads. On failure the sentence is about the best provider that is there. */
int okv_ofi_fabric_open(const char *provider, const char *host, bool is_server,
                        struct ofi_fabric *out, struct okv_diag *diag);
void okv_ofi_fabric_close(struct ofi_fabric *fabric);
const char *okv_ofi_fabric_name(const struct ofi_fabric *fabric);
/* Registers memory; `access` is that of fi_mr_reg(3), such as FI_REMOTE_READ. */
int okv_ofi_region_open(const struct ofi_fabric *fabric, const void *base, size_t length,
                        uint64_t access, struct ofi_region *out, struct okv_diag *diag);
/* False when the provider keeps it: the memory has to stay. */
bool okv_ofi_region_close(struct ofi_region *region);
int okv_ofi_slab_create(const struct ofi_fabric *fabric, unsigned count, size_t slot_size,
                        uint64_t access, struct ofi_slab *out, struct okv_diag *diag);
void okv_ofi_slab_destroy(struct ofi_slab *slab);
/* The code for a negative result of libfabric. */
int okv_ofi_error(ssize_t rc);
int okv_ofi_memory_register(struct okv_endpoint *endpoint, void *base, size_t length,
                            struct okv_memory **out);
void okv_ofi_memory_unregister(struct okv_memory *memory);

/* ---- protection.c ---- */

/* Writes to memory of our own that is registered for remote reading only. OKV_EUNSUPPORTED when the
 * provider lets that through. */
int okv_ofi_protection_check(const struct ofi_fabric *fabric, struct okv_diag *diag);

/* ---- control.c ---- */

/* Makes the kernel find a dead host on its own. */
int okv_ofi_control_prepare(int sock);
/* Sends all of a frame; the socket's buffer has room for it. */
int okv_ofi_control_send(int sock, const struct ofi_frame *frame);
/* Receives what has come of a frame. 1 when it is whole and valid, 0 when bytes are missing,
 * OKV_EDISCONNECTED, OKV_EPROTO for anything else than a frame, OKV_EVERSION. */
int okv_ofi_control_receive(int sock, struct ofi_frame *frame, size_t *got);
/* Whether the peer's host was heard of lately. */
bool okv_ofi_control_is_alive(int sock);
/* 0 while the connection stands, else why it ended. */
int okv_ofi_control_check(int sock);

/* ---- endpoint.c ---- */

/* Takes over `own` on success if it is not NULL; else the listener's fabric is used. */
int okv_ofi_endpoint_new(const struct ofi_listener *listener, struct ofi_fabric *own,
                         const struct okv_message_limits *limits, unsigned max_conns,
                         struct ofi_endpoint **out, struct okv_diag *diag);
int okv_ofi_endpoint_create(struct okv_listener *listener, const struct okv_message_limits *limits,
                            unsigned max_conns, struct okv_endpoint **out, struct okv_diag *diag);
void okv_ofi_endpoint_destroy(struct okv_endpoint *endpoint);
/* Makes the share of a connection number, unless it is there. Any thread that has the number. */
int okv_ofi_share_make(struct ofi_endpoint *endpoint, unsigned number, struct okv_diag *diag);
/* Posts the slots of a share, once. */
void okv_ofi_share_use(struct ofi_endpoint *endpoint, unsigned number);
/* Posts the receive slots that wait. */
void okv_ofi_post_slots(struct ofi_endpoint *endpoint);
/* Posts receive slot `index`, now or when the provider has room. */
void okv_ofi_post_slot(struct ofi_endpoint *endpoint, unsigned index);
void okv_ofi_recv_release(struct okv_endpoint *endpoint, const struct okv_event *event);
int okv_ofi_arm(struct okv_endpoint *endpoint);
void okv_ofi_wake(struct okv_endpoint *endpoint);

/* ---- progress.c ---- */

int okv_ofi_progress_start(struct ofi_endpoint *endpoint, struct okv_diag *diag);
void okv_ofi_progress_stop(struct ofi_endpoint *endpoint);

/* ---- conn.c ---- */

/* A connection with a number and a key; its control connection is the caller's to set. Any
 * thread. */
int okv_ofi_conn_new(struct ofi_endpoint *endpoint, struct ofi_conn **out, struct okv_diag *diag);
/* Where the peer's endpoint is. */
int okv_ofi_conn_find_peer(struct ofi_conn *conn, const struct ofi_place *place);
/* Where ours is, for the peer. */
void okv_ofi_conn_tell_place(const struct ofi_conn *conn, struct ofi_place *place);
void okv_ofi_conn_free(struct ofi_conn *conn);
/* From now on it receives messages, and its control connection is watched. */
int okv_ofi_conn_admit(struct ofi_conn *conn);
/* Starts to end a connection, once; `status` is what OKV_EVENT_CLOSED will say. */
void okv_ofi_conn_fail(struct ofi_conn *conn, int status, const char *why);
void okv_ofi_conn_close(struct okv_conn *conn);
void okv_ofi_conn_destroy(struct okv_conn *conn);
/* Admits the accepted connections. */
void okv_ofi_arrivals_process(struct ofi_endpoint *endpoint);
/* Reports what closing connections still owe, then their end. Returns the number of events. */
int okv_ofi_closing_finish(struct ofi_endpoint *endpoint, struct okv_event *events, int max);
/* Frees the zombies without operations; all of them when the fabric's endpoint is closed. */
void okv_ofi_zombies_free(struct ofi_endpoint *endpoint, bool all);
int okv_ofi_set_remote(struct okv_conn *conn, uint64_t address, uint64_t length, uint32_t rkey);

/* ---- listen.c ---- */

int okv_ofi_listen(const struct okv_uri *uri, const struct okv_region *regions, unsigned count,
                   struct okv_listener **out, struct okv_diag *diag);
void okv_ofi_unlisten(struct okv_listener *listener);
int okv_ofi_accept(struct okv_request *request, const struct okv_accept *accept);
void okv_ofi_reject(struct okv_request *request, const uint8_t *reason, size_t length);

/* ---- connect.c ---- */

int okv_ofi_connect_start(const struct okv_uri *uri, const struct okv_connect_params *params,
                          struct okv_connecting **out, struct okv_diag *diag);
int okv_ofi_connect_step(struct okv_connecting *connecting, struct okv_answer *answer,
                         struct okv_conn **out, struct okv_diag *diag);
void okv_ofi_connect_cancel(struct okv_connecting *connecting);

/* ---- post.c ---- */

int okv_ofi_post_read(struct okv_conn *conn, const struct okv_read *reads, unsigned count);
uint8_t *okv_ofi_send_buffer(struct okv_conn *conn);
int okv_ofi_post_send(struct okv_conn *conn, uint32_t length, uint32_t immediate);
void okv_ofi_flush(struct okv_conn *conn);
int okv_ofi_heartbeat(struct okv_conn *conn);
/* Posts a READ of the region's first bytes, once. 0 when it has ended, OKV_EAGAIN to poll and call
 * again, OKV_EDISCONNECTED when it failed. */
int okv_ofi_first_read(struct ofi_conn *conn);
/* Posts what waits for room on any connection. */
void okv_ofi_retry_blocked(struct ofi_endpoint *endpoint);
/* The connection has work that the provider had no room for. */
void okv_ofi_block(struct ofi_conn *conn);

/* ---- bare.c ---- */

int okv_ofi_bare_read(struct okv_conn *conn, struct okv_bare_reads *reads);
void okv_ofi_bare_close(struct ofi_bare *bare); /* accepts NULL */

/* ---- rendezvous.c ---- */

int okv_ofi_advertise(struct okv_conn *conn, const void *base, size_t length,
                      struct okv_advert **out);
void okv_ofi_withdraw(struct okv_advert *advert);
int okv_ofi_rendezvous(struct okv_conn *conn, const struct okv_rendezvous *rendezvous);
/* Posts pieces, as many as may be under way. */
void okv_ofi_post_pieces(struct ofi_conn *conn);
/* A piece has ended. Returns 1 with an event when it was the last of its rendezvous read. */
int okv_ofi_complete_piece(struct ofi_conn *conn, unsigned index, int status,
                           struct okv_event *event);
/* Reports those of a closing connection; false when `events` is full or pieces are under way. */
bool okv_ofi_end_rendezvous_reads(struct ofi_conn *conn, struct okv_event *events, int max,
                                  int *count);

/* ---- poll.c ---- */

int okv_ofi_poll(struct okv_endpoint *endpoint, struct okv_event *events, int max);

#endif
