/*
 * What the threads of a server share.
 *
 *   main      set-up and tear-down, waits for signals
 *   acceptor  drives the listeners (acceptor.c)
 *   workers   each drives its endpoints and owns its sessions (worker.c)
 */
#ifndef OKV_SERVER_SERVER_H
#define OKV_SERVER_SERVER_H

#include <signal.h>
#include <stdatomic.h>

#include "server/config.h"
#include "server/log.h"
#include "server/net/admission.h"
#include "server/session/reply_cache.h"
#include "server/stats.h"
#include "server/store/store.h"
#include "shared/base/clock.h"
#include "shared/transport/transport.h"

struct okv_worker;

struct okv_server {
    struct okv_config config;
    struct okv_region region;
    struct okv_store store;
    struct okv_stats stats;
    struct okv_admission admission;
    struct okv_reply_caches reply_caches;
    struct okv_log log;
    uint64_t clock_origin_ms; /* okv_clock_boot_ms() when the server's clock was 0 */
    struct okv_message_limits limits;

    unsigned listener_count;
    struct okv_listener *listeners[OKV_LISTENERS_MAX];
    struct okv_worker *workers;    /* config.workers */
    atomic_bool housekeeper_rests; /* the first worker sleeps and knows of nothing to be kept */
    atomic_bool stopping;          /* no new clients, end the others */
    atomic_uint failed_listener;   /* whose device failed first: index + 1; 0 */
    atomic_int failure;            /* why it can serve no longer; 0. Written after the one above */
};

/* The server's clock, which expiries are stated on: ms, at least 1, never set back. Any thread. */
static inline uint64_t okv_server_clock_ms(const struct okv_server *server)
{
    return okv_clock_boot_ms() - server->clock_origin_ms;
}

/* What wakes main then: blocked in every thread, and taken by sigwait() alone. */
#define OKV_SERVER_FAILED_SIGNAL SIGUSR1

/* Says that a listener or its endpoint failed: main ends the server and says so.
 * The first failure counts. Any thread. */
void okv_server_fail(struct okv_server *server, unsigned listener, int code);

#endif
