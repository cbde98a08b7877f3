/* A thread that serves: polls completions of its connections, applies requests, answers. */
#ifndef OKV_SERVER_WORKER_H
#define OKV_SERVER_WORKER_H

#include <pthread.h>

#include "server/housekeeping.h"
#include "server/server.h"
#include "server/session/session.h"

struct okv_worker {
    struct okv_server *server;
    pthread_t thread;
    int wake_fd;
    struct okv_endpoint *endpoints[OKV_LISTENERS_MAX]; /* its own, one for each listener */
    atomic_uint clients[OKV_LISTENERS_MAX];            /* on each; the acceptor adds */
    struct okv_store_work work; /* private copies of the buckets being changed */
    struct okv_housekeeping housekeeping;

    struct okv_session_list sessions;  /* all of them */
    struct okv_session_list turns;     /* those with something to serve or to answer */
    struct okv_session_list unflushed; /* those with replies to be sent at the end of the pass */

    uint64_t pass;    /* number of this pass */
    uint64_t now_ns;  /* when it began */
    uint64_t idle_ns; /* since when nothing has happened; 0: something did in the last pass */
    uint64_t look_ns; /* when sessions are next looked at */
    uint64_t tick_ns; /* when their next keepalive tick is */
    uint64_t end_ns;  /* when it ends, whoever is still there; set when the server is to end */
    bool is_held_up;  /* in this pass: a write waits for one that another connection brought */
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
/* How often it looks at its sessions. Any thread. */
uint64_t okv_worker_look_ns(const struct okv_worker *worker);

/* For the sessions, in the worker's thread. */

/* The session has something to serve or to answer. */
void okv_worker_await_turn(struct okv_worker *worker, struct okv_session *session);
/* Replies were posted: they leave at the end of the pass. */
void okv_worker_await_flush(struct okv_worker *worker, struct okv_session *session);
/* Sends them at once. */
void okv_worker_flush_session(struct okv_worker *worker, struct okv_session *session);
/* The session ends: takes it out of all lists. */
void okv_worker_unlist_session(struct okv_worker *worker, struct okv_session *session);

#endif
