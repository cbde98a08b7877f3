/* A thread that serves: it polls its endpoints, executes requests and answers them. */
#ifndef OKV_SERVER_WORKER_WORKER_H
#define OKV_SERVER_WORKER_WORKER_H

#include <pthread.h>

#include "server/core/server.h"

struct okv_resp;
struct okv_sessions;

struct okv_worker {
    struct okv_server *server;
    pthread_t thread;
    struct okv_worker_signal *signal; /* its own, of the server */
    /* Of each listener; NULL while its door is closed. Used by this worker only. */
    struct okv_endpoint *endpoints[OKV_LISTENERS_MAX];
    unsigned openings[OKV_LISTENERS_MAX]; /* of the doors that the endpoints belong to */
    struct okv_sessions *sessions;        /* its native clients; owned */
    struct okv_resp *resp;                /* its RESP clients; owned */

    /* since when passes have found nothing to do; 0: the last one found something */
    uint64_t idle_ns;
    uint64_t scan_ns;     /* time of the next scan for idle sessions */
    uint64_t tick_ns;     /* time of the next keepalive tick */
    uint64_t end_ns;      /* when it gives up on sessions that do not end; set by the shutdown */
    bool has_more;        /* in this pass: an endpoint may have more events */
    atomic_uint passes;   /* so far */
    unsigned passes_seen; /* main's: how many there were when it looked */
};

/* Creates the worker's endpoints, each for its share of --max-clients as far as its device has
 * room. The listeners exist. OKV_EIO, OKV_ENOMEM, and the errors of endpoint_create(). */
int okv_worker_init(struct okv_worker *worker, struct okv_server *server, struct okv_diag *diag);
/* The worker's thread and the acceptor have ended. Ends the sessions of clients that were admitted
 * meanwhile. */
void okv_worker_fini(struct okv_worker *worker);

/* Makes an endpoint of a listener, that of door `index`, for a worker's share of the --max-clients
 * of the start, as far as the device has room. Any thread. The errors of endpoint_create(). */
int okv_worker_make_endpoint(struct okv_server *server, unsigned index,
                             struct okv_listener *listener, struct okv_endpoint **out,
                             struct okv_diag *diag);
/* How many more clients of a listener all workers together have room for. The acceptor's thread,
 * and main's before there are threads. */
uint32_t okv_workers_room(const struct okv_server *server, unsigned listener);

/* Starts the thread; worker and server must not move. Fails like okv_thread_start(). */
int okv_worker_start(struct okv_worker *worker, struct okv_diag *why);
/* Waits until the thread has ended its sessions (shutdown.h). server->stopping is set, and the
 * acceptor still runs. */
void okv_worker_join(struct okv_worker *worker);
/* Whether all workers have made a pass since the last call, or the start. Has each make one before
 * the next. Main calls it. */
bool okv_workers_go_on(struct okv_server *server);

/* Its number among the server's workers. */
static inline unsigned okv_worker_index(const struct okv_worker *worker)
{
    return (unsigned)(worker - worker->server->workers);
}

#endif
