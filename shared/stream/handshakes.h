/*
 * TLS handshakes of a server's clients, on a thread of their own: a signature takes as long as
 * thousands of requests, and nobody who serves does that for strangers. Where there are fewer
 * processors than threads, the thread comes last.
 */
#ifndef OKV_SHARED_STREAM_HANDSHAKES_H
#define OKV_SHARED_STREAM_HANDSHAKES_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "shared/stream/stream.h"

enum okv_handshake_end {
    OKV_HANDSHAKE_DONE,
    OKV_HANDSHAKE_FAILED,
    OKV_HANDSHAKE_OVERDUE,
    OKV_HANDSHAKE_STOPPED,
};

/* Called on the thread. */
struct okv_handshakes_ops {
    uint64_t (*limit_ns)(void *user); /* how long a handshake may take */
    /* One has ended, and is its owner's again. */
    void (*ended)(void *user, struct okv_handshake *handshake, enum okv_handshake_end how);
};

TAILQ_HEAD(okv_handshake_list, okv_handshake);

struct okv_handshakes {
    const struct okv_handshakes_ops *ops;
    void *user;
    pthread_t thread;
    int epoll_fd;
    int wake_fd; /* an eventfd: there are new ones, or the thread is to end */
    atomic_bool has_to_stop;
    pthread_mutex_t lock;                /* of the inbox */
    struct okv_handshake_list inbox;     /* those that were added */
    struct okv_handshake_list under_way; /* the thread's, oldest first */
};

/* Starts the thread. OKV_EIO: there are no descriptors; what okv_thread_start() returns. */
int okv_handshakes_start(struct okv_handshakes *handshakes, const struct okv_handshakes_ops *ops,
                         void *user, struct okv_diag *why);
/* Begins with one, whose `stream` is set and stays where it is. Any thread. */
void okv_handshakes_add(struct okv_handshakes *handshakes, struct okv_handshake *handshake);
/* Ends all that are under way, and the thread. None is added any more. */
void okv_handshakes_stop(struct okv_handshakes *handshakes);

#endif
