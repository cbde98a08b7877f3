/* The thread that serves: polls completions, applies requests, answers. */
#ifndef OKV_SERVER_WORKER_H
#define OKV_SERVER_WORKER_H

#include <pthread.h>

#include "server/housekeeping.h"
#include "server/server.h"
#include "server/session.h"

struct okv_worker {
    struct okv_server *server;
    pthread_t thread;
    int stop_fd;                /* wakes the worker to see server->stopping */
    struct okv_store_work work; /* private copies of the buckets being changed */
    struct okv_housekeeping housekeeping;
    struct okv_session *sessions;
    uint64_t busy_ns; /* when something last happened */
};

/* Starts the thread; the server must not move. OKV_EIO, OKV_ENOMEM. */
int okv_worker_start(struct okv_worker *worker, struct okv_server *server);
/* Tells every client goodbye, gives them 200 ms to leave, ends their connections
 * and the thread. server->stopping must be set, the acceptor must still run. */
void okv_worker_stop(struct okv_worker *worker);
/* After the acceptor has ended too: ends the clients that it let in meanwhile. */
void okv_worker_fini(struct okv_worker *worker);

#endif
