/* A thread that serves: polls completions of its connections, applies requests, answers. */
#ifndef OKV_SERVER_WORKER_H
#define OKV_SERVER_WORKER_H

#include <pthread.h>

#include "server/server.h"
#include "server/session/sessions.h"

struct okv_worker {
    struct okv_server *server;
    pthread_t thread;
    int wake_fd;
    struct okv_endpoint *endpoints[OKV_LISTENERS_MAX]; /* its own, one for each listener */
    struct okv_sessions sessions;

    uint64_t now_ns;  /* when it began */
    uint64_t idle_ns; /* since when nothing has happened; 0: something did in the last pass */
    uint64_t scan_ns; /* when idle sessions are next looked for */
    uint64_t tick_ns; /* when their next keepalive tick is */
    uint64_t end_ns;  /* when it ends, whoever is still there; set when the server is to end */
    bool has_more;    /* in this pass: an endpoint may have had more than was polled */
    atomic_bool has_replaced; /* the acceptor replaced a session here */
};

/* Makes the worker and its endpoints, each for its part of --max-clients; the listeners are
 * there. OKV_EIO, OKV_ENOMEM, and what endpoint_create says. */
int okv_worker_init(struct okv_worker *worker, struct okv_server *server, struct okv_diag *diag);
/* Its thread must have ended, and the acceptor too: ends the clients that it let in meanwhile. */
void okv_worker_fini(struct okv_worker *worker);

/* Starts the thread; worker and server must not move. OKV_ENOMEM. */
int okv_worker_start(struct okv_worker *worker);
/* With server->stopping set: the thread answers what has come, tells every client goodbye, gives
 * them --drain-ms to leave and connections 2 s more to close, and ends. The acceptor must still
 * run. */
void okv_worker_join(struct okv_worker *worker);
/* Ends its sleep. Any thread. */
void okv_worker_wake(struct okv_worker *worker);
/* Has it end the sessions that were replaced. Any thread. */
void okv_worker_end_replaced(struct okv_worker *worker);

#endif
