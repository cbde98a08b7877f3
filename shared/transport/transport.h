/*
 * The seam between okv and whatever moves its bytes.
 *
 * A listener (server) or a connect (client) leads to connections; completions
 * of a connection arrive at its endpoint. Addresses of the table are offsets
 * into the one region that the server's listener advertises for reading.
 *
 *   server:  listen -> endpoint_create -> next_request -> accept / reject
 *   client:  connect_start and connect_step (makes its own endpoint)
 *   client:  read_now
 *   both:    post_read, send_buffer + post_send, flush, poll, recv_release, arm, heartbeat
 *   values:  advertise (client) -> the server learns address and key by a message -> rendezvous
 * read (server) end:     close -> OKV_EVENT_CLOSED from poll -> conn_destroy
 *
 * Threads. A transport starts none. One thread drives a listener
 * (next_request, accept, reject), one thread drives an endpoint and every
 * connection on it (all other calls); the two may differ. wake may be called
 * from any thread.
 *
 * Credits. Each side tells the other how many messages it may have outstanding
 * (`credits`); the endpoint holds a receive buffer for each of them, so that a
 * message never finds the receiver without one. A request holds its credit
 * until its reply was received.
 *
 * A reply may overtake the acknowledgement of the message before it, so send
 * buffers can run out although credits are respected: send_buffer returns NULL
 * and the caller tries again after a poll.
 *
 * Errors are the negative codes of error.h. A failed connection reports itself
 * once, by OKV_EVENT_CLOSED; until then calls on it return OKV_EDISCONNECTED.
 */
#ifndef OKV_SHARED_TRANSPORT_TRANSPORT_H
#define OKV_SHARED_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/bytes.h"
#include "shared/base/diag.h"
#include "shared/base/uri.h"

struct okv_transport_ops;

/* The memory a listener advertises: mapped at `base`, backed by the memfd `fd`.
 * Borrowed; must outlive the listener and stay mapped. */
struct okv_region {
    void *base;
    uint64_t length;
    int fd;
};

/* What both sides fix about messages. */
struct okv_message_limits {
    uint32_t slot_size; /* bytes of the largest message, either way */
    uint32_t credits;   /* messages that one connection may have outstanding */
};

struct okv_listener {
    const struct okv_transport_ops *ops;
    int fd;          /* readable when next_request has something to do */
    uint32_t rkey;   /* what a client needs to read the region; 0 for local */
    char where[192]; /* the URI that clients use; "rdma://10.9.9.1:7471" */
    char how[192];   /* for people: device, port, GID, MTU; or the socket */
};

/* One client that asks to be connected. Ended by accept or by reject. */
struct okv_request {
    struct okv_listener *listener;
    const uint8_t *hello; /* the peer's first bytes, untrusted; valid until accept or reject */
    size_t hello_length;
    char peer[64];    /* address of the client, for people */
    char address[64]; /* the part of it that all connections of one host have in common */
};

struct okv_endpoint {
    const struct okv_transport_ops *ops;
    int fd; /* readable when an armed endpoint has something to poll */
};

struct okv_conn {
    const struct okv_transport_ops *ops;
    struct okv_endpoint *endpoint;
    void *user;             /* the owner's; the transport never looks at it */
    uint32_t slot_size;     /* bytes of each send buffer */
    unsigned max_reads;     /* client: READs that may be outstanding at once, at least 1 */
    uint64_t remote_length; /* client: bytes that post_read may address; 0 until set_remote */
    /* Sends, READs, pieces of rendezvous reads and heartbeats that the peer's device has still to
     * acknowledge, and how many it has acknowledged ever. The transport's; the endpoint's thread.
     */
    uint32_t unacknowledged;
    uint64_t acknowledged;
    char peer[64];
    char how[192];    /* for people: device, GID, MTU; or the socket */
    char failure[64]; /* for people: what the device said when it failed, or "" */
};

/* Memory that READs may land in. */
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

/* True when a READ stays inside the remote region and inside the memory [base, base + length). */
static inline bool okv_read_is_valid(const struct okv_read *read, uint64_t remote_length,
                                     const void *base, size_t length)
{
    /* A destination before the memory wraps around to one far behind it. */
    uint64_t offset = (uint64_t)((uintptr_t)read->destination - (uintptr_t)base);

    return read->length > 0 && okv_range_inside(read->offset, read->length, remote_length) &&
           okv_range_inside(offset, read->length, length);
}

/* How many bytes of a READ matter, as the first OKV_READ_BEGINNING of them say, which may be
 * anything; more than the READ's length is all of them. */
#define OKV_READ_BEGINNING 64u
typedef uint32_t okv_used_bytes(const uint8_t *beginning);

/* Memory of a client that its server may READ: what the server is told of it. */
struct okv_advert {
    uint64_t address;
    uint32_t key;
};

/* Rendezvous reads that one connection may have under way. */
#define OKV_RENDEZVOUS_MAX 4

/* One rendezvous read: `length` bytes of the client's memory, as it described it to us, to
 * `offset` of our own region. `cookie` comes back in its event. */
struct okv_rendezvous {
    uint64_t address;
    uint32_t key;
    uint32_t length;
    uint64_t offset;
    uint64_t cookie;
};

enum okv_event_type {
    OKV_EVENT_OPENED,          /* server: an accepted connection; its first event */
    OKV_EVENT_READ,            /* a READ ended: status, cookie */
    OKV_EVENT_RENDEZVOUS_DONE, /* server: a rendezvous read ended: status, cookie; nothing of it
                                  writes any more */
    OKV_EVENT_RECV,   /* a message came: immediate, data, length; give it back with recv_release */
    OKV_EVENT_CLOSED, /* the last event of a connection: status says why */
};

struct okv_event {
    enum okv_event_type type;
    int status; /* 0 or the code of the failure */
    struct okv_conn *conn;
    uint64_t cookie;
    uint32_t immediate;
    uint32_t length;
    bool has_immediate; /* a well-behaved peer sets it on every message */
    const uint8_t *data;
    uint32_t slot; /* the transport's: which receive buffer this is */
};

struct okv_connect_params {
    const uint8_t *hello; /* at most OKV_HELLO_MAX bytes */
    size_t hello_length;
    struct okv_message_limits limits; /* slot_size is what we receive; credits is what we ask for */
    uint64_t deadline_ns;             /* on okv_clock_ns() */
};

/* A connect on its way. */
struct okv_connecting {
    const struct okv_transport_ops *ops;
    int fd;           /* readable when connect_step has something to do; may be -1 */
    uint64_t wake_ns; /* on okv_clock_ns(): call connect_step then at the latest */
};

#define OKV_HELLO_MAX 56    /* private data of an RDMA CM REQ with RDMA_PS_TCP */
#define OKV_WELCOME_MAX 196 /* of a REP */
#define OKV_REJECT_MAX 148  /* of a REJ */

/* The peer's answer to a connect. */
struct okv_welcome {
    bool rejected; /* the bytes are a rejection; connect_step then returns OKV_EREFUSED */
    size_t length;
    uint8_t bytes[OKV_WELCOME_MAX];
};

struct okv_transport_ops {
    const char *name;

    /* Starts to listen and advertises `region` for remote reading, and only that. OKV_EAGAIN:
     * another listener has the address, or one that was killed is not gone yet. OKV_EADDRESS,
     * OKV_ENODEVICE, OKV_EPERM, OKV_EUNSUPPORTED, OKV_EIO, OKV_ENOMEM. */
    int (*listen)(const struct okv_uri *uri, const struct okv_region *region,
                  struct okv_listener **out, struct okv_diag *diag);
    /* Ends listening. Every endpoint and connection of it must be gone. */
    void (*unlisten)(struct okv_listener *listener);

    /* A place for completions of up to `max_conns` connections with `limits` each. */
    int (*endpoint_create)(struct okv_listener *listener, const struct okv_message_limits *limits,
                           unsigned max_conns, struct okv_endpoint **out, struct okv_diag *diag);
    void (*endpoint_destroy)(struct okv_endpoint *endpoint);

    /* Works off what the listener's fd announced, never blocks. Connections learn
     * of their peer's end here: go on calling it while there are any. A client
     * that got no answer may ask again, so one hello may come twice. Returns 1 with
     * a request in `*out`, 0 when nothing is left, or a negative code when the
     * listener itself failed. */
    int (*next_request)(struct okv_listener *listener, struct okv_request **out);
    /* Accepts on `endpoint` with `welcome` as answer, which uses up the request. On
     * failure it is still there, to be rejected. OKV_EVENT_OPENED follows at the endpoint on
     * success. OKV_EAGAIN: max_conns reached; OKV_EDISCONNECTED: the client is gone, or gave up
     * waiting; OKV_EUNSUPPORTED, OKV_EIO, OKV_ENOMEM. */
    int (*accept)(struct okv_request *request, struct okv_endpoint *endpoint, void *user,
                  const uint8_t *welcome, size_t length);
    void (*reject)(struct okv_request *request, const uint8_t *reason, size_t length);

    /* Begins to connect. Looks up the host's name, which blocks unless it is a numeric address;
     * nothing else does. `uri` and what `params` points to are copied. */
    int (*connect_start)(const struct okv_uri *uri, const struct okv_connect_params *params,
                         struct okv_connecting **out, struct okv_diag *diag);
    /* Goes on as far as it can without blocking. OKV_EAGAIN: call it again when `fd` is readable
     * or at wake_ns. Anything else is the result and the end of `connecting`. On OKV_EREFUSED by
     * the server itself `welcome->rejected` is set. After 0 the caller reads the welcome, then
     * calls set_remote. OKV_EADDRESS, OKV_ENODEVICE, OKV_EREFUSED, OKV_ETIMEDOUT,
     * OKV_EUNSUPPORTED, OKV_EPROTO, OKV_EPERM, OKV_EIO, OKV_ENOMEM. */
    int (*connect_step)(struct okv_connecting *connecting, struct okv_welcome *welcome,
                        struct okv_conn **out, struct okv_diag *diag);
    /* Ends one that has no result yet; accepts NULL. */
    void (*connect_cancel)(struct okv_connecting *connecting);
    /* Client: the region as the welcome described it. OKV_EPROTO when it is not
     * what the transport itself can see (local: the size of the memfd). */
    int (*set_remote)(struct okv_conn *conn, uint64_t address, uint64_t length, uint32_t rkey);

    /* Starts to end a connection: nothing more is sent, what is under way is
     * flushed with READ and PULLED events of OKV_EDISCONNECTED, then
     * OKV_EVENT_CLOSED with the same status. */
    void (*close)(struct okv_conn *conn);
    /* Frees a connection after its OKV_EVENT_CLOSED, or a client's at any time;
     * a client's endpoint goes with it, so unregister its memory before. */
    void (*conn_destroy)(struct okv_conn *conn);

    /* Makes caller memory usable as the destination of READs on this endpoint. */
    int (*memory_register)(struct okv_endpoint *endpoint, void *base, size_t length,
                           struct okv_memory **out);
    void (*memory_unregister)(struct okv_memory *memory);

    /* Posts `count` READs with one doorbell; all or none. OKV_EINVAL for a READ
     * outside the region (overflow-safe), OKV_EAGAIN when more than max_reads
     * would be outstanding. The destination belongs to the transport until its event. */
    int (*post_read)(struct okv_conn *conn, const struct okv_read *reads, unsigned count);

    /* Client, where the region is in its own memory; NULL elsewhere. One READ of a multiple of
     * OKV_READ_BEGINNING bytes that has ended when this returns, without an event; what lies beyond
     * `extent` of it is left out, as it suits. OKV_EAGAIN: not now, as a poll has something to do,
     * if only to say that the connection has ended: post it, and poll; the destination may have
     * been written. OKV_EINVAL as post_read. */
    int (*read_now)(struct okv_conn *conn, const struct okv_read *read, okv_used_bytes *extent);

    /* Client: lets the server READ base[0..length) until unexpose. The memory is
     * borrowed and must stay as it is; messages sent from now on may name the
     * advertised buffer. One advertised buffer is good for one rendezvous read, and there may be
     * one at a time for each credit that the server granted. OKV_EINVAL, OKV_EAGAIN for more than
     * we asked for, OKV_EPERM, OKV_ENOMEM, OKV_EDISCONNECTED; OKV_EIO also for
     * memory that the device cannot read, such as a mapping without PROT_WRITE. */
    int (*advertise)(struct okv_conn *conn, const void *base, size_t length,
                     struct okv_advert **out);
    /* Ends an advertised buffer, or does nothing for NULL. Call it before conn_destroy; the
     * connection may have ended. A rendezvous read that comes later fails, or brings the bytes
     * that were advertised; never others. */
    void (*withdraw)(struct okv_advert *advert);
    /* Server: starts to bring `rendezvous read->length` bytes that the client advertised into our
     * region; the place belongs to the transport until the rendezvous read's event. Address,
     * key and length may be whatever the client said. OKV_EINVAL for a place outside
     * the region (overflow-safe), OKV_EAGAIN when OKV_RENDEZVOUS_MAX are under way,
     * OKV_EUNSUPPORTED when the device or the client allows none, OKV_EDISCONNECTED.
     * One OKV_EVENT_RENDEZVOUS_DONE follows each success, before OKV_EVENT_CLOSED: OKV_ERENDEZVOUS
     * when the client's memory could not be read, after which the connection may
     * end, or OKV_EDISCONNECTED. */
    int (*rendezvous)(struct okv_conn *conn, const struct okv_rendezvous *rendezvous);

    /* A free buffer of slot_size bytes for the next message, or NULL when every
     * one is under way; room comes back as poll works off completions. The same
     * buffer is returned until post_send uses it. */
    uint8_t *(*send_buffer)(struct okv_conn *conn);
    /* Queues the first `length` bytes of the send buffer as a message with `immediate`; it
     * leaves with the next flush, or before. OKV_EINVAL for more than slot_size bytes; OKV_EINVAL
     * or OKV_EAGAIN when send_buffer gave none; OKV_EDISCONNECTED. */
    int (*post_send)(struct okv_conn *conn, uint32_t length, uint32_t immediate);
    /* Sends what was queued, with one doorbell. A connection that fails at it reports so by its
     * OKV_EVENT_CLOSED; messages of it may have left. */
    void (*flush)(struct okv_conn *conn);

    /* Asks the peer's device for a sign of life; its process takes no part. It ends as one more
     * acknowledged, or as OKV_EVENT_CLOSED with OKV_ETIMEDOUT or OKV_EDISCONNECTED. 0 also when
     * nothing was asked: while an earlier one is under way; in a client before set_remote; and,
     * for 1.5 s at most, while an accepted peer may not be ready to answer. OKV_EDISCONNECTED;
     * OKV_EVENT_CLOSED follows. */
    int (*heartbeat)(struct okv_conn *conn);

    /* Up to `max` events; 0 when there is none now. A negative code means that
     * the endpoint itself is broken. Never blocks. */
    int (*poll)(struct okv_endpoint *endpoint, struct okv_event *events, int max);
    /* Gives the receive buffer of an OKV_EVENT_RECV back; its data is gone. */
    void (*recv_release)(struct okv_endpoint *endpoint, const struct okv_event *event);
    /* After arm, the next event makes `fd` readable. Call poll once more before
     * sleeping: what came before the arm announces nothing. OKV_EIO: the endpoint is broken. */
    int (*arm)(struct okv_endpoint *endpoint);
    /* Makes `fd` of an armed endpoint readable; any thread. A wake before the arm
     * is not kept. */
    void (*wake)(struct okv_endpoint *endpoint);
};

/* The transport of a scheme; NULL for a scheme that is none. */
const struct okv_transport_ops *okv_transport_for(enum okv_scheme scheme);

extern const struct okv_transport_ops okv_transport_local;
extern const struct okv_transport_ops okv_transport_verbs;

#endif
