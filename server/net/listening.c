#include "server/net/listening.h"

#include <stdio.h>
#include <string.h>

#include "server/core/certificates.h"
#include "server/core/takeover.h"
#include "server/database/database.h"
#include "shared/base/error.h"
#include "shared/base/uri_part.h"
#include "shared/transport/common/pending.h"

_Static_assert(OKV_DATABASES_MAX <= OKV_REGIONS_MAX, "each database is a region of each listener");

#define WHERE_SIZE (sizeof((struct okv_uri *)0)->host + sizeof((struct okv_uri *)0)->port + 16)

static const char *describe(const struct okv_uri *uri, char where[WHERE_SIZE])
{
    const char *format = strchr(uri->host, ':') ? "%s://[%s]:%s" : "%s://%s:%s";

    if (uri->scheme == OKV_SCHEME_LOCAL)
        snprintf(where, WHERE_SIZE, "local://%s", uri->path);
    else
        snprintf(where, WHERE_SIZE, format, okv_uri_scheme_name(uri), uri->host, uri->port);
    return where;
}

/* Puts the option in front of what is wrong. A path is in the sentence already. Returns `rc`. */
static int name_option(const struct okv_uri *uri, int rc, struct okv_diag *diag)
{
    char where[WHERE_SIZE], option[WHERE_SIZE + 16];

    if (uri->scheme == OKV_SCHEME_LOCAL)
        return rc;
    snprintf(option, sizeof option, "--listen %s", describe(uri, where));
    okv_diag_begin(diag, option);
    return rc;
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

static int listen_at(struct okv_server *server, const struct okv_transport_ops *ops,
                     const struct okv_uri *uri, struct okv_listener **out, struct okv_diag *diag)
{
    struct okv_region regions[OKV_REGIONS_MAX];

    for (unsigned i = 0; i < server->database_count; i++)
        regions[i] = server->databases[i].region;
    return ops->listen(uri, regions, server->database_count, out, diag);
}

int okv_server_listen(struct okv_server *server, const struct okv_transport_ops *ops,
                      const struct okv_uri *uri, struct okv_listener **out, struct okv_diag *diag)
{
    struct okv_takeover takeover = {&server->log, "listener", 0};
    char where[WHERE_SIZE];
    struct okv_tls *tls = NULL;
    int rc = uri->tls ? okv_certificates_open(server, OKV_TLS_TCPS, &tls, diag) : 0;

    if (rc)
        return rc;
    do
        rc = listen_at(server, ops, uri, out, diag);
    while (rc == OKV_EAGAIN && okv_takeover_wait(&takeover, describe(uri, where)));
    if (rc)
        return name_option(uri, rc, diag);
    (*out)->tls = tls;
    okv_server_set_patience(*out, &server->config);
    return 0;
}

int okv_server_listen_now(struct okv_server *server, const struct okv_uri *uri,
                          struct okv_listener **out, struct okv_diag *diag)
{
    int rc = listen_at(server, okv_transport_for(uri->scheme), uri, out, diag);

    if (rc == 0)
        (*out)->tls = uri->tls ? server->tls[OKV_TLS_TCPS] : NULL;
    return rc;
}
