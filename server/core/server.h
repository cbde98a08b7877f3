/*
 * The state of a server, which its threads share.
 *
 *   main      sets up, waits for signals, tears down (main/)
 *   acceptor  drives the listeners and admits clients (net/acceptor.c)
 *   announcer answers clients that look for servers (net/announcer.c)
 *   workers   drive their endpoints and serve their sessions (worker/)
 *   metrics   answers HTTP requests (metrics/)
 *
 * Each durable database has threads of its log, too (wal/); docs/threads.md lists all of them.
 * server/README.md has the rooms of the server. The state of each is behind a pointer, so that this
 * header includes none of them.
 */
#ifndef OKV_SERVER_CORE_SERVER_H
#define OKV_SERVER_CORE_SERVER_H

#include <signal.h>
#include <stdatomic.h>

#include "server/config/config.h"
#include "server/core/log.h"
#include "server/metrics/stats.h"
#include "shared/base/clock.h"
#include "shared/base/entrance.h"
#include "shared/stream/stream.h"
#include "shared/transport/transport.h"

struct okv_admission;
struct okv_announcer;
struct okv_authority;
struct okv_database;
struct okv_door;
struct okv_exclusive;
struct okv_host;
struct okv_metrics;
struct okv_notify;
struct okv_peer_inbox;
struct okv_resp_shared;
struct okv_server;
struct okv_client_table;
struct okv_cluster_files;
struct okv_copies;
struct okv_worker;

/* A socket whose connections a front end accepts, on the acceptor's thread. */
struct okv_socket_listener {
    int fd;            /* readable when `admit` has something to do */
    const char *where; /* its URI, with the port that it has */
    const char *how;   /* what it is for, in words */
    void (*admit)(struct okv_server *server, void *listener); /* some of those that wait */
    void *listener;
};

/* How other threads reach a worker. */
struct okv_worker_signal {
    int fd; /* an eventfd, which ends its sleep */
    /* Clients are to end: replaced, killed, or perhaps without rights. By enum okv_client_kind. */
    atomic_bool has_unwanted[2];
};

struct okv_server {
    struct okv_config config;
    uint64_t boot_id; /* random, never 0; of all its databases */
    unsigned database_count;
    struct okv_database *databases; /* [database_count] */
    struct okv_stats stats;
    const char *database_names[OKV_DATABASES_MAX];
    struct okv_authority *authority; /* the acceptor's; empty without --users */
    int acceptor_fd;                 /* an eventfd that wakes it */
    atomic_bool reload_is_asked;     /* by an administrator, and not done yet */
    struct okv_admission *admission;
    struct okv_client_table *clients;
    struct okv_host *host;
    const struct okv_cluster_files *cluster_files; /* while it serves */
    struct okv_copies *copies;                     /* NULL: it is no member of a cluster */
    struct okv_peer_inbox *peer_inbox;             /* likewise */
    /* How often it stopped to lead a database: Redis' clients of before are ended. */
    atomic_uint_fast64_t role_changes;
    struct okv_log log;
    struct okv_metrics *metrics;
    struct okv_notify *notify;
    uint64_t start_ms; /* okv_clock_boot_ms() when the process began */
    /* The same at 0 of the server's clock, which goes on over restarts, and in a cluster from one
     * primary to the next. */
    atomic_uint_fast64_t clock_origin_ms;
    /* In a cluster: when etcd answered last, by okv_clock_lease_us(). */
    atomic_uint_fast64_t etcd_answered_us;
    atomic_uint_fast64_t cluster_late_us;
    atomic_int_fast64_t wall_offset_ms; /* as last read: okv_server_wall_offset_ms() */
    struct okv_message_limits limits;

    unsigned listener_count;
    struct okv_listener *listeners[OKV_LISTENERS_MAX]; /* NULL while its door has none */
    struct okv_door *doors;                            /* of each listener */
    /* The acceptor changes `listeners` under it, and other threads hold it while they read them. */
    pthread_mutex_t doors_lock;
    unsigned socket_count;
    struct okv_socket_listener sockets[OKV_RESP_LISTENERS_MAX];
    struct okv_resp_shared *resp_shared;
    struct okv_exclusive *exclusive; /* NULL: no command runs alone, as there is no RESP listener */
    struct okv_tls *tls[OKV_TLS_SERVER_USES]; /* NULL: no listener has this use (certificates.h) */
    struct okv_announcer *announcer;
    struct okv_worker *workers; /* config.workers */
    struct okv_worker_signal worker_signals[OKV_WORKERS_MAX];
    atomic_bool housekeeper_sleeps; /* the first worker sleeps, perhaps for ever */
    atomic_bool stopping;           /* reject new clients, end the others */
    atomic_bool end_is_asked;       /* by an administrator */
};

/* A server of zeros with the state of its subsystems, which their own functions set up. NULL: there
 * is no memory. */
struct okv_server *okv_server_create(void);
/* Accepts NULL. */
void okv_server_destroy(struct okv_server *server);

static inline uint64_t okv_server_uptime_ms(const struct okv_server *server)
{
    return okv_clock_boot_ms() - server->start_ms;
}

/* The server's clock, on which items expire: ms, at least 1, never set back. Any thread. */
static inline uint64_t okv_server_clock_ms(const struct okv_server *server)
{
    return okv_clock_boot_ms() -
           atomic_load_explicit(&server->clock_origin_ms, memory_order_relaxed);
}

/* Unix time at 0 of the server's clock, in ms: the same in each call, until a clock is set. Any
 * thread. */
int64_t okv_server_wall_offset_ms(struct okv_server *server);

/* Wakes main when an administrator asked the server to end. Every thread blocks it; main waits for
 * it with sigtimedwait(). */
#define OKV_SERVER_END_SIGNAL SIGUSR2

/* Ends a worker's sleep. Any thread. */
void okv_server_wake(struct okv_server *server, unsigned worker);
/* The same of all workers; `server` is a struct okv_server. Any thread. */
void okv_server_wake_all(void *server);
/* Makes a worker end clients of a kind (enum okv_client_kind) that are replaced, killed or have no
 * rights. Any thread. */
void okv_server_end_unwanted(struct okv_server *server, unsigned worker, unsigned kind);

/* Makes the acceptor read the users file again, at most once in a second for all who ask. Any
 * thread; returns at once. */
void okv_server_ask_reload(struct okv_server *server);

/* Makes main end the server as SIGTERM does. Any thread; returns at once. */
void okv_server_ask_end(struct okv_server *server);

/* Reports that a listener or one of its endpoints failed, as often as it is noticed. Its door then
 * closes (core/door.h). Any thread. */
void okv_server_fail(struct okv_server *server, unsigned listener, int code);

/* Logs that clients wait at an entrance, once for each shortage. Its thread calls when it has
 * accepted. */
void okv_server_log_shortage(struct okv_server *server, struct okv_entrance *entrance,
                             const char *where);

#endif
