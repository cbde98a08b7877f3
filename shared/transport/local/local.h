/*
 * The transport between processes of one host, over shared memory. Only the files of this folder
 * and tests include this header.
 *
 *   ops         the table of operations
 *   listen      the socket in the file system, the region's seals
 *   accept      requests of clients, accept and reject
 *   connect     the client's connect, step by step
 *   trust       who is at the other end of a socket, and whether a path can be trusted
 *   endpoint    endpoints and connections: made, watched, ended
 *   messages    send buffers to ring, ring to receive buffers
 *   ring        the rings in shared memory
 *   socket      packets: bells, the peer's end
 *   discard     closing and unmapping what a hostile peer could make slow
 *   advert      the client's advertised buffers
 *   rendezvous  the server's rendezvous reads
 *   read        the client's READs
 *   poll        poll and arm
 *   wake        the endpoint's descriptor becomes readable
 *
 * A connection is a Unix SOCK_SEQPACKET socket and two rings (ring.h). Messages go through the
 * rings. The socket carries the handshake and bells that wake a sleeping peer, and it tells when
 * the peer ends: epoll can wait for a descriptor together with others, but not for a word in memory
 * (a futex). docs/protocol-transports.md section 3 has the bytes. The first packet of each side is
 * the handshake:
 *
 *   client  magic u32 | hello, up to OKV_HELLO_MAX bytes
 *   server  magic u32 | kind u32 | welcome or reason; a welcome carries three memfds: the
 *           region's, that of the rings and that of the values
 *
 * Bells follow. Any other packet ends the connection.
 *
 *   bell    mark u32: poll the ring
 *
 * No packet but the welcome has descriptors. To receive one from a hostile peer, to drop it or to
 * close a socket that holds one may block, because that closes it. So each packet is looked at
 * before it is received (packet_receive), and sockets are closed by socket_close.
 *
 * A client copies advertised memory into the values, and the server reads it from there.
 *
 * The region's memfd is sealed against shrinking and against writable mappings. Clients get it by a
 * descriptor for reading only. The client maps it. A READ copies from that mapping when it is
 * posted, and the next poll reports it; read_now does both at once.
 *
 * A connection is awake or at rest. Polls check the rings of awake connections without a system
 * call, and the sockets only now and then. A connection that was idle for many polls goes to rest,
 * and so does every idle one when its endpoint is armed: it asks its peer for a bell. So the cost
 * of a server's poll depends on the active clients, not on all of them.
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
#include "shared/transport/transport.h"

#define OKV_LOCAL_MAGIC 0x4c766b6fu /* "okvL" */
#define OKV_LOCAL_HELLO_HEADER 4
#define OKV_LOCAL_ANSWER_HEADER 8
#define OKV_LOCAL_BELL_MARK 0x42766b6fu /* "okvB" */
#define OKV_LOCAL_BELL_SIZE 4

enum okv_local_answer { OKV_LOCAL_WELCOME = 1, OKV_LOCAL_REJECT = 2 };

/* The descriptors of a welcome. */
enum { OKV_LOCAL_REGION, OKV_LOCAL_RINGS, OKV_LOCAL_VALUES, OKV_LOCAL_DESCRIPTORS };

#define OKV_LOCAL_MAX_READS 64

/* The key of an advertised buffer is an index into the client's table and, above it, how often that
 * index was used. */
#define OKV_LOCAL_INDEX_BITS 16

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

/*
 * The mapping outlives the server, so a copy from it does not prove that the server at this address
 * still serves these bytes. A READ therefore succeeds only if the server was seen alive within
 * ALIVE_STEPS of okv_clock_steps() before its end, 40 to 200 us. A server that takes over from a
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
    int lock;     /* flock on PATH.lock, held while listening */
    dev_t device; /* of our socket in the file system */
    ino_t inode;
    struct okv_uri uri;
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

/* Client: a place in the table of advertised buffers (ring.h). */
struct okv_local_key {
    uint16_t uses; /* part of the key: a late rendezvous read does not find the next buffer */
    uint32_t page, pages; /* its room in the values; no pages: the place is free */
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
    int values; /* memfd */
    int rings;  /* memfd, in a server until it has seen the client's seal; else -1 */
    bool awake; /* polls check its ring; it is in the endpoint's list `awake` */
    TAILQ_ENTRY(okv_local_conn) in_awake;
    unsigned idle_polls; /* polls in a row without a message */
    bool hung_up;        /* the peer has ended; its last messages may still be in the ring */

    /* Send buffers. The caller fills them here, because the peer could change bytes in the ring.
     * Those that are queued wait for a flush, or for room in the ring. */
    uint8_t *send_memory;
    struct okv_local_outgoing *outgoing;
    struct okv_send_slots sends;
    bool ring_full; /* the ring had no room for the next message */
    bool bell_owed; /* the peer waits for a bell */

    unsigned held; /* receive buffers that the caller has not released */

    /* Server only. */
    struct okv_region region; /* in a client of length 0 */
    int process; /* pidfd of the client, readable when it has ended; -1: not known, or ended */
    struct okv_rendezvous_reads rendezvous; /* performed one after another */
    /* Where each buffer is named, as long as that has its key. The addresses of rendezvous reads
     * are those in the values. */
    struct okv_local_place *places[OKV_RENDEZVOUS_MAX];
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
    struct okv_local_conn_list awake; /* the next to be served first */
    unsigned awake_count;
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

/* ---- listen.c ---- */

int okv_local_listen(const struct okv_uri *uri, const struct okv_region *regions, unsigned count,
                     struct okv_listener **out, struct okv_diag *diag);
void okv_local_unlisten(struct okv_listener *listener);

/* ---- accept.c ---- */

/* How clients are greeted and their hellos are read. */
extern const struct okv_pending_ops okv_local_pending_ops;
int okv_local_accept(struct okv_request *request, const struct okv_accept *accept);
void okv_local_reject(struct okv_request *request, const uint8_t *reason, size_t length);

/* ---- connect.c ---- */

int okv_local_connect_start(const struct okv_uri *uri, const struct okv_connect_params *params,
                            struct okv_connecting **out, struct okv_diag *diag);
int okv_local_connect_step(struct okv_connecting *connecting, struct okv_answer *answer,
                           struct okv_conn **out, struct okv_diag *diag);
void okv_local_connect_cancel(struct okv_connecting *connecting);
int okv_local_set_remote(struct okv_conn *conn, uint64_t address, uint64_t length, uint32_t rkey);

/* ---- messages.c ---- */

uint8_t *okv_local_send_buffer(struct okv_conn *conn);
int okv_local_post_send(struct okv_conn *conn, uint32_t length, uint32_t immediate);
/* Forgets the messages that no flush has sent. */
void okv_local_unqueue_sends(struct okv_local_conn *conn);
/* Sends queued messages as far as the ring has room, and wakes the peer if it sleeps. */
void okv_local_flush(struct okv_conn *conn);
/* Receives up to `max` messages; returns their number. Ends the connection when the peer has ended
 * it and the ring is empty, and when the peer broke the rules. */
int okv_local_receive(struct okv_local_conn *conn, struct okv_event *events, int max);
void okv_local_recv_release(struct okv_endpoint *endpoint, const struct okv_event *event);

/* ---- trust.c ---- */

/* Whether the process at the other end was of root or of this process's user when it connected, or
 * listened. Returns 0, or OKV_EIO or OKV_ENOMEM, with errno, when the system does not tell. */
int okv_local_judge_peer(int sock, bool *is_trusted);
/* Client: 0 when the server is one of root or of this user, or when no directory is open to all of
 * those in which names of the path, or of the links on the way, are looked up. OKV_EDENIED, OKV_EIO
 * or OKV_ENOMEM with a sentence. The path is absolute. */
int okv_local_trust(int sock, const char *path, struct okv_diag *diag);

/* ---- discard.c ---- */

/* Closes a socket of a peer; never blocks, whatever the peer sent. The descriptor may stay open for
 * a moment, and when the process has no memory for a thread, for good. */
void okv_local_socket_close(int sock);
/* Closes a listening socket, which is non-blocking, and the clients in its queue in the same way.
 */
void okv_local_listening_close(int sock);
/* Closes a connection's values, on a thread of its own when much of them is allocated. Accepts -1.
 */
void okv_local_values_close(int fd);
/* Unmaps rings and closes their descriptor, -1 when they are sealed: on a thread of its own when
 * they are not, or are large. Accepts rings that are not mapped. */
void okv_local_rings_close(struct okv_local_ring *ring, int fd);

/* ---- socket.c ---- */

/* Receives the next packet. Returns its length; 0 also at the end of the stream. `*is_cut`: it was
 * longer than the vectors. -1 with errno; EPROTO: it has descriptors, and is still there. */
ssize_t okv_local_packet_receive(int sock, struct iovec *vectors, size_t count, bool *is_cut);
/* Receives the next packet into nothing. Closes its descriptors, so they must be known. */
void okv_local_packet_drop(int sock);
/* Has the kernel refuse descriptors to senders, if it can. */
void okv_local_refuse_descriptors(int sock);
/* Receives one packet, if there is one: a bell, which makes the connection awake, or the end. */
void okv_local_socket_receive(struct okv_local_conn *conn);
/* Sends the bell that is owed. */
void okv_local_ring_bell(struct okv_local_conn *conn);
/* The peer is gone. Its messages in the ring can still be received; then the connection ends. */
void okv_local_hang_up(struct okv_local_conn *conn);
/* Checks the socket and, in a server, the client's process: a child of the client may hold the
 * socket open. A peer that is gone has hung up. */
int okv_local_heartbeat(struct okv_conn *conn);
/* ---- advert.c ---- */

int okv_local_advertise(struct okv_conn *conn, const void *base, size_t length,
                        struct okv_advert **out);
void okv_local_withdraw(struct okv_advert *advert);
/* ---- rendezvous.c ---- */

int okv_local_rendezvous(struct okv_conn *conn, const struct okv_rendezvous *rendezvous);
/* Copies a piece for the connections with rendezvous reads, which take turns. Reports those that
 * are whole or have failed; returns their number. */
int okv_local_run_rendezvous(struct okv_local_endpoint *endpoint, struct okv_event *events,
                             int max);
/* Reports those of a connection that has ended. */
int okv_local_end_rendezvous(struct okv_local_conn *conn, struct okv_event *events, int max);

/* ---- endpoint.c ---- */

/* Makes an endpoint for `max_conns` connections. */
int okv_local_endpoint_new(const struct okv_message_limits *limits, unsigned max_conns,
                           struct okv_local_endpoint **out, struct okv_diag *diag);
/* Frees an endpoint and every connection that still belongs to it. */
void okv_local_endpoint_free(struct okv_local_endpoint *endpoint);
/* Names the process at the other end of a socket, for people, and its user, unless that is NULL. */
void okv_local_name_peer(int sock, char name[64], char user[64]);
/* A pidfd of the process that connected to our listening socket. -1 when the system tells none: the
 * process is in a namespace that we cannot see, or descriptors are short. OKV_EDISCONNECTED when
 * the process is gone. */
int okv_local_find_process(int sock, int *out);
/* A connection over `sock`, which it owns on success; not yet attached. */
int okv_local_conn_new(struct okv_local_endpoint *endpoint, int sock, struct okv_local_conn **out);
/* Frees a connection that is in no list. */
void okv_local_conn_free(struct okv_local_conn *conn);
/* Makes a connection part of its endpoint; on the endpoint's thread. */
void okv_local_conn_attach(struct okv_local_conn *conn);
/* Ends a connection with `status`. Only the first call counts. */
void okv_local_conn_end(struct okv_local_conn *conn, int status);
void okv_local_conn_destroy(struct okv_conn *conn);
/* The number of messages that there are receive buffers for. */
unsigned okv_local_receive_room(const struct okv_local_conn *conn);
/* Has epoll watch the socket for what the connection can do now. */
void okv_local_conn_watch(struct okv_local_conn *conn);
/* Whether the rings may be touched: always in a client; in a server when the client has sealed
 * them. Until then the connection stays at rest. */
bool okv_local_rings_are_safe(struct okv_local_conn *conn);
/* Makes a connection awake: polls check its ring. */
void okv_local_conn_wake(struct okv_local_conn *conn);
/* Sends a connection to rest: the peer rings a bell for the next message. False when there is a
 * message already; the connection stays awake. */
bool okv_local_conn_rest(struct okv_local_conn *conn);

/* ---- poll.c ---- */

int okv_local_poll(struct okv_endpoint *endpoint, struct okv_event *events, int max);
int okv_local_arm(struct okv_endpoint *endpoint);

/* ---- wake.c ---- */

/* Makes the endpoint's fd readable if the endpoint is armed: the endpoint's own thread has made an
 * event. */
void okv_local_announce(struct okv_local_endpoint *endpoint);

/* ---- read.c ---- */

int okv_local_post_read(struct okv_conn *conn, const struct okv_read *reads, unsigned count);
bool okv_local_read_now(struct okv_conn *conn, const struct okv_read *read,
                        okv_used_bytes *used_bytes);
/* Reports up to `max` READs. */
int okv_local_report_reads(struct okv_local_conn *conn, struct okv_event *events, int max);
/* Makes the unreported READs fail. */
void okv_local_fail_reads(struct okv_local_conn *conn);

/* True when the server was seen alive just before `now`, on okv_clock_steps(). */
static inline bool okv_local_is_alive(const struct okv_local_conn *conn, uint64_t now)
{
    return now - conn->alive_steps < OKV_LOCAL_ALIVE_STEPS;
}

#endif
