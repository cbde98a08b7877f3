/*
 * The server's metrics over HTTP, for Prometheus and for supervisors: /metrics (text format 0.0.4,
 * https://prometheus.io/docs/instrumenting/exposition_formats/; without the databases while the
 * server does not serve), /healthz (200 as long as the process runs) and /readyz (200 while it
 * serves, else 503). On a thread of its own.
 */
#ifndef OKV_SERVER_METRICS_METRICS_H
#define OKV_SERVER_METRICS_METRICS_H

#include <pthread.h>
#include <stdbool.h>

#include "server/metrics/scrapers.h"
#include "shared/base/diag.h"
#include "shared/base/entrance.h"

struct okv_server;

struct okv_metrics {
    struct okv_server *server;
    struct MHD_Daemon *daemon; /* NULL: without --metrics */
    pthread_t thread;
    int stop_fd; /* an eventfd: the thread is to end */
    int sock;
    struct okv_entrance entrance; /* of `sock` */
    char where[128];              /* of the page */
    struct okv_scrapers scrapers;
    pthread_mutex_t lock;
    bool is_ready; /* under the lock */
};

/* Listens where the configuration says, if it does; port 0: any that is free. Logs where that is.
 * The metrics of databases are read while is_ready only. A port in use is waited for
 * (okv_takeover_wait()). OKV_EIO, OKV_ENOMEM; what okv_resolve(), okv_bind_failed() and
 * okv_thread_start() return. */
int okv_metrics_start(struct okv_metrics *metrics, struct okv_server *server,
                      struct okv_diag *diag);
/* Blocks while a page is rendered. With false, no metric of a database is read after this call. */
void okv_metrics_set_ready(struct okv_metrics *metrics, bool is_ready);
void okv_metrics_stop(struct okv_metrics *metrics);

#endif
