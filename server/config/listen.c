#include "server/config/listen.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>

#include "server/config/settings.h"
#include "shared/base/default_uri.h"
#include "shared/base/error.h"
#include "shared/transport/transport.h"

bool okv_config_is_loopback(const char *host)
{
    struct in6_addr in6;
    struct in_addr in;

    if (inet_pton(AF_INET, host, &in) == 1)
        return ntohl(in.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
    return inet_pton(AF_INET6, host, &in6) == 1 && IN6_IS_ADDR_LOOPBACK(&in6);
}

/* RDMA devices have none. */
static bool has_loopback(const struct okv_uri *uri)
{
    return uri->scheme != OKV_SCHEME_RDMA && uri->host[0] && okv_config_is_loopback(uri->host);
}

static bool is_reachable(const struct okv_uri *uri)
{
    return uri->scheme == OKV_SCHEME_RDMA ||
           (uri->scheme != OKV_SCHEME_LOCAL && uri->host[0] && !has_loopback(uri));
}

/* All but those of RDMA, which has ports of its own. */
static bool has_tcp_port(const struct okv_uri *uri)
{
    return uri->scheme != OKV_SCHEME_RDMA && uri->host[0];
}

bool okv_config_is_same_place(const struct okv_uri *one, const struct okv_uri *other)
{
    if (one->path[0])
        return strcmp(one->path, other->path) == 0;
    if (has_tcp_port(one) && has_tcp_port(other))
        return strcmp(one->host, other->host) == 0 && strcmp(one->port, other->port) == 0;
    return one->scheme == other->scheme && strcmp(one->host, other->host) == 0 &&
           strcmp(one->port, other->port) == 0 && strcmp(one->device, other->device) == 0 &&
           one->port_number == other->port_number && one->has_gid == other->has_gid &&
           one->gid == other->gid;
}

static bool is_listed(const struct okv_config *config, const struct okv_uri *uri)
{
    for (unsigned i = 0; i < config->listen_count; i++)
        if (okv_config_is_same_place(uri, &config->listen[i]))
            return true;
    for (unsigned i = 0; i < config->resp_count; i++)
        if (okv_config_is_same_place(uri, &config->resp[i]))
            return true;
    return false;
}

/* Adds a URI to those of its kind. False: there are too many. */
static bool add_listen(struct okv_config *config, const struct okv_uri *uri)
{
    if (uri->scheme == OKV_SCHEME_RESP) {
        if (config->resp_count == OKV_RESP_LISTENERS_MAX)
            return false;
        config->resp[config->resp_count++] = *uri;
        return true;
    }
    if (config->listen_count == OKV_LISTENERS_MAX)
        return false;
    config->listen[config->listen_count++] = *uri;
    return true;
}

int okv_config_listen_add(const struct okv_option *option, const char *text, void *fields,
                          struct okv_diag *why)
{
    struct okv_config *config = fields;
    struct okv_uri uri;

    (void)option;
    if (okv_uri_parse(text, &uri, why))
        return OKV_EINVAL;
    if (uri.name[0])
        return okv_diag_set(why, OKV_EINVAL,
                            "this is for clients; name an address, and the server with "
                            "--announce --name");
    if (uri.source[0])
        return okv_diag_set(why, OKV_EINVAL, "'source' is for clients; name the address itself");
    if (uri.of_tls.ca[0] || uri.of_tls.cert[0] || uri.of_tls.key[0] || uri.of_tls.server_name[0])
        return okv_diag_set(why, OKV_EINVAL,
                            "'ca', 'cert', 'key' and 'server-name' are for clients; name the "
                            "server's with --tls-cert, --tls-key and --tls-ca");
    if (uri.has_tos)
        return okv_diag_set(why, OKV_EINVAL,
                            "'tos' is for clients: answers have the class of their connection");
    if (uri.database[0])
        return okv_diag_set(why, OKV_EINVAL, "'database' is for clients; make one with --database");
    if (is_listed(config, &uri))
        return okv_diag_set(why, OKV_EINVAL,
                            "another --listen has the same place: leave one of them out");
    if (!add_listen(config, &uri))
        return okv_diag_set(why, OKV_EINVAL, ": at most %d URIs, and %d of resp://",
                            OKV_LISTENERS_MAX, OKV_RESP_LISTENERS_MAX);
    if (is_reachable(&uri))
        config->reachable = text;
    if (has_loopback(&uri))
        config->loopback = text;
    return 0;
}

void okv_config_check_reach(const struct okv_config *config, struct okv_settings *settings)
{
    const char *scheme = config->reachable ? config->reachable : "";

    if (strncmp(scheme, "rdma:", 5) == 0) /* which has no loopback */
        scheme = "tcp:";
    if (config->reachable && !config->is_open && !config->users)
        okv_config_error(
            settings,
            "--listen %s: other hosts may reach it, and anyone who does can read, write and "
            "flush everything: name who may with --users, or give --open if all may, or "
            "listen on local:///PATH, or on a loopback address, such as %.*s://127.0.0.1, if all "
            "users of this host may",
            config->reachable, (int)strcspn(scheme, ":"), scheme);
}

void okv_config_listen_by_default(struct okv_config *config)
{
    char text[OKV_DEFAULT_URI_TEXT];

    okv_default_uri(text, sizeof text);
    if (okv_uri_parse(text, &config->listen[0], NULL) == 0)
        config->listen_count = 1;
}
