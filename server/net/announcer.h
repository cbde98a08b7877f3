/*
 * Answers clients that look for servers: docs/discovery.md.
 *
 * It has a thread of its own. To answer by RDMA, the kernel may have to resolve the sender's
 * address, for up to a second. An answer names the listeners of the interface that the query came
 * by, so that it says nothing to a network that the server does not serve.
 */
#ifndef OKV_SERVER_NET_ANNOUNCER_H
#define OKV_SERVER_NET_ANNOUNCER_H

#include <pthread.h>

#include "shared/discovery/discovery.h"

struct okv_server;

/* The loopback interface, and each listener's at most. */
#define OKV_ANNOUNCER_PORTS_MAX 17
/* Answers a second, of all ports together, and how many of them may come at once. */
#define OKV_ANNOUNCER_RATE 500u
#define OKV_ANNOUNCER_BURST 100u

struct okv_announced_port {
    struct okv_discovery_port *port;
    struct in_addr interface;
    bool is_udp;                        /* else a queue pair of the interface's device */
    struct okv_discovery_answer answer; /* what stays the same of every answer */
};

struct okv_announcer {
    unsigned count; /* 0: this server is not announced */
    struct okv_announced_port ports[OKV_ANNOUNCER_PORTS_MAX];
    uint64_t next_ns; /* when the next answer is within the rate; earlier by up to a burst */
    pthread_t thread;
    int stop_fd;
};

/* Opens the ports of --announce, if it was given. The server listens already. On failure nothing is
 * open. */
int okv_announcer_open(struct okv_server *server, struct okv_diag *diag);
void okv_announcer_close(struct okv_announcer *announcer);

/* Starts the thread, if the server is announced. OKV_EIO; what okv_thread_start() returns. */
int okv_announcer_start(struct okv_server *server, struct okv_diag *why);
/* Waits until the thread has ended. server->stopping is set. */
void okv_announcer_stop(struct okv_announcer *announcer);

/* Answers what has come, a number of queries at most; true: there may be more. Only the thread
 * calls it while it runs. */
bool okv_announcer_serve(struct okv_server *server, uint64_t now_ns);

#endif
