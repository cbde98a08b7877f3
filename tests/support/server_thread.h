/* okv-server in a thread of this process, on devices of this process (tests/support/nic). */
#ifndef OKV_TESTS_SERVER_THREAD_H
#define OKV_TESTS_SERVER_THREAD_H

#include <pthread.h>

#include "server/core/server.h"

struct server_thread {
    struct okv_server *server;
    pthread_t thread;
    int status; /* what okv_serve() returned */
};

/* Makes a server with these options, up to NULL, which the caller may change before it runs. One
 * for each process at a time. */
void server_thread_create(struct server_thread *it, const char *const *options);
/* The caller waits for it by connecting. */
void server_thread_run(struct server_thread *it);
/* Both. */
void server_thread_start(struct server_thread *it, const char *const *options);
/* Ends it as SHUTDOWN does. Fails the test unless okv_serve() returned 0. */
void server_thread_stop(struct server_thread *it);

#endif
