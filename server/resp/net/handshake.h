/*
 * TLS handshakes of RESP clients, on a thread of their own: a signature takes as long as thousands
 * of requests, and no worker does that for strangers. Such a client is silent (place.h), so there
 * are few of them, and has as much time as one to log in.
 */
#ifndef OKV_SERVER_RESP_NET_HANDSHAKE_H
#define OKV_SERVER_RESP_NET_HANDSHAKE_H

#include <pthread.h>

#include "server/resp/run/client.h"

struct okv_resp_handshakes {
    struct okv_server *server;
    pthread_t thread;
    int epoll_fd;
    int wake_fd; /* an eventfd: there are new ones, or the thread is to end */
    atomic_bool has_to_stop;
    pthread_mutex_t lock;                  /* of the inbox */
    struct okv_resp_client_list inbox;     /* from the acceptor */
    struct okv_resp_client_list under_way; /* the thread's, oldest first */
};

/* Begins with it. OKV_EIO: there are no descriptors; what okv_thread_start() returns. */
int okv_resp_handshakes_start(struct okv_resp_handshakes *handshakes, struct okv_server *server,
                              struct okv_diag *why);
/* Takes a silent client with TLS, which gets a worker, and without users a place, when its
 * handshake is over. The acceptor's thread. */
void okv_resp_handshakes_add(struct okv_resp_handshakes *handshakes,
                             struct okv_resp_client *client);
/* Closes all that are under way. No client comes any more, and workers are still there. */
void okv_resp_handshakes_stop(struct okv_resp_handshakes *handshakes);

#endif
