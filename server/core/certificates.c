#include "server/core/certificates.h"

#include "server/core/server.h"
#include "shared/base/error.h"

static struct okv_tls_files files_of(const struct okv_config *config)
{
    return (struct okv_tls_files){config->tls_cert, config->tls_key, config->tls_ca};
}

int okv_certificates_open(struct okv_server *server, enum okv_tls_use use, struct okv_tls **out,
                          struct okv_diag *diag)
{
    const struct okv_tls_files files = files_of(&server->config);
    const char *scheme = use == OKV_TLS_TCPS ? "tcps" : "resps";
    int rc = 0;

    if (!files.cert || !files.key)
        return okv_diag_set(diag, OKV_EINVAL,
                            "%s://: name a certificate and its key with --tls-cert and --tls-key",
                            scheme);
    if (!server->tls[use])
        rc = okv_tls_create(use, &files, &server->tls[use], diag);
    *out = server->tls[use];
    return rc;
}

/* All of them first: a mistake is to change none. */
static int read_all(struct okv_server *server, struct okv_tls *fresh[OKV_TLS_SERVER_USES],
                    struct okv_diag *why)
{
    const struct okv_tls_files files = files_of(&server->config);
    int rc = 0;

    for (unsigned use = 0; use < OKV_TLS_SERVER_USES && rc == 0; use++)
        if (server->tls[use])
            rc = okv_tls_create(use, &files, &fresh[use], why);
    return rc;
}

bool okv_certificates_renew(struct okv_server *server)
{
    struct okv_tls *fresh[OKV_TLS_SERVER_USES] = {NULL};
    struct okv_diag why = {.text = ""};
    bool has_any = false;
    int rc = read_all(server, fresh, &why);

    for (unsigned use = 0; use < OKV_TLS_SERVER_USES; use++) {
        has_any |= server->tls[use] != NULL;
        if (rc == 0 && fresh[use])
            okv_tls_exchange(server->tls[use], fresh[use]);
        okv_tls_destroy(fresh[use]);
    }
    if (rc)
        okv_log_say(&server->log, OKV_LOG_WARNING, "config", "the certificate stays as it was: %s",
                    why.text);
    else if (has_any)
        okv_log_say(&server->log, OKV_LOG_NOTICE, "config", "certificate read from %.150s",
                    server->config.tls_cert);
    return has_any;
}

void okv_certificates_close(struct okv_server *server)
{
    for (unsigned use = 0; use < OKV_TLS_SERVER_USES; use++) {
        okv_tls_destroy(server->tls[use]);
        server->tls[use] = NULL;
    }
}
