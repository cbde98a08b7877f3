/* The thread that admits clients: it answers the hello and hands the session to a worker. */
#ifndef OKV_SERVER_NET_ACCEPTOR_H
#define OKV_SERVER_NET_ACCEPTOR_H

#include <pthread.h>

#include "server/core/server.h"

struct okv_acceptor {
    struct okv_server *server;
    pthread_t thread;
    uint64_t passed_ns, busy_since_ns; /* the last pass; since when there was no pause */
    atomic_bool has_to_reload, has_to_stop;
    /* Administrators get no reload and no reading of the host before. */
    uint64_t next_reload_ns, next_host_ns;
    uint64_t last_session_id;
};

/* Starts the thread; the server must not move. OKV_EIO; what okv_thread_start() returns. */
int okv_acceptor_start(struct okv_acceptor *acceptor, struct okv_server *server,
                       struct okv_diag *why);
/* Makes the thread read the users file again, without delay. Any thread; returns at once. */
void okv_acceptor_reload(struct okv_acceptor *acceptor);
/* Ends the thread and waits for it. Connections must be gone by then. */
void okv_acceptor_stop(struct okv_acceptor *acceptor);

#endif
