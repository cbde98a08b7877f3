/*
 * The inside of the transport between processes of one host. Only
 * transport_local*.c and tests include this.
 *
 * A connection is a Unix SOCK_SEQPACKET socket and two rings in shared memory
 * (transport_local_ring.h). Messages go through the rings. The socket is for the handshake, to
 * wake a side that sleeps, for descriptors, and to see the end of the peer: a descriptor can be
 * waited for together with others, a word in memory (a futex) cannot. docs/format.md section 7
 * has the bytes. Each side's first packet is the handshake:
 *
 *   client  magic u32 | hello, up to OKV_HELLO_MAX bytes
 *   server  magic u32 | kind u32 | welcome or reason; with a welcome two memfds, the
 *           region's and that of the rings
 *
 * After it there are two kinds of packets, the second from clients only. Whoever sends another is
 * disconnected.
 *
 *   bell      mark u32: look at the ring
 *   advertised buffer  mark u32 | key u32 | size u64; with a memfd of at least `size` bytes
 *
 * That memfd is a copy of what the client advertises, sealed against shrinking. The
 * low 16 bits of the key are its place in the server's table, which has as many
 * places as there are credits; an advertised buffer displaces the one that was there, so
 * that those which were never READ by rendezvous need no word of the client to go away.
 *
 * The region's memfd is sealed against shrinking and against writable
 * mappings, and the client maps it for reading; a READ is a copy out of that
 * mapping, done when it is posted and reported by the next poll, or by read_now at once.
 *
 * A connection is awake or at rest. Polls look at the rings of those that are awake, without a
 * system call, and only now and then at sockets. One that has had nothing for long, and each when
 * its endpoint is armed, goes to rest: it asks its peer to ring. So a server pays for the clients
 * that do something, and not for those that it has.
 */
#ifndef OKV_SHARED_TRANSPORT_LOCAL_LOCAL_H
#define OKV_SHARED_TRANSPORT_LOCAL_LOCAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "shared/transport/local/ring.h"
#include "shared/transport/transport.h"

#define OKV_LOCAL_MAGIC 0x4c766b6fu /* "okvL" */
#define OKV_LOCAL_HELLO_HEADER 4
#define OKV_LOCAL_ANSWER_HEADER 8
#define OKV_LOCAL_BELL_MARK 0x42766b6fu /* "okvB" */
#define OKV_LOCAL_BELL_SIZE 4
#define OKV_LOCAL_ADVERT_MARK 0x58766b6fu /* "okvX" */
#define OKV_LOCAL_ADVERT_SIZE 16

enum okv_local_answer { OKV_LOCAL_WELCOME = 1, OKV_LOCAL_REJECT = 2 };

#define OKV_LOCAL_MAX_READS 64

/* A connected client that has not sent its hello yet is dropped after this time. */
#define OKV_LOCAL_PENDING_MAX 128
#define OKV_LOCAL_PENDING_NS 3000000000u

/*
 * The mapping outlives the server, so a copy out of it alone does not prove
 * that its data is still what the server at this address serves. A READ
 * therefore succeeds only if the server was seen alive within ALIVE_STEPS of
 * okv_clock_steps() before its end, 40 to 200 us; and a server that takes over
 * from one that died lets TAKEOVER_NS pass before it serves. The steps of two
 * CPUs may be apart by as much as lies between, which kernels that use the
 * counter at all see to.
 */
#define OKV_LOCAL_ALIVE_STEPS 200000u
#define OKV_LOCAL_TAKEOVER_NS 20000000u

struct okv_local_request {
    struct okv_request base;
    int sock;
    uint64_t drop_at_ns;
    struct okv_local_request *previous, *next; /* in the listener's list of pending ones */
    uint8_t hello[OKV_HELLO_MAX];
};

struct okv_local_listener {
    struct okv_listener base; /* fd: epoll of sock, timer and the pending requests' sockets */
    struct okv_region region;
    int sock;
    int timer;    /* runs out when the oldest pending request is to be dropped */
    int spare;    /* given up for a moment to turn a client away when no descriptor is left */
    int lock;     /* flock on PATH.lock, held while listening */
    dev_t device; /* of our socket in the file system */
    ino_t inode;
    struct okv_uri uri;
    struct okv_local_request *oldest, *newest;
    unsigned pending;
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

/* Client: a place in the server's table of advertised buffers. */
struct okv_local_key {
    uint16_t
        uses; /* part of the key: a late rendezvous read does not find the next advertised buffer */
    bool taken;
};

/* Client: a copy of advertised memory. */
struct okv_local_advert {
    struct okv_advert base;
    struct okv_local_conn *conn;
    struct okv_local_advert *next; /* in the list of unsent ones */
    uint64_t goes_before;          /* the number of the first message that may name it */
    uint64_t size;
    int fd; /* -1 once it was sent */
};

/* Server: what a client advertised and nobody READ by rendezvous yet. */
struct okv_local_advertised {
    uint32_t key;
    int fd; /* -1: nothing, or nothing that can be read */
    uint64_t size;
};

struct okv_local_conn {
    struct okv_conn base;
    struct okv_local_conn *previous, *next; /* of the endpoint; its thread's */
    struct okv_local_conn *next_queued;     /* in the list of opened or of ended ones */
    enum okv_local_state state;
    int status;        /* why it ended */
    int sock;          /* -1 once ended */
    uint32_t interest; /* what the endpoint's epoll watches for; 0 when sock is not in it */
    struct okv_local_ring ring;
    bool awake; /* its ring is looked at; in the endpoint's list of those */
    TAILQ_ENTRY(okv_local_conn) in_awake;
    unsigned idle_polls; /* that found nothing, since the last that did */
    bool hung_up;        /* the peer takes no more; its last messages may still be there */

    /* Send buffers, filled before their bytes go into the ring, where the peer could change them:
     * those from send_first on wait for a flush, or for room in the ring. */
    uint8_t *send_memory;
    struct okv_local_outgoing *outgoing;
    unsigned send_slots, send_first, send_queued;
    uint64_t sent;    /* messages that the ring took */
    bool ring_full;   /* it had no room for the next one */
    bool bell_owed;   /* the peer is to be woken */
    bool socket_full; /* it had no room for the next advertised buffer */

    unsigned held; /* receive buffers with the owner */

    /* Server only. */
    int process; /* pidfd of the client, readable when it has ended; -1: not known, or ended */
    struct okv_local_advertised *advertised; /* NULL until the first one */
    struct okv_local_done
        rendezvous_reads[OKV_RENDEZVOUS_MAX]; /* a ring of what the next poll reports */
    unsigned rendezvous_first, rendezvous_count;
    struct okv_local_conn
        *next_rendezvous_done; /* in the list of those with rendezvous reads to report */

    /* Client only. */
    const uint8_t *map;
    uint64_t map_length;
    struct okv_local_done reads[OKV_LOCAL_MAX_READS]; /* a ring of what the next poll reports */
    unsigned read_first, read_count;
    struct okv_local_key *keys;      /* NULL until the first advertised buffer */
    struct okv_local_advert *unsent; /* in their order */
    uint64_t alive_steps;            /* when the server was last seen alive */
};

struct okv_local_endpoint {
    struct okv_endpoint base; /* fd: epoll of wake_fd and the connections' sockets */
    int wake_fd;
    bool armed;
    struct okv_message_limits limits;
    struct okv_region region;      /* of a server; all 0 on a client */
    struct okv_local_conn *client; /* the one connection of a client's endpoint */
    struct okv_local_conn *conns;
    TAILQ_HEAD(, okv_local_conn) awake; /* whose turn is next is first */
    unsigned awake_count;
    unsigned polls;
    struct okv_local_conn *ended, **ended_tail;
    struct okv_local_conn *rendezvous_done, **rendezvous_done_tail;

    /* Receive buffers: a stack of free ones, so that those in use stay in the cache. */
    uint8_t *slots;
    size_t slot_stride, slots_length;
    unsigned slot_count, free_count;
    uint32_t *free_slots;
    struct okv_local_conn **slot_owner; /* NULL when free or when its connection is gone */

    /* From the listener's thread. */
    pthread_mutex_t lock;
    struct okv_local_conn *opened, **opened_tail;
    atomic_bool has_opened;
    atomic_uint conn_count;
    unsigned max_conns;
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

/* transport_local_listen.c */
int okv_local_listen(const struct okv_uri *uri, const struct okv_region *region,
                     struct okv_listener **out, struct okv_diag *diag);
void okv_local_unlisten(struct okv_listener *listener);

/* transport_local_accept.c */
int okv_local_next_request(struct okv_listener *listener, struct okv_request **out);
int okv_local_accept(struct okv_request *request, struct okv_endpoint *endpoint, void *user,
                     const uint8_t *welcome, size_t length);
void okv_local_reject(struct okv_request *request, const uint8_t *reason, size_t length);
/* Closes the socket of a request and frees it; it is in no list. */
void okv_local_request_free(struct okv_local_request *request);

/* transport_local_connect.c */
int okv_local_connect_start(const struct okv_uri *uri, const struct okv_connect_params *params,
                            struct okv_connecting **out, struct okv_diag *diag);
int okv_local_connect_step(struct okv_connecting *connecting, struct okv_welcome *welcome,
                           struct okv_conn **out, struct okv_diag *diag);
void okv_local_connect_cancel(struct okv_connecting *connecting);
int okv_local_set_remote(struct okv_conn *conn, uint64_t address, uint64_t length, uint32_t rkey);

/* transport_local_message.c */
uint8_t *okv_local_send_buffer(struct okv_conn *conn);
int okv_local_post_send(struct okv_conn *conn, uint32_t length, uint32_t immediate);
/* Sends messages and advertised buffers that are queued as far as ring and socket take them, and
 * wakes the peer if it sleeps. */
void okv_local_flush(struct okv_conn *conn);
/* Takes up to `max` messages out of the ring; returns their number. Ends the connection when the
 * peer has ended it and all is taken, or broke the rules. */
int okv_local_receive(struct okv_local_conn *conn, struct okv_event *events, int max);
void okv_local_recv_release(struct okv_endpoint *endpoint, const struct okv_event *event);

/* transport_local_socket.c */
/* Takes what is on the socket: bells, advertised buffers, the end of the peer. Returns the number
 * of packets. A connection that got any is awake. */
unsigned okv_local_hear(struct okv_local_conn *conn);
/* Wakes the peer, if it is to be. */
void okv_local_ring_bell(struct okv_local_conn *conn);
/* The peer takes no more, and what it has sent by now is all: the connection ends when that is
 * taken. */
void okv_local_hang_up(struct okv_local_conn *conn);
/* Looks at the socket, and at the process of a client: a child of it may have the socket open. A
 * peer that is gone has hung up. */
int okv_local_heartbeat(struct okv_conn *conn);
/* The descriptors that came with a packet whose control buffer has room for `max`: how many. */
unsigned okv_local_passed_descriptors(struct msghdr *message, int *fds, unsigned max);

/* transport_local_rendezvous.c */
int okv_local_advertise(struct okv_conn *conn, const void *base, size_t length,
                        struct okv_advert **out);
void okv_local_withdraw(struct okv_advert *advert);
/* Hands an advertised buffer to the socket. OKV_EAGAIN when it is full, or the code of another
 * failure. */
int okv_local_transmit_advert(struct okv_local_advert *advert);
/* Keeps or closes `fd`, -1 when it was lost; `bytes` are those behind the mark. A code
 * ends the connection. */
int okv_local_take_advert(struct okv_local_conn *conn, const uint8_t *bytes, int fd);
/* Closes what was not READ by rendezvous. */
void okv_local_forget_adverts(struct okv_local_conn *conn);
int okv_local_rendezvous(struct okv_conn *conn, const struct okv_rendezvous *rendezvous);
int okv_local_report_rendezvous_done(struct okv_local_endpoint *endpoint, struct okv_event *events,
                                     int max);

/* transport_local_endpoint.c */
/* An endpoint for `max_conns` connections; for okv_local_endpoint_free. */
int okv_local_endpoint_new(const struct okv_message_limits *limits, unsigned max_conns,
                           struct okv_local_endpoint **out, struct okv_diag *diag);
/* Frees an endpoint and every connection that is still part of it. */
void okv_local_endpoint_free(struct okv_local_endpoint *endpoint);
/* Who is at the other end of a socket, for people. */
void okv_local_name_peer(int sock, char name[64]);
/* A pidfd of the process that connected to our listening socket, -1 when the system tells none: it
 * is in a namespace that we do not see into, or descriptors are short. OKV_EDISCONNECTED when the
 * process is gone. */
int okv_local_find_process(int sock, int *out);
/* A connection over `sock`, which it owns on success; not yet part of the endpoint. */
int okv_local_conn_new(struct okv_local_endpoint *endpoint, int sock, struct okv_local_conn **out);
/* Frees a connection that is in no list. */
void okv_local_conn_free(struct okv_local_conn *conn);
/* Makes a connection part of its endpoint; the endpoint's thread. */
void okv_local_conn_attach(struct okv_local_conn *conn);
/* Ends a connection with `status`; once, later calls change nothing. */
void okv_local_conn_end(struct okv_local_conn *conn, int status);
void okv_local_conn_destroy(struct okv_conn *conn);
/* Messages that the connection may take out of its ring now. */
unsigned okv_local_receive_room(const struct okv_local_conn *conn);
/* Watches the socket for what the connection can do now. */
void okv_local_conn_watch(struct okv_local_conn *conn);
/* Has polls look at the ring. */
void okv_local_conn_wake(struct okv_local_conn *conn);
/* Has the peer ring when there is something. False: there is something, the connection stays
 * awake. */
bool okv_local_conn_rest(struct okv_local_conn *conn);
/* Takes a connection out of the list of ended ones, if it is there. */
void okv_local_unqueue_ended(struct okv_local_endpoint *endpoint, struct okv_local_conn *conn);
/* Makes the endpoint's fd readable until the next arm; any thread. */
void okv_local_signal(struct okv_local_endpoint *endpoint);
/* The same, once, when the endpoint is armed: its own thread has made an event. */
void okv_local_announce(struct okv_local_endpoint *endpoint);

/* ---- READs ---- */

int okv_local_post_read(struct okv_conn *conn, const struct okv_read *reads, unsigned count);
int okv_local_read_now(struct okv_conn *conn, const struct okv_read *read, okv_used_bytes *extent);
/* Up to `max` events of READs that were posted. */
int okv_local_report_reads(struct okv_local_conn *conn, struct okv_event *events, int max);
/* Makes the READs that are not reported yet fail. */
void okv_local_flush_reads(struct okv_local_conn *conn);

/* At `now`, on okv_clock_steps(): the server was seen alive just before. */
static inline bool okv_local_is_alive(const struct okv_local_conn *conn, uint64_t now)
{
    return now - conn->alive_steps < OKV_LOCAL_ALIVE_STEPS;
}

#endif
