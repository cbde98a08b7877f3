/*
 * A listener and its endpoints, one of each worker. When its device goes away they close, and open
 * again when it is back; the others go on meanwhile.
 *
 *   OPEN     clients are accepted
 *   CLOSING  each worker ends its clients and destroys its endpoint
 *   CLOSED   nobody has anything of it; it is tried again every second
 *   OPENING  a thread of its own listens and makes endpoints: registering memory takes long
 *
 * The acceptor moves it on (net/doors.c). What failed is said by okv_server_fail().
 */
#ifndef OKV_SERVER_CORE_DOOR_H
#define OKV_SERVER_CORE_DOOR_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/core/limits.h"
#include "shared/base/diag.h"
#include "shared/transport/transport.h"

struct okv_server;

enum okv_door_state {
    OKV_DOOR_OPEN,
    OKV_DOOR_CLOSING,
    OKV_DOOR_CLOSED,
    OKV_DOOR_OPENING,
};

struct okv_door {
    atomic_int state;     /* enum okv_door_state */
    atomic_int failure;   /* why it has to close, or 0; any thread sets it */
    atomic_uint openings; /* since the start; endpoints[] are those of the last one */
    atomic_uint held;     /* while it closes: endpoints that are not destroyed */
    struct okv_endpoint *endpoints[OKV_WORKERS_MAX];
    unsigned clients; /* that each of them is for: as the start had it */
    char where[sizeof((struct okv_listener *)0)->where]; /* of its listener, while it has none */

    /* The acceptor's and, while it is OPENING, the opening thread's. */
    struct okv_server *server;
    struct okv_listener *last; /* closed, and not ended yet; the opening thread does that first */
    struct okv_listener *next; /* of the opening thread; NULL: it could not listen */
    struct okv_diag why;       /* then */
    pthread_t opener;
    atomic_bool has_opened; /* the thread is done */
    bool has_complained;    /* of `why` */
    uint64_t retry_ns;
};

/* What a listener says of itself, or why it is closed. */
struct okv_door_text {
    char where[sizeof((struct okv_listener *)0)->where];
    char how[sizeof((struct okv_listener *)0)->how];
};
/* Any thread. */
void okv_door_describe(struct okv_server *server, unsigned listener, struct okv_door_text *out);
/* Why it closed, in words; static. Any thread. */
const char *okv_door_why(const struct okv_door *door);

#endif
