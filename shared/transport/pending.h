/*
 * Clients of a stream socket that have connected and not said hello yet.
 *
 * A slow one holds up nobody: they are watched together and dropped after a while. When there are
 * too many, the oldest from the source with the most of them makes room, so a flood crowds out only
 * itself. For transports whose handshake runs over a socket. One thread, the listener's,
 * calls.
 */
#ifndef OKV_SHARED_TRANSPORT_PENDING_H
#define OKV_SHARED_TRANSPORT_PENDING_H

#include <stdatomic.h>
#include <stdint.h>

#include "shared/base/diag.h"

#define OKV_PENDING_MAX 128 /* unless the listener's owner sets another limit */

/* Part of a transport's request. */
struct okv_pending_client {
    int sock;
    const char *from; /* the host, or the user of this one, that it belongs to */
    uint64_t arrived_ns;
    unsigned ahead; /* older ones from there */
    struct okv_pending_client *previous, *next;
};

struct okv_pending {
    int epoll; /* readable when okv_pending_wait() has something */
    int sock;  /* that listens */
    int timer; /* expires when the oldest client has taken too long */
    int spare; /* closed for a moment to turn a client away when no descriptor is left */
    /* Any thread may change these two. */
    atomic_uint max;                                 /* how many clients there may be */
    _Atomic uint64_t silence_ns;                     /* until a silent one is dropped */
    uint64_t usual_silence_ns;                       /* the transport's */
    void (*drop)(struct okv_pending_client *client); /* closes its socket and frees it */
    /* Of a transport whose sockets must not be closed by close(2), set after open; else NULL. */
    void (*close_client)(int sock), (*close_listening)(int sock);
    struct okv_pending_client *oldest, *newest;
    unsigned count;
};

/* Takes over `sock`, which is non-blocking, also on failure. */
int okv_pending_open(struct okv_pending *pending, int sock, uint64_t silence_ns,
                     void (*drop)(struct okv_pending_client *client), struct okv_diag *diag);
/* Drops all and closes the descriptors. */
void okv_pending_close(struct okv_pending *pending);

enum okv_pending_event {
    OKV_PENDING_NOTHING,
    OKV_PENDING_CONNECT, /* call okv_pending_accept() */
    OKV_PENDING_BYTES,   /* of *client */
    OKV_PENDING_OTHER,   /* handled */
};
/* What has come; never blocks. A negative code when the listener failed. */
int okv_pending_wait(struct okv_pending *pending, struct okv_pending_client **client);
/* The next client's socket, non-blocking, or -1. */
int okv_pending_accept(struct okv_pending *pending);
/* Watches the client, whose `sock` and `from` are set. Returns 0 or an errno: it is the caller's
 * then. */
int okv_pending_add(struct okv_pending *pending, struct okv_pending_client *client);
/* Its socket is the caller's from here on. */
void okv_pending_remove(struct okv_pending *pending, struct okv_pending_client *client);

#endif
