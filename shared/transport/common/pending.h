/*
 * Clients of a stream socket that have connected and not sent their hello yet.
 *
 * A slow one delays nobody: all are watched together and dropped after a while. When there are too
 * many, the oldest from the address with the most of them is dropped, so a flood displaces only
 * itself. Clients whose handshake of TLS is under way are among them; those of these that are
 * dropped come back first, and while there are as many, others from their addresses are turned
 * away. For transports
 * whose handshake runs over a socket. One thread, the listener's, calls.
 */
#ifndef OKV_SHARED_TRANSPORT_COMMON_PENDING_H
#define OKV_SHARED_TRANSPORT_COMMON_PENDING_H

#include "shared/base/crowd.h"
#include "shared/base/entrance.h"
#include "shared/transport/transport.h"

#define OKV_PENDING_MAX 128 /* unless the listener's owner sets another limit */

/* The transport's request begins with this. */
struct okv_pending_client {
    struct okv_request base; /* the clients of an `address` are counted together */
    int sock;                /* non-blocking; -1: none */
    uint64_t arrived_ns;
    bool is_away;    /* the transport does something with it first, such as a handshake of TLS, and
                        nobody else touches it */
    bool is_dropped; /* it came to its end while it was away */
    struct okv_crowd_member member;
};

struct okv_pending_ops {
    size_t size; /* of the transport's request */
    /* Names the peer of a new client, and may send it something. 0, or a code: it is dropped. */
    int (*greet)(struct okv_pending_client *client);
    /* Does what comes before the hello elsewhere. NULL, as the next two: there is nothing. */
    void (*lead_away)(struct okv_pending_client *client);
    /* The next client that comes back, or NULL: there is none. */
    struct okv_pending_client *(*next_returned)(struct okv_listener *listener);
    /* Reads what has come. 1: the hello is complete, and in the request, or it is a stranger's; 0:
     * bytes are missing; a code: the client is dropped. */
    int (*read_hello)(struct okv_pending_client *client);
    /* Closes its socket and frees it. */
    void (*drop)(struct okv_pending_client *client);
    /* Makes one that is away come back soon. */
    void (*recall)(struct okv_pending_client *client);
    /* For sockets that must not be closed by close(2); else NULL. */
    void (*close_client)(int sock), (*close_listening)(int sock);
};

struct okv_pending {
    const struct okv_pending_ops *ops;
    int epoll;                /* readable when next_request has something to do */
    int sock;                 /* that listens */
    bool has_returns;         /* a mark: what epoll says of clients that return */
    struct okv_crowd leaving; /* clients that were dropped while they were away, and are still */
    int timer;                /* expires when the oldest client has taken too long */
    struct okv_entrance entrance; /* of `sock` */
    /* Any thread may change these two. */
    atomic_uint max;             /* how many clients there may be */
    _Atomic uint64_t silence_ns; /* until a silent one is dropped */
    uint64_t usual_silence_ns;   /* the transport's */
    struct okv_crowd crowd;      /* the clients */
};

/* Takes over `sock`, which is non-blocking, also on failure. `ops` must outlive it.
 * OKV_ENOMEM; OKV_EIO: no descriptor is left, among others. With a sentence. */
int okv_pending_open(struct okv_pending *pending, int sock, uint64_t silence_ns,
                     const struct okv_pending_ops *ops, struct okv_diag *diag);
/* `fd` is readable while clients are there to return. 0 or OKV_EIO with a sentence. */
int okv_pending_watch_returns(struct okv_pending *pending, int fd, struct okv_diag *diag);
/* Drops all and closes the descriptors. No client is away. */
void okv_pending_close(struct okv_pending *pending);
/* The operation next_request of a listener that has `pending`. The socket of a request is the
 * caller's. */
int okv_pending_next_request(struct okv_listener *listener, struct okv_request **out);
/* Watches a client with its `sock` and address. Returns 0 or an errno: it is the caller's then. */
int okv_pending_add(struct okv_pending *pending, struct okv_pending_client *client);
/* Forgets a client, whose socket is the caller's from here on. */
void okv_pending_remove(struct okv_pending *pending, struct okv_pending_client *client);

#endif
