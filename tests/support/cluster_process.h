/* A cluster of okv-servers as child processes, with an etcd of their own. Servers are numbered from
 * 0. For tests whose program requires etcd (etcd_process_require). */
#ifndef OKV_TESTS_CLUSTER_PROCESS_H
#define OKV_TESTS_CLUSTER_PROCESS_H

#include <stdbool.h>

#include <okv.h>

#include "tests/support/etcd_process.h"
#include "tests/support/server_process.h"

#define CLUSTER_SERVERS_MAX 3

/* Set before the start. */
struct cluster_options {
    const char *scheme;  /* by which servers and clients reach servers: "tcp", "tcps", "rdma"; NULL:
                            local */
    const char *host;    /* with a scheme; NULL: 127.0.0.1 */
    bool has_files;      /* else the databases are in memory */
    bool has_two;        /* databases, `other` beside `default` */
    bool has_logs;       /* in `directory`: log0, log1 and so on; else on standard error */
    bool etcd_has_tls;   /* as etcd_process_start() has it */
    bool etcd_has_three; /* members, else one */
    unsigned copies_min; /* 0: as it is by itself, 1 */
    int clock_ppm;       /* the lease clocks of servers 0, 1, 2 are slow by that, right, and fast.
                            Not with a sanitizer */
};

struct cluster_process {
    struct cluster_options options;
    unsigned count;
    const char *memory;
    uint32_t lease_ms;
    const char *database; /* that the functions are about; NULL: `default` */
    char directory[64];   /* of the sockets, and of the files: d0, d1 and so on */
    char uri[320];        /* for clients: okv://... */
    struct etcd_process etcd;
    struct server_process servers[CLUSTER_SERVERS_MAX];
    /* From the preparation on: what else each server is told, NULL-terminated, or NULL; and what
     * the handles of the functions are opened with. */
    const char *const *arguments[CLUSTER_SERVERS_MAX];
    struct okv_options client;
    okv *observers[CLUSTER_SERVERS_MAX]; /* whom orders and questions go to */
    bool stands[CLUSTER_SERVERS_MAX];    /* not to be asked */
    char ids[CLUSTER_SERVERS_MAX][20];   /* as reports have them; "": not known yet */
    uint64_t epochs[2];                  /* the latest of `default`, and of the other database */
};

/* Returns when all copies are in sync, with a lease of as many ms on a fast machine. All of
 * *cluster but its options is set anew. */
void cluster_process_start(struct cluster_process *cluster, unsigned count, const char *memory,
                           uint32_t lease_ms);
/* What the start does, step by step: etcd and the places of the servers; the servers; the order to
 * create the cluster, by server 0, in an etcd that does not have it. */
void cluster_process_prepare(struct cluster_process *cluster, unsigned count, const char *memory,
                             uint32_t lease_ms);
void cluster_process_run(struct cluster_process *cluster);
void cluster_process_order_creation(struct cluster_process *cluster);
/* The same; returns when all are in sync. */
void cluster_process_create(struct cluster_process *cluster);
/* Also after a start that failed. */
void cluster_process_stop(struct cluster_process *cluster);

/* To its database. */
okv *cluster_process_connect(const struct cluster_process *cluster);

/* At the place that it had, with its files, if it has any. */
void cluster_process_restart(struct cluster_process *cluster, unsigned server);
/* SIGKILL, SIGSTOP or SIGCONT. */
void cluster_process_signal(struct cluster_process *cluster, unsigned server, int signal);

/* Waits until one server says that it leads. */
unsigned cluster_process_leader(struct cluster_process *cluster);
/* The same, and the epoch that it leads. */
unsigned cluster_process_leader_in(struct cluster_process *cluster, uint64_t *epoch);
/* Whether one says so now. */
bool cluster_process_is_led(struct cluster_process *cluster);
/* Whether the primary has that server in its set, and a connection to it. */
bool cluster_process_is_in_sync(struct cluster_process *cluster, unsigned server);
/* Waits until that is so, or until it is not in the set any more. */
void cluster_process_await(struct cluster_process *cluster, unsigned server, bool in_sync);
/* Returns when that server leads. */
void cluster_process_hand_over(struct cluster_process *cluster, unsigned to);
/* With `has_logs`: waits until the log of that server has the text. */
void cluster_process_await_log(struct cluster_process *cluster, unsigned server, const char *text);

#endif
