/*
 * The inside of the transport between processes of one host. Only
 * transport_local*.c includes this.
 *
 * A connection is a Unix SOCK_SEQPACKET socket. Each side's first packet is the
 * handshake:
 *
 *   client  magic u32 | hello, up to OKV_HELLO_MAX bytes
 *   server  magic u32 | kind u32 | welcome or reason; the region's memfd with a welcome
 *
 * Every packet after it is a message: immediate u32 | payload. Integers are
 * little endian.
 *
 * The region's memfd is sealed against shrinking and against writable
 * mappings, and the client maps it for reading; a READ is a copy out of that
 * mapping, done when it is posted and reported by the next poll.
 */
#ifndef OKV_SHARED_TRANSPORT_LOCAL_H
#define OKV_SHARED_TRANSPORT_LOCAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared/transport.h"

#define OKV_LOCAL_MAGIC 0x4c766b6fu /* "okvL" */
#define OKV_LOCAL_HELLO_HEADER 4
#define OKV_LOCAL_ANSWER_HEADER 8
#define OKV_LOCAL_MESSAGE_HEADER 4

enum okv_local_answer { OKV_LOCAL_WELCOME = 1, OKV_LOCAL_REJECT = 2 };

#define OKV_LOCAL_MAX_READS 64

/* A connected client that has not sent its hello yet is dropped after this time. */
#define OKV_LOCAL_PENDING_MAX 128
#define OKV_LOCAL_PENDING_NS 3000000000u

/*
 * The mapping outlives the server, so a copy out of it alone does not prove
 * that its data is still what the server at this address serves. A READ
 * therefore succeeds only if the server was seen alive within ALIVE_NS before
 * its event; and a server that takes over from one that died lets TAKEOVER_NS
 * pass before it serves.
 */
#define OKV_LOCAL_ALIVE_NS 20000u
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
    struct okv_exposed_region region;
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

struct okv_local_conn {
    struct okv_conn base;
    struct okv_local_conn *previous, *next; /* of the endpoint; its thread's */
    struct okv_local_conn *next_queued;     /* in the list of opened or of ended ones */
    enum okv_local_state state;
    int status;        /* why it ended */
    int sock;          /* -1 once ended */
    uint32_t interest; /* what the endpoint's epoll watches for; 0 when sock is not in it */

    /* Send buffers: a ring; those from send_first on wait for room in the socket. */
    uint8_t *send_memory;
    struct okv_local_outgoing *outgoing;
    unsigned send_slots, send_first, send_queued;
    bool send_broken; /* the peer reads no more; its last messages may still be there */

    unsigned held; /* receive buffers with the owner */

    /* Client only. */
    const uint8_t *map;
    uint64_t map_length;
    struct okv_local_done reads[OKV_LOCAL_MAX_READS]; /* a ring of what the next poll reports */
    unsigned read_first, read_count;
    bool server_gone;
    uint64_t alive_ns; /* when the server was last seen alive */
};

struct okv_local_endpoint {
    struct okv_endpoint base; /* fd: epoll of wake_fd and the connections' sockets */
    int wake_fd;
    bool armed;
    struct okv_message_limits limits;
    struct okv_local_conn *client; /* the one connection of a client's endpoint */
    struct okv_local_conn *conns;
    struct okv_local_conn *ended, **ended_tail;

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
int okv_local_listen(const struct okv_uri *uri, const struct okv_exposed_region *region,
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
int okv_local_connect(const struct okv_uri *uri, const struct okv_connect_params *params,
                      struct okv_welcome *welcome, struct okv_conn **out, struct okv_diag *diag);
int okv_local_set_remote(struct okv_conn *conn, uint64_t address, uint64_t length, uint32_t rkey);

/* transport_local_message.c */
uint8_t *okv_local_send_buffer(struct okv_conn *conn);
int okv_local_post_send(struct okv_conn *conn, uint32_t length, uint32_t immediate);
/* Sends what is queued as far as the socket takes it. */
void okv_local_flush(struct okv_local_conn *conn);
/* Takes up to `max` messages off the socket; returns their number. `*drained`
 * says whether the socket was seen empty with the peer still there. Ends the
 * connection when the peer has ended it and all is read, or broke the rules. */
int okv_local_receive(struct okv_local_conn *conn, struct okv_event *events, int max,
                      bool *drained);
void okv_local_recv_release(struct okv_endpoint *endpoint, const struct okv_event *event);

/* transport_local_endpoint.c */
/* An endpoint for `max_conns` connections; for okv_local_endpoint_free. */
int okv_local_endpoint_new(const struct okv_message_limits *limits, unsigned max_conns,
                           struct okv_local_endpoint **out, struct okv_diag *diag);
/* Frees an endpoint and every connection that is still part of it. */
void okv_local_endpoint_free(struct okv_local_endpoint *endpoint);
/* Gives a socket room for the messages of `limits`; OKV_EUNSUPPORTED when it cannot have it. */
int okv_local_size_socket(int sock, const struct okv_message_limits *limits);
/* Who is at the other end of a socket, for people. */
void okv_local_name_peer(int sock, char name[64]);
/* A connection over `sock`, which it owns on success; not yet part of the endpoint. */
int okv_local_conn_new(struct okv_local_endpoint *endpoint, int sock, struct okv_local_conn **out);
/* Frees a connection that is in no list. */
void okv_local_conn_free(struct okv_local_conn *conn);
/* Makes a connection part of its endpoint; the endpoint's thread. */
void okv_local_conn_attach(struct okv_local_conn *conn);
/* Ends a connection with `status`; once, later calls change nothing. */
void okv_local_conn_end(struct okv_local_conn *conn, int status);
void okv_local_conn_destroy(struct okv_conn *conn);
/* Messages that the connection may take off its socket now. */
unsigned okv_local_receive_room(const struct okv_local_conn *conn);
/* Watches the socket for what the connection can do now. */
void okv_local_conn_watch(struct okv_local_conn *conn);
/* Makes the READs that are not reported yet fail. */
void okv_local_flush_reads(struct okv_local_conn *conn);
/* Takes a connection out of the list of ended ones, if it is there. */
void okv_local_unqueue_ended(struct okv_local_endpoint *endpoint, struct okv_local_conn *conn);
/* Makes the endpoint's fd readable until the next arm; any thread. */
void okv_local_signal(struct okv_local_endpoint *endpoint);
/* The same, once, when the endpoint is armed: its own thread has made an event. */
void okv_local_announce(struct okv_local_endpoint *endpoint);

#endif
