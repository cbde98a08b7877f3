/*
 * Types of the transport over TCP. Only the files of this folder and tests include this header.
 *
 *   frame       frames: headers, and which there are
 *   output      frames that are to leave, and the writes that take several at once
 *   conn        one connection: made, watched, ended
 *   input       bytes to frames, frames to events
 *   messages    send buffers, READs of a client, signs of life
 *   bare        exchanges of as many bytes without a READ, their lower bound
 *   rendezvous  the client's advertised buffers, the server's rendezvous reads
 *   endpoint    endpoints: made, and freed with their connections
 *   poll        poll and arm
 *   handshake   the listener's handshakes of TLS
 *   listen      the listener: the socket, requests, accept and reject
 *   connect     the client's connect, step by step
 *   ops         the table of operations
 *
 * Each uses those before it.
 *
 * A connection is one socket. The server's thread answers a READ from the region by a gathered
 * write: nothing is copied in between. What a poll receives becomes events in a queue of the
 * endpoint, which has room for all that can be under way; so a poll for few events takes no less
 * from the sockets, and no byte waits in a buffer of ours.
 *
 * A server's poll moves few bytes. So connections that are ready, by epoll or because TLS has bytes
 * in a buffer of which epoll knows nothing, wait in a queue for each region: the regions take
 * turns, and within one each connection is served before any is served again.
 *
 * Sends are acknowledged when the peer's kernel has all bytes of the socket (TCP_INFO in tcp(7)).
 */
#ifndef OKV_SHARED_TRANSPORT_TCP_TCP_H
#define OKV_SHARED_TRANSPORT_TCP_TCP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "shared/stream/handshakes.h"
#include "shared/transport/common/arrivals.h"
#include "shared/transport/common/pending.h"
#include "shared/transport/common/read_slots.h"
#include "shared/transport/common/rendezvous_reads.h"
#include "shared/transport/common/send_slots.h"
#include "shared/transport/common/wakeup.h"
#include "shared/transport/tcp/frame.h"
#include "shared/transport/transport.h"

/* Bytes that one poll sends to, or takes from, one connection, so that none takes long. */
#define OKV_TCP_STEP (256u << 10)

/* Bytes of an advertised buffer that one FETCH asks for: other frames go between two. */
#define OKV_TCP_PIECE_MAX (1u << 20)

/* The key of an advertised buffer is an index into the client's table and, above it, how often that
 * index was used. */
#define OKV_TCP_INDEX_BITS 16

struct okv_tcp_request {
    struct okv_pending_client client;
    struct okv_stream stream; /* of the client's socket */
    struct okv_handshake handshake;
    STAILQ_ENTRY(okv_tcp_request) in_returned;
    enum okv_handshake_end how; /* its handshake has ended */
    uint8_t bytes[OKV_TCP_HEADER + OKV_HELLO_MAX];
    size_t got;
    unsigned hellos; /* that it has sent */
};

STAILQ_HEAD(okv_tcp_request_queue, okv_tcp_request);

struct okv_tcp_listener {
    struct okv_listener base;
    struct okv_pending pending;
    struct okv_region regions[OKV_REGIONS_MAX];
    bool has_tls;
    struct okv_tcp_handshakes { /* with TLS */
        struct okv_handshakes thread;
        pthread_mutex_t lock;
        struct okv_tcp_request_queue returned; /* with `lock`: those that have ended */
        int fd;                                /* an eventfd: how many these are */
    } handshakes;
};

/* A frame that is to leave. */
struct okv_tcp_out {
    uint8_t header[OKV_TCP_HEADER];
    const uint8_t *body; /* of `body_length` bytes, in a send slot, the region or a buffer */
    uint32_t body_length;
    uint32_t index; /* of a message: its send slot; of a piece: that of its buffer */
};

struct okv_tcp_output {
    struct okv_tcp_out *ring; /* [size] */
    unsigned size, first, count;
    uint64_t done;         /* bytes of the first that have left */
    uint64_t acknowledged; /* bytes of the socket, as far as was looked */
    uint32_t unsettled;    /* sends among the frames that have left and were not acknowledged */
    bool is_blocked;       /* the socket has no room, or the step is over */
};

/* What is being received. */
struct okv_tcp_input {
    uint8_t header[OKV_TCP_HEADER];
    unsigned header_used;
    struct okv_tcp_frame frame;
    uint8_t *body; /* where the next byte of the body goes */
    uint32_t left; /* bytes of it that are missing */
    uint32_t slot; /* receive slot of a message */
};

/* Client: where the bytes of a READ go. */
struct okv_tcp_target {
    uint8_t *bytes;
    uint32_t length;
};

/* Client: an advertised buffer. */
struct okv_tcp_key {
    const uint8_t *bytes;
    uint32_t length; /* 0: the entry is free */
    uint16_t uses;   /* part of the key: a late rendezvous read does not find the next buffer */
    unsigned queued; /* pieces of it in the output */
};

enum okv_tcp_state {
    OKV_TCP_OPEN,
    OKV_TCP_ENDED, /* queued for its OKV_EVENT_CLOSED */
    OKV_TCP_CLOSED /* reported */
};

struct okv_tcp_conn {
    struct okv_conn base;
    LIST_ENTRY(okv_tcp_conn) in_conns;
    TAILQ_ENTRY(okv_tcp_conn) in_ended;
    TAILQ_ENTRY(okv_tcp_conn) in_unsettled;
    TAILQ_ENTRY(okv_tcp_conn) in_ready;
    enum okv_tcp_state state;
    int status; /* why it ended */
    struct okv_stream stream;
    uint32_t interest;   /* what the endpoint's set watches for; 0: it is not in it */
    bool discards;       /* its messages are not reported: it was closed here */
    bool is_unsettled;   /* it is in the endpoint's list */
    bool is_ready;       /* likewise */
    bool is_readable;    /* ready to be read, not only to be written to */
    bool is_destroyed;   /* freed with the last of its receive slots */
    uint64_t settled_ns; /* when its acknowledgements were looked at last */
    int broken;          /* errno of a write that failed, 0; what has arrived is still taken */
    unsigned queued;     /* its events in the endpoint's queue */
    unsigned queued_reads, queued_rendezvous; /* those of them that are about these */
    unsigned held;                            /* receive slots that it has */
    bool life_is_under_way, life_has_left;

    struct okv_tcp_input input;
    struct okv_tcp_output output;
    struct okv_send_slots sends;
    struct okv_tcp_message {
        uint32_t length, immediate;
    } * messages;         /* [sends.count] */
    uint8_t *send_memory; /* [sends.count] of slot_size bytes */

    /* Server only. */
    struct okv_region region; /* in a client of length 0 */
    unsigned region_index;    /* of the listener's */
    unsigned answers;         /* READs that are not answered to the end */
    struct okv_rendezvous_reads rendezvous;
    uint32_t wanted[OKV_RENDEZVOUS_MAX]; /* bytes that each has asked for; 0: none */

    /* Client only. */
    struct okv_read_slots reads;
    struct okv_tcp_target targets[OKV_READ_SLOTS]; /* by slot */
    struct okv_tcp_key *keys;                      /* [credits]; NULL until the first advert */
    struct okv_tls *tls;                           /* of its stream; or NULL */
};

TAILQ_HEAD(okv_tcp_conn_queue, okv_tcp_conn);

struct okv_tcp_endpoint {
    struct okv_endpoint base; /* fd: the wake-up's set, with the connections' sockets */
    struct okv_wakeup wakeup;
    bool is_armed;
    struct okv_message_limits limits;
    struct okv_tcp_conn *client; /* the one connection of a client's endpoint */
    LIST_HEAD(, okv_tcp_conn) conns;
    struct okv_tcp_conn_queue ended;     /* their OKV_EVENT_CLOSED is to be reported */
    struct okv_tcp_conn_queue unsettled; /* with sends that are not acknowledged; that which was
                                            looked at longest ago is the first */
    struct okv_tcp_conn_queue ready[OKV_REGIONS_MAX]; /* to be served, of each region */
    unsigned ready_count;                             /* of all of them */
    unsigned turn;                                    /* which region is served next */
    uint64_t moved;                                   /* bytes, by all connections, ever */

    struct okv_event *queue; /* a ring of `queue_size` events to report */
    unsigned queue_size, queue_first, queue_count;

    /* Receive slots. The free ones are a stack, so that few are used and stay in the cache. */
    uint8_t *slots;
    size_t slots_length;
    unsigned free_count;
    uint32_t *free_slots;
    struct okv_tcp_conn **slot_owner;
    uint8_t *scratch;     /* OKV_TCP_STEP bytes: what is received */
    const uint8_t *zeros; /* OKV_TCP_BARE_MAX bytes, for bare frames; NULL: none came */

    struct okv_arrivals arrivals;
    atomic_uint conn_count; /* of the listener's thread, too */
};

#define OKV_TCP_BARE_MAX (256u << 10)

struct okv_tcp_memory {
    uint8_t *base;
    size_t length;
};

static inline struct okv_tcp_endpoint *okv_tcp_endpoint(struct okv_endpoint *endpoint)
{
    return (struct okv_tcp_endpoint *)endpoint;
}

static inline struct okv_tcp_endpoint *okv_tcp_endpoint_of(const struct okv_tcp_conn *conn)
{
    return (struct okv_tcp_endpoint *)conn->base.endpoint;
}

static inline struct okv_tcp_conn *okv_tcp_conn(struct okv_conn *conn)
{
    return (struct okv_tcp_conn *)conn;
}

/* Receive slots that one connection may have: one more than its credits, so a peer that sends too
 * much is noticed, and no other starves. */
static inline unsigned okv_tcp_receive_limit(const struct okv_message_limits *limits)
{
    return limits->credits + 1;
}

#endif
