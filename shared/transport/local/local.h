/*
 * Types of the transport between processes of one host, over shared memory. Only the files of this
 * folder and tests include this header.
 *
 *   ring              the rings in shared memory
 *   packet            packets of a socket, received without descriptors
 *   peer_credentials  who is at the other end of a socket, and whether to trust it
 *   safe_close        closing and unmapping what a hostile peer could make slow
 *   conn              one connection: made, watched, active or idle, ended
 *   notification      what comes on its socket: notifications, the peer's end
 *   messages          send buffers to ring, ring to receive buffers
 *   read              the client's READs
 *   rendezvous        the client's advertised buffers, the server's rendezvous reads
 *   endpoint          endpoints: made, and freed with their connections
 *   poll              poll and arm
 *   listen            the listener: the region's seals, the socket, requests, accept and reject
 *   connect           the client's connect, step by step
 *   ops               the table of operations
 *
 * Each uses those before it.
 *
 * A connection is a Unix SOCK_SEQPACKET socket and two rings (ring.h). Messages go through the
 * rings. The socket carries the handshake and notifications that wake a sleeping peer, and it tells
 * when the peer ends: epoll can wait for a descriptor together with others, but not for a word in
 * memory (a futex). docs/protocol-transports.md section 3 has the bytes. The first packet of each
 * side is the handshake:
 *
 *   client  magic u32 | hello, up to OKV_HELLO_MAX bytes
 *   server  magic u32 | kind u32 | welcome or reason; a welcome carries three memfds: the
 *           region's, that of the rings and that of the values
 *
 * Notifications follow. Any other packet ends the connection.
 *
 *   notification  mark u32: poll the ring
 *
 * No packet but the welcome has descriptors. To receive one from a hostile peer, to drop it or to
 * close a socket that holds one may block, because that closes it. So each packet is looked at
 * before it is received (packet.h), and sockets are closed by safe_close.h.
 *
 * A client copies advertised memory into the values, and the server reads it from there.
 *
 * The region's memfd is sealed against shrinking and against writable mappings. Clients get a
 * read-only descriptor of it, and map it. A READ copies from that mapping when it is posted, and
 * the next poll reports it; read_now does both at once.
 *
 * A connection is active or idle. Polls check the rings of active connections without a system
 * call, and the sockets only now and then. A connection without messages for many polls becomes
 * idle, and so does every quiet one when its endpoint is armed: it asks its peer for a
 * notification. So the cost of a server's poll depends on the active clients, not on all of them.
 */
#ifndef OKV_SHARED_TRANSPORT_LOCAL_LOCAL_H
#define OKV_SHARED_TRANSPORT_LOCAL_LOCAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "shared/transport/common/arrivals.h"
#include "shared/transport/common/pending.h"
#include "shared/transport/common/rendezvous_reads.h"
#include "shared/transport/common/send_slots.h"
#include "shared/transport/common/wakeup.h"
#include "shared/transport/local/ring.h"
#include "shared/transport/local/socket_path.h"
#include "shared/transport/transport.h"

#define OKV_LOCAL_MAGIC 0x4c766b6fu /* "okvL" */
#define OKV_LOCAL_HELLO_HEADER 4
#define OKV_LOCAL_ANSWER_HEADER 8
#define OKV_LOCAL_NOTIFICATION_MARK 0x42766b6fu /* "okvB" */
#define OKV_LOCAL_NOTIFICATION_SIZE 4

enum okv_local_answer { OKV_LOCAL_WELCOME = 1, OKV_LOCAL_REJECT = 2 };

/* The descriptors of a welcome. */
enum { OKV_LOCAL_REGION, OKV_LOCAL_RINGS, OKV_LOCAL_VALUES, OKV_LOCAL_DESCRIPTORS };

#define OKV_LOCAL_MAX_READS 64

/* The key of an advertised buffer is an index into the client's table and, above it, how often that
 * index was used. */
#define OKV_LOCAL_INDEX_BITS 16

/*
 * The mapping outlives the server, so a copy from it does not prove that the server at this address
 * still serves these bytes. A READ therefore succeeds only if the server was seen alive at most
 * ALIVE_STEPS of okv_clock_steps(), 40 to 200 us, before the READ ended. A server that replaces a
 * dead one waits TAKEOVER_NS before it serves. The counters of two CPUs may differ by up to the
 * difference of the two times; kernels use no counter that differs by more.
 */
#define OKV_LOCAL_ALIVE_STEPS 200000u
#define OKV_LOCAL_TAKEOVER_NS 20000000u

struct okv_local_request {
    struct okv_pending_client client;
    uint8_t hello[OKV_HELLO_MAX];
};

struct okv_local_listener {
    struct okv_listener base;
    struct okv_pending pending;
    struct okv_region regions[OKV_REGIONS_MAX];
    int shared[OKV_REGIONS_MAX]; /* descriptors of the regions for clients, for reading only */
    unsigned region_count;
    struct okv_uri uri;
    struct okv_socket_path path; /* borrows from `uri` */
};

enum okv_local_state {
    OKV_LOCAL_OPEN,
    OKV_LOCAL_ENDED, /* queued for its OKV_EVENT_CLOSED */
    OKV_LOCAL_CLOSED /* reported */
};

struct okv_local_outgoing {
    uint32_t length;
    uint32_t immediate;
};

struct okv_local_done {
    uint64_t cookie;
    int status;
};

/* Bytes that one poll copies for rendezvous reads, in all. */
#define OKV_LOCAL_RENDEZVOUS_PIECE (256u << 10)

/* Client: what it keeps of an advert slot (ring.h). */
struct okv_local_key {
    uint16_t uses; /* part of the key: a late rendezvous read does not find the next buffer */
    uint32_t page, pages; /* its room in the values; no pages: the slot is free */
};

struct okv_local_conn {
    struct okv_conn base;
    struct okv_local_conn *previous, *next; /* of the endpoint; its thread's */
    TAILQ_ENTRY(okv_local_conn) in_ended;
    enum okv_local_state state;
    int status;        /* why it ended */
    int sock;          /* -1 once ended */
    uint32_t interest; /* what the endpoint's epoll watches for; 0 when sock is not in it */
    struct okv_local_ring ring;
    int values;     /* memfd */
    int rings;      /* memfd, in a server until it has seen the client's seal; else -1 */
    bool is_active; /* polls check its ring; it is in the endpoint's list `active` */
    TAILQ_ENTRY(okv_local_conn) in_active;
    unsigned idle_polls; /* consecutive polls without a message */
    bool hung_up;        /* the peer has ended; its last messages may still be in the ring */

    /* Send buffers. The caller fills them here, because the peer could change bytes in the ring.
     * Those that are queued wait for a flush, or for room in the ring. */
    uint8_t *send_memory;
    struct okv_local_outgoing *outgoing;
    struct okv_send_slots sends;
    bool ring_full;   /* the ring had no room for the next message */
    bool must_notify; /* the peer waits for a notification */

    unsigned held; /* receive buffers that the caller has not released */

    /* Server only. */
    struct okv_region region; /* in a client of length 0 */
    int process; /* pidfd of the client, readable when it has ended; -1: not known, or ended */
    struct okv_rendezvous_reads rendezvous; /* performed one after another */
    /* Where the buffer of each is described, as long as that has its key. The addresses of
     * rendezvous reads are those in the values. */
    struct okv_local_advert_slot *advert_slots[OKV_RENDEZVOUS_MAX];
    TAILQ_ENTRY(okv_local_conn) in_rendezvous;

    /* Client only. */
    const uint8_t *map;
    uint64_t map_length;
    struct okv_local_done reads[OKV_LOCAL_MAX_READS]; /* a ring: READs to report */
    unsigned read_first, read_count;
    struct okv_local_key *keys; /* NULL until the first advert */
    uint64_t alive_steps;       /* when the server was last seen alive */
};

TAILQ_HEAD(okv_local_conn_list, okv_local_conn);

struct okv_local_endpoint {
    struct okv_endpoint base; /* fd: the wake-up's set, with the connections' sockets */
    struct okv_wakeup wakeup;
    bool armed;
    struct okv_message_limits limits;
    struct okv_local_conn *client; /* the one connection of a client's endpoint */
    struct okv_local_conn *conns;
    struct okv_local_conn_list active; /* the next to be served first */
    unsigned active_count;
    unsigned polls;
    struct okv_local_conn_list ended;      /* their OKV_EVENT_CLOSED is to be reported */
    struct okv_local_conn_list rendezvous; /* with rendezvous reads; the next to copy first */

    /* Receive buffers. The free ones are a stack, so that few are used and stay in the cache. */
    uint8_t *slots;
    size_t slot_stride, slots_length;
    unsigned slot_count, free_count;
    uint32_t *free_slots;
    struct okv_local_conn **slot_owner; /* NULL: free, or its connection is gone */

    struct okv_arrivals arrivals;
    atomic_uint conn_count; /* of the listener's thread, too */
};

struct okv_local_memory {
    uint8_t *base;
    size_t length;
};

static inline struct okv_local_listener *okv_local_listener(struct okv_listener *listener)
{
    return (struct okv_local_listener *)listener;
}

static inline struct okv_local_endpoint *okv_local_endpoint(struct okv_endpoint *endpoint)
{
    return (struct okv_local_endpoint *)endpoint;
}

static inline struct okv_local_conn *okv_local_conn(struct okv_conn *conn)
{
    return (struct okv_local_conn *)conn;
}

/* Receive buffers that one connection may use: one more than its credits, so a peer that sends too
 * much is noticed, and no other starves. */
static inline unsigned okv_local_receive_limit(const struct okv_message_limits *limits)
{
    return limits->credits + 1;
}

/* True when the server was seen alive just before `now`, on okv_clock_steps(). */
static inline bool okv_local_is_alive(const struct okv_local_conn *conn, uint64_t now)
{
    return now - conn->alive_steps < OKV_LOCAL_ALIVE_STEPS;
}

#endif
