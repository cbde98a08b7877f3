/*
 * What all workers share of the RESP listeners: the sockets, the clients, and the lock of commands
 * that run alone. Open and close exclude every other call.
 */
#ifndef OKV_SERVER_RESP_NET_LISTEN_H
#define OKV_SERVER_RESP_NET_LISTEN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "server/command/exclusive.h"
#include "server/config.h"
#include "shared/base/diag.h"
#include "shared/base/uri.h"

struct okv_resp_client;
struct okv_tls;
struct okv_server;

struct okv_resp_listener {
    int fd;
    bool has_tls;
    char where[160];  /* its URI, with the port that it has */
    const char *path; /* of a Unix socket, to be removed at the end; borrowed; or NULL */
};

struct okv_resp_door {
    struct okv_tls *tls; /* of all that have it */
    unsigned count;
    struct okv_resp_listener listeners[OKV_RESP_LISTENERS_MAX];
    struct okv_exclusive exclusive; /* workers share it while they run commands */
    pthread_mutex_t lock;           /* of the next, and of what others read of a client */
    TAILQ_HEAD(okv_resp_door_clients, okv_resp_client) clients; /* in the order of their ids */
    uint64_t last_id;                                           /* the acceptor's */
    atomic_int_fast64_t memory;                                 /* bytes of memory of clients */
    atomic_int_fast64_t wall_ms; /* of the wall's clock, at 0 of the server's */
};

/* Listens at all that the configuration names, and gives the sockets to the acceptor. OKV_EIO,
 * OKV_ENOMEM. */
int okv_resp_door_open(struct okv_server *server, struct okv_diag *diag);
/* No client is left. */
void okv_resp_door_close(struct okv_server *server);

/* Lets in some of those who wait at a struct okv_resp_listener, and hands them to workers. The
 * acceptor's thread. */
void okv_resp_door_admit(struct okv_server *server, void *listener);

/* The wall's clock at 0 of the server's, in ms: the same from call to call, unless one was set. Any
 * thread. */
int64_t okv_resp_door_wall_ms(struct okv_server *server);

#endif
