#include "client/connection/tls_files.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/error.h"

/* Takes what an option says, unless the URI has said it. */
static int take(okv *handle, const char *name, const char *value, char *out, size_t size)
{
    if (out[0] || !value || !value[0])
        return 0;
    size_t length = strlen(value);
    if (length >= size)
        return okv_diag_set(&handle->why, OKV_EINVAL, "%s: it has %zu bytes, and at most %zu may",
                            name, length, size - 1);
    memcpy(out, value, length + 1);
    return 0;
}

int tls_files_choose(okv *handle, const struct okv_options *options)
{
    struct okv_uri *uri = &handle->link.uri;
    struct okv_uri_tls *of_tls = &uri->of_tls;

    if (uri->scheme != OKV_SCHEME_TCP || !uri->tls)
        return 0;
    int rc = take(handle, "options->tls_ca", options->tls_ca, of_tls->ca, sizeof of_tls->ca);
    if (rc == 0)
        rc = take(handle, "OKV_TLS_CA", secure_getenv("OKV_TLS_CA"), of_tls->ca, sizeof of_tls->ca);
    if (rc == 0)
        rc =
            take(handle, "options->tls_cert", options->tls_cert, of_tls->cert, sizeof of_tls->cert);
    if (rc == 0)
        rc = take(handle, "options->tls_key", options->tls_key, of_tls->key, sizeof of_tls->key);
    if (rc == 0)
        rc = take(handle, "options->tls_server_name", options->tls_server_name, of_tls->server_name,
                  sizeof of_tls->server_name);
    return rc;
}

/* An attempt may have an address in place of the host. An announced server has a certificate of its
 * name, since anyone can answer for the name with another address. */
void tls_server_name_choose(struct okv_uri *uri)
{
    char *name = uri->of_tls.server_name;

    _Static_assert(sizeof uri->of_tls.server_name >= sizeof uri->host, "a host fits");
    if (uri->tls && !name[0])
        strcpy(name, uri->name[0] ? uri->name : uri->host);
}
