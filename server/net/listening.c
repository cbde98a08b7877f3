#include "server/net/listening.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "server/database/database.h"
#include "shared/base/error.h"
#include "shared/transport/common/pending.h"

_Static_assert(OKV_DATABASES_MAX <= OKV_REGIONS_MAX, "each database is a region of each listener");

/* Naps are counted, because a slow machine is slow to end the old server too. */
#define NAPS_MAX 100
#define NAP_NS 20000000

static void log_waiting(struct okv_server *server, const struct okv_uri *uri)
{
    const char *format = strchr(uri->host, ':') ? "%s://[%s]:%s" : "%s://%s:%s";
    const char *scheme = uri->scheme == OKV_SCHEME_OFI ? "ofi" : "rdma";
    char where[sizeof uri->host + sizeof uri->port + 16];
    char text[sizeof where + 80];

    if (uri->scheme == OKV_SCHEME_LOCAL)
        snprintf(where, sizeof where, "local://%s", uri->path);
    else
        snprintf(where, sizeof where, format, scheme, uri->host, uri->port);
    snprintf(text, sizeof text, "%s is in use: waiting up to 2 s for a server that may be ending",
             where);
    okv_log_line(&server->log, OKV_LOG_NOTICE, "listener", okv_clock_ns(), text);
}

void okv_server_set_patience(struct okv_listener *listener, const struct okv_config *config)
{
    struct okv_pending *pending = listener->pending;
    uint64_t hello_ns = config->hello_ms * UINT64_C(1000000);

    if (!pending)
        return;
    pending->max = config->max_silent;
    pending->silence_ns = hello_ns ? hello_ns : pending->usual_silence_ns;
}

int okv_server_listen(struct okv_server *server, const struct okv_transport_ops *ops,
                      const struct okv_uri *uri, struct okv_listener **out, struct okv_diag *diag)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    struct okv_region regions[OKV_REGIONS_MAX];

    for (unsigned i = 0; i < server->database_count; i++)
        regions[i] = server->databases[i].region;
    int rc = ops->listen(uri, regions, server->database_count, out, diag);

    if (rc == OKV_EAGAIN)
        log_waiting(server, uri);
    for (int naps = 0; rc == OKV_EAGAIN && naps < NAPS_MAX; naps++) {
        nanosleep(&nap, NULL);
        rc = ops->listen(uri, regions, server->database_count, out, diag);
    }
    if (rc == 0)
        okv_server_set_patience(*out, &server->config);
    return rc;
}
