/*
 * The interface between okv and its transports. README.md says how to add a transport.
 *
 * A listener (server) or a connect (client) makes connections. Completions of a connection arrive
 * at its endpoint as events. Addresses are offsets into the one region that the connection reaches,
 * of those that the server's listener opens for remote reading.
 *
 *   server       listen -> endpoint_create -> next_request -> accept or reject
 *   client       connect_start -> connect_step -> set_remote (it makes its own endpoint)
 *   gets         post_read, or read_now where the transport has it; bare_read measures their floor
 *   messages     send_buffer -> post_send -> flush; poll -> recv_release
 *   long values  client: advertise -> a message carries address and key -> withdraw;
 *                server: rendezvous, which READs the advertised buffer
 *   waiting      arm, wake; heartbeat
 *   end          close -> OKV_EVENT_CLOSED from poll -> conn_destroy
 *
 * Threads. A transport starts none that calls back. One thread drives a listener (next_request,
 * accept, reject). One thread drives an endpoint and every connection on it (all other calls). The
 * two may differ. wake may be called from any thread.
 *
 * Credits. Each side tells the other how many messages it may have outstanding (`credits`), and
 * holds a receive buffer for each of them, so a message always finds one. A request holds
 * its credit until its reply is received.
 *
 * A reply may overtake the acknowledgement of the message before it, so send buffers can run out
 * although credits are respected. send_buffer then returns NULL, and the caller tries again after a
 * poll.
 *
 * Errors are the negative codes of error.h. A failed connection reports itself once, by
 * OKV_EVENT_CLOSED. Until then calls on it return OKV_EDISCONNECTED.
 */
#ifndef OKV_SHARED_TRANSPORT_TRANSPORT_H
#define OKV_SHARED_TRANSPORT_TRANSPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "shared/base/bytes.h"
#include "shared/base/diag.h"
#include "shared/base/uri.h"

struct okv_tls;
struct okv_transport_ops;

/* Memory that clients may read: mapped at `base`, backed by the memfd `fd`. Borrowed; it must
 * outlive the listener and stay mapped. */
struct okv_region {
    void *base;
    uint64_t length;
    int fd;
};

/* Limits of the messages of a connection. */
struct okv_message_limits {
    uint32_t slot_size; /* bytes of the largest message, either way */
    uint32_t credits;   /* messages that one connection may have outstanding */
};

/* What both ends know of a connection and no other connection has: over RDMA their GIDs, the
 * client's queue pair and the port; over ofi the client's place; nothing over local, where the
 * kernel identifies the peer, and over tcp. A proof that covers it is invalid on another
 * connection. */
#define OKV_BINDING_MAX 80
struct okv_binding {
    uint8_t bytes[OKV_BINDING_MAX];
    size_t length;
};

/* Regions of one listener. */
#define OKV_REGIONS_MAX 16

/* Approximate limit of the connections that one poll reports as closed: to free one takes longer
 * than to serve a request. */
#define OKV_ENDS_PER_POLL 32

struct okv_listener {
    const struct okv_transport_ops *ops;
    /* Clients that have not sent their hello; NULL: the transport has none. Its limits may be set
     * between listen and the first next_request. */
    struct okv_pending *pending;
    /* tcps: what its clients' streams begin TLS with. Borrowed; to be set between listen and the
     * first next_request. */
    struct okv_tls *tls;
    int fd;                          /* readable when next_request has something to do */
    uint32_t rkeys[OKV_REGIONS_MAX]; /* with which clients read each region; 0 for local and ofi */
    char where[192];                 /* the URI for clients: "rdma://10.9.9.1:7471" */
    char how[192];                   /* for people: device, port, GID, MTU; or the socket */
};

/* A client that asks to be connected. accept or reject ends it. */
struct okv_request {
    struct okv_listener *listener;
    const uint8_t *hello; /* the peer's first bytes, untrusted; valid until accept or reject */
    size_t hello_length;
    struct okv_binding binding;
    char peer[64];     /* address of the client, for people */
    char address[64];  /* where answers go, as limits count it (okv_host_group_text()): the same for
                          all connections of a host, or over local of a user */
    bool is_half_open; /* it is not proven yet that the client is at this address */
    bool is_foreign;   /* the listener shares no memory with this user: reject it */
    char stranger[96]; /* not "": it sent no hello, but this, in words: reject it */
};

struct okv_endpoint {
    const struct okv_transport_ops *ops;
    int fd;             /* readable when an armed endpoint has something to poll */
    bool is_copying;    /* the last poll left copies to the next one, so that no poll takes long */
    unsigned max_conns; /* connections that it has room for */
};

/* Why a device did not accept a client. */
struct okv_accept_failure {
    const char *step; /* what was under way; static; NULL: not known */
    int errnum;
    uint16_t path_mtu; /* not 0: packets of the client's path are larger than our port carries */
    uint16_t port_mtu; /* then */
};

/* How a request is accepted. */
struct okv_accept {
    struct okv_endpoint *endpoint;
    unsigned region;           /* index: the only one that the connection reaches */
    atomic_bool *is_half_open; /* NULL, or cleared once the client shows that it got the welcome */
    void *user;                /* of the connection */
    const uint8_t *welcome;
    size_t length;                      /* of `welcome`, at most OKV_WELCOME_MAX */
    struct okv_accept_failure *failure; /* filled in by those that know; may be NULL */
};

struct okv_conn {
    const struct okv_transport_ops *ops;
    struct okv_endpoint *endpoint;
    void *user;             /* the caller's; the transport never uses it */
    uint32_t slot_size;     /* bytes of each send buffer */
    bool is_one_sided;      /* client: READs are served without the server's process */
    unsigned max_reads;     /* client: READs that may be outstanding at once, at least 1 */
    uint64_t remote_length; /* client: bytes that post_read may address; 0 until set_remote */
    /* Sends, READs, pieces of rendezvous reads and heartbeats that the peer's device has not
     * acknowledged yet, and the number that it has acknowledged. The transport counts them on the
     * endpoint's thread. */
    uint32_t unacknowledged;
    uint64_t acknowledged;
    char peer[64];
    char how[192];                      /* for people: device, GID, MTU; or the socket */
    char failure[64];                   /* for people: the device's reason for a failure, or "" */
    STAILQ_ENTRY(okv_conn) in_arrivals; /* the transport's */
};

/* Memory that READs may write to. */
struct okv_memory;

/* One READ: `length` bytes at `offset` of the remote region into `destination`,
 * which lies in `memory`. `cookie` comes back in its event. */
struct okv_read {
    uint64_t offset;
    void *destination;
    struct okv_memory *memory;
    uint32_t length;
    uint64_t cookie;
};

/* READs for bare_read: each of `length` bytes, which are discarded. */
struct okv_bare_reads {
    const uint64_t *offsets; /* [count], in the remote region */
    uint32_t length;
    uint32_t count;
    uint32_t depth;         /* READs under way at once, at least 1 */
    uint64_t timeout_ns;    /* OKV_ETIMEDOUT when none ends within this time */
    uint64_t *latencies_ns; /* [count]: set to the time of each, from its post to its completion */
    uint64_t total_ns;      /* set: from the first post to the last completion */
};

/* True when a READ stays inside the remote region and inside the memory [base, base + length). */
static inline bool okv_read_is_valid(const struct okv_read *read, uint64_t remote_length,
                                     const void *base, size_t length)
{
    /* A destination before the memory wraps around to one far beyond it. */
    uint64_t offset = (uint64_t)((uintptr_t)read->destination - (uintptr_t)base);

    return read->length > 0 && okv_range_inside(read->offset, read->length, remote_length) &&
           okv_range_inside(offset, read->length, length);
}

/* Computes from the first OKV_READ_BEGINNING bytes of a READ how many of its bytes are needed. The
 * bytes are not checked yet; a result above the READ's length means all of them. */
#define OKV_READ_BEGINNING 64u
typedef uint32_t okv_used_bytes(const uint8_t *beginning);

/* An advertised buffer: client memory that the server may READ. A message carries the two numbers
 * to the server. */
struct okv_advert {
    uint64_t address;
    uint32_t key;
};

/* Rendezvous reads that one connection may have under way. */
#define OKV_RENDEZVOUS_MAX 4

/* One rendezvous read: `length` bytes from the client's advertised buffer to `offset` of the
 * server's region, or to `destination`, memory that no client can READ. `cookie` comes back in its
 * event. */
struct okv_rendezvous {
    uint64_t address;
    uint32_t key;
    uint32_t length;
    uint64_t offset;
    void *destination; /* NULL: the region */
    uint64_t cookie;
};

enum okv_event_type {
    OKV_EVENT_OPENED,          /* server: an accepted connection; its first event */
    OKV_EVENT_READ,            /* a READ ended: status, cookie */
    OKV_EVENT_RENDEZVOUS_DONE, /* server: a rendezvous read ended and writes no more: status, cookie
                                */
    OKV_EVENT_RECV,   /* a message arrived: immediate, data, length; recv_release must follow */
    OKV_EVENT_CLOSED, /* the last event of a connection: status says why */
};

struct okv_event {
    enum okv_event_type type;
    int status; /* 0 or a code */
    struct okv_conn *conn;
    uint64_t cookie;
    uint32_t immediate;
    uint32_t length;
    bool has_immediate; /* false only for a misbehaving peer */
    const uint8_t *data;
    uint32_t slot; /* the transport's: the index of the receive buffer */
};

/* Writes the next hello, of the same length as before. After a rejection it is sent to the same
 * server with the same binding; false: there is none, and the rejection is final. With `rejection`
 * and `binding` NULL another attempt begins, with another binding. */
typedef bool okv_next_hello(void *user, const uint8_t *rejection, size_t length,
                            const struct okv_binding *binding, uint8_t *hello);

struct okv_connect_params {
    const uint8_t *hello; /* at most OKV_HELLO_MAX bytes */
    size_t hello_length;
    okv_next_hello *next_hello;       /* called by connect_step; NULL: every rejection is final */
    void *user;                       /* of `next_hello` */
    struct okv_message_limits limits; /* slot_size is what we receive; credits is what we ask for */
    uint64_t deadline_ns;             /* on okv_clock_ns() */
};

/* A connect in progress. */
struct okv_connecting {
    const struct okv_transport_ops *ops;
    int fd;           /* readable when connect_step has something to do; may be -1 */
    uint64_t wake_ns; /* on okv_clock_ns(): call connect_step again at this time at the latest */
};

#define OKV_HELLO_MAX 56    /* private data of an RDMA CM REQ with RDMA_PS_TCP */
#define OKV_WELCOME_MAX 196 /* of a REP */
#define OKV_REJECT_MAX 148  /* of a REJ */

/* The peer's answer to a connect. */
struct okv_answer {
    bool rejected; /* the bytes are a rejection; connect_step then returns OKV_EREFUSED */
    size_t length;
    uint8_t bytes[OKV_WELCOME_MAX];
};

struct okv_transport_ops {
    const char *name;

    /* Starts to listen and opens `regions`, 1 to OKV_REGIONS_MAX, for remote reading, and only for
     * that. Over verbs and local a connection cannot reach another region than its own, whatever
     * its peer knows. Over ofi a region is protected by its random key, so a provider that chooses
     * keys itself is refused more than one region.
     * OKV_EAGAIN: another listener has the address, or one that was killed is not gone yet.
     * OKV_EADDRESS, OKV_ENODEVICE, OKV_EPERM, OKV_EUNSUPPORTED, OKV_EIO, OKV_ENOMEM. */
    int (*listen)(const struct okv_uri *uri, const struct okv_region *regions, unsigned count,
                  struct okv_listener **out, struct okv_diag *diag);
    /* Ends listening. Every endpoint and connection of the listener must be destroyed before. */
    void (*unlisten)(struct okv_listener *listener);

    /* Makes an endpoint for up to `max_conns` connections with `limits` each, or for as many as the
     * device has room for: (*out)->max_conns, which is more than 4. */
    int (*endpoint_create)(struct okv_listener *listener, const struct okv_message_limits *limits,
                           unsigned max_conns, struct okv_endpoint **out, struct okv_diag *diag);
    void (*endpoint_destroy)(struct okv_endpoint *endpoint);

    /* Handles what made the listener's fd readable; never blocks. It also notices the ends of
     * peers, so it must be called while there are connections. A client that got no answer may ask
     * again, so one hello may arrive twice. Returns 1 with a request in `*out`, 0 when nothing is
     * left, or a negative code when the listener itself failed. */
    int (*next_request)(struct okv_listener *listener, struct okv_request **out);
    /* Accepts, answers with the welcome and frees the request; OKV_EVENT_OPENED follows at the
     * endpoint. After a failure the request is still there and must be rejected.
     * OKV_EAGAIN: max_conns reached; OKV_EDISCONNECTED: the client is gone, or gave up waiting;
     * OKV_EADDRESS: the path carries larger packets than our port, as accept->failure says;
     * OKV_EUNSUPPORTED, OKV_EIO, OKV_ENOMEM. */
    int (*accept)(struct okv_request *request, const struct okv_accept *accept);
    void (*reject)(struct okv_request *request, const uint8_t *reason, size_t length);

    /* Begins to connect. Resolving a host name or discovering a server may block, for a second or
     * so; nothing else does. `uri` and the memory
     * that `params` points to are copied. */
    int (*connect_start)(const struct okv_uri *uri, const struct okv_connect_params *params,
                         struct okv_connecting **out, struct okv_diag *diag);
    /* Advances as far as it can without blocking. OKV_EAGAIN: call it again when `fd` is readable
     * or at wake_ns. Any other result ends `connecting`. OKV_EREFUSED by the server itself sets
     * `answer->rejected`. After 0 the caller reads the welcome, then calls set_remote.
     * OKV_EADDRESS, OKV_ENODEVICE, OKV_EREFUSED, OKV_ETIMEDOUT, OKV_EUNSUPPORTED, OKV_EPROTO,
     * OKV_EPERM, OKV_EIO, OKV_ENOMEM. */
    int (*connect_step)(struct okv_connecting *connecting, struct okv_answer *answer,
                        struct okv_conn **out, struct okv_diag *diag);
    /* Ends a connect that has no result yet; accepts NULL. */
    void (*connect_cancel)(struct okv_connecting *connecting);
    /* Client: the region as the welcome describes it. OKV_EPROTO when that contradicts what the
     * transport itself sees (local: the size of the memfd). */
    int (*set_remote)(struct okv_conn *conn, uint64_t address, uint64_t length, uint32_t rkey);

    /* Starts to end a connection. Nothing more is sent. READs and rendezvous reads under way are
     * reported with OKV_EDISCONNECTED, then OKV_EVENT_CLOSED comes with the same status. */
    void (*close)(struct okv_conn *conn);
    /* Frees a connection after its OKV_EVENT_CLOSED, or a client's at any time. A client's endpoint
     * goes with it, so unregister its memory before. */
    void (*conn_destroy)(struct okv_conn *conn);

    /* Registers caller memory as a destination of READs on this endpoint. */
    int (*memory_register)(struct okv_endpoint *endpoint, void *base, size_t length,
                           struct okv_memory **out);
    void (*memory_unregister)(struct okv_memory *memory);

    /* Posts `count` READs with one doorbell; all or none. OKV_EINVAL unless each
     * okv_read_is_valid(); OKV_EAGAIN when more than max_reads would be outstanding. A destination
     * belongs to the transport until its event. */
    int (*post_read)(struct okv_conn *conn, const struct okv_read *reads, unsigned count);

    /* Client, NULL unless the region is mapped here. Performs one READ of a multiple of
     * OKV_READ_BEGINNING bytes before it returns, without an event. It may skip bytes beyond
     * `used_bytes`. False: post the READ and poll instead, because a poll has something to do
     * first, such as to report the end of the connection, or because post_read refuses the READ.
     * The destination may have been written even so. */
    bool (*read_now)(struct okv_conn *conn, const struct okv_read *read,
                     okv_used_bytes *used_bytes);

    /* Client, NULL where post_read and poll do little besides the device's own calls. Performs
     * READs by those calls alone, outside of the connection, and times them: the lower bound of
     * post_read.
     * Blocks until they are done. OKV_EINVAL for one that does not stay inside the remote region,
     * OKV_EDISCONNECTED, OKV_ENOMEM, OKV_ETIMEDOUT, OKV_EIO; the connection stays as it is. */
    int (*bare_read)(struct okv_conn *conn, struct okv_bare_reads *reads);

    /* Client: lets the server READ base[0..length) until withdraw, or a copy. The memory is
     * borrowed and must not change. Messages posted from now on may name the buffer. A buffer is
     * good for one rendezvous read, and each credit allows one buffer at a time; a transport that
     * has a slot for each refuses more with OKV_EAGAIN. OKV_EINVAL, OKV_EPERM, OKV_ENOMEM,
     * OKV_EDISCONNECTED; OKV_EIO also for memory that the device cannot read, such as a mapping
     * without PROT_WRITE. */
    int (*advertise)(struct okv_conn *conn, const void *base, size_t length,
                     struct okv_advert **out);
    /* Ends an advertised buffer; accepts NULL. Call it before conn_destroy; the connection may have
     * ended. `is_read`: the server has answered the message that named the buffer, which alone
     * proves that no READ of it is under way or will come; its memory may serve the next. Without
     * the proof a later rendezvous read fails or gets the advertised bytes, never others, and may
     * end the connection. */
    void (*withdraw)(struct okv_advert *advert, bool is_read);
    /* Server: starts a rendezvous read. Its target belongs to the transport until its event.
     * Address, key and length may come from the client unchecked. OKV_EINVAL for a target outside
     * the region (overflow-safe), OKV_EAGAIN when OKV_RENDEZVOUS_MAX are under way, or others have
     * to end first, OKV_EUNSUPPORTED when the device or the client allows none, OKV_ENOMEM,
     * OKV_EPERM, OKV_EIO (`destination` cannot be registered), OKV_EDISCONNECTED. Each success is
     * followed by one OKV_EVENT_RENDEZVOUS_DONE, before OKV_EVENT_CLOSED. Its status is 0,
     * OKV_EDISCONNECTED, or OKV_ERENDEZVOUS when the client's memory could not be read; the
     * connection may end after that. */
    int (*rendezvous)(struct okv_conn *conn, const struct okv_rendezvous *rendezvous);

    /* A free buffer of slot_size bytes for the next message. NULL when all are under way; polls
     * free them. The same buffer is returned until post_send uses it. */
    uint8_t *(*send_buffer)(struct okv_conn *conn);
    /* Queues the first `length` bytes of the send buffer as a message with `immediate`. It leaves
     * with the next flush, or before. OKV_EINVAL for more than slot_size bytes; OKV_EINVAL or
     * OKV_EAGAIN when send_buffer gave none; OKV_EDISCONNECTED. */
    int (*post_send)(struct okv_conn *conn, uint32_t length, uint32_t immediate);
    /* Sends the queued messages with one doorbell. A failure shows as OKV_EVENT_CLOSED; some of the
     * messages may have left. */
    void (*flush)(struct okv_conn *conn);

    /* Asks the peer's device for a sign of life; its process is not involved. The answer raises
     * `acknowledged`; without one OKV_EVENT_CLOSED comes with OKV_ETIMEDOUT or OKV_EDISCONNECTED.
     * Returns 0 also when it asks nothing: an earlier heartbeat is under way; a client has not
     * called set_remote; or an accepted peer may not be ready to answer, for 1.5 s at most.
     * OKV_EDISCONNECTED: OKV_EVENT_CLOSED follows. */
    int (*heartbeat)(struct okv_conn *conn);

    /* Returns up to `max` events, 0 when there are none. Where the process itself copies for
     * rendezvous reads, one poll copies a few hundred KiB at most. A negative code means that the
     * endpoint itself is broken. Never blocks. Over some fabrics the peer's READs of our memory
     * progress only here; with a `max` of 0 nothing else happens. */
    int (*poll)(struct okv_endpoint *endpoint, struct okv_event *events, int max);
    /* Returns the receive buffer of an OKV_EVENT_RECV, before its connection is destroyed; its data
     * is no longer valid. */
    void (*recv_release)(struct okv_endpoint *endpoint, const struct okv_event *event);
    /* After arm, the next event makes `fd` readable. An event from before the arm does not, so poll
     * once more before sleeping. OKV_EIO: the endpoint is broken. */
    int (*arm)(struct okv_endpoint *endpoint);
    /* Makes `fd` of an armed endpoint readable; any thread. A wake before the arm is lost. */
    void (*wake)(struct okv_endpoint *endpoint);
};

/* The transport of a scheme; NULL for an unknown scheme. */
const struct okv_transport_ops *okv_transport_for(enum okv_scheme scheme);
/* The schemes that this process has a transport for, "rdma, ofi, tcp, tcps, local"; static. */
const char *okv_transport_names(void);

extern const struct okv_transport_ops okv_transport_local;
extern const struct okv_transport_ops okv_transport_tcp;
extern const struct okv_transport_ops okv_transport_verbs;

#endif
