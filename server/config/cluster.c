#include "server/config/cluster.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "server/config/listen.h"
#include "server/config/option_table.h"
#include "server/core/etcd_url.h"
#include "shared/base/error.h"

#define SHOWN_MAX 100

/* ---- --etcd ---- */

/* Reads the first of `urls` and returns the place of the next one; NULL: it was the last. */
static const char *next_url(const char *urls, struct okv_etcd_url *out, struct okv_diag *why,
                            int *rc)
{
    size_t length = strcspn(urls, ",");

    *rc = okv_etcd_url_parse(urls, length, out, why);
    return urls[length] ? urls + length + 1 : NULL;
}

int okv_config_etcd(const struct okv_option *option, const char *text, void *fields,
                    struct okv_diag *why)
{
    struct okv_config *config = fields;
    struct okv_etcd_url url;
    unsigned count = 0;
    int rc = 0;

    (void)option;
    for (const char *at = text; at && rc == 0; count++)
        at = next_url(at, &url, why, &rc);
    if (rc == 0 && count > OKV_ETCD_MEMBERS_MAX)
        rc = okv_diag_set(why, OKV_EINVAL, "give at most %d members", OKV_ETCD_MEMBERS_MAX);
    config->cluster.etcd = text;
    return rc;
}

/* A client of etcd that may write decides which server has the data. */
static void check_etcd(const struct okv_config *config, struct okv_settings *settings)
{
    const struct okv_cluster_config *cluster = &config->cluster;
    struct okv_etcd_url url;
    bool has_tls = false;
    int rc;

    for (const char *at = cluster->etcd, *next; at; at = next) {
        next = next_url(at, &url, NULL, &rc);
        has_tls |= url.tls;
        if (!url.tls && !okv_config_is_loopback(url.host) && !config->is_open)
            okv_config_error(settings,
                             "--etcd %.*s: without TLS, anyone on the path to it decides "
                             "which server has the data: give https://, or --open if all may",
                             (int)strcspn(at, ","), at);
    }
    if (!has_tls && (cluster->etcd_ca || cluster->etcd_cert))
        okv_config_error(settings, "--etcd-%s: it is for https://, and --etcd %.*s has none",
                         cluster->etcd_ca ? "ca" : "cert", SHOWN_MAX, cluster->etcd);
}

/* ---- --advertise ---- */

static bool is_any_address(const char *host)
{
    struct in6_addr in6;
    struct in_addr in;

    if (inet_pton(AF_INET, host, &in) == 1)
        return in.s_addr == htonl(INADDR_ANY);
    return strcmp(host, "*") == 0 ||
           (inet_pton(AF_INET6, host, &in6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&in6));
}

static bool is_advertised(const struct okv_cluster_config *cluster, const struct okv_uri *uri)
{
    for (unsigned i = 0; i < cluster->advertise_count; i++)
        if (okv_config_is_same_place(uri, &cluster->advertise[i]))
            return true;
    return false;
}

int okv_config_advertise(const struct okv_option *option, const char *text, void *fields,
                         struct okv_diag *why)
{
    struct okv_cluster_config *cluster = &((struct okv_config *)fields)->cluster;
    struct okv_uri uri;

    (void)option;
    if (okv_uri_parse(text, &uri, why))
        return OKV_EINVAL;
    if (uri.name[0] || is_any_address(uri.host))
        return okv_diag_set(why, OKV_EINVAL,
                            "name one address, such as tcp://10.0.0.1: others take it as it is");
    if (strchr(text, '?'))
        return okv_diag_set(why, OKV_EINVAL,
                            "leave out the ? and what follows: clients give that themselves");
    if (is_advertised(cluster, &uri))
        return okv_diag_set(why, OKV_EINVAL,
                            "another --advertise has the same place: leave one of them out");
    if (cluster->advertise_count == OKV_ADVERTISED_MAX)
        return okv_diag_set(why, OKV_EINVAL, ": at most %d URIs", OKV_ADVERTISED_MAX);
    cluster->advertise_texts[cluster->advertise_count] = text;
    cluster->advertise[cluster->advertise_count++] = uri;
    return 0;
}

static void check_advertised(const struct okv_cluster_config *cluster,
                             struct okv_settings *settings)
{
    for (unsigned i = 0; i < cluster->advertise_count; i++)
        if (cluster->advertise[i].scheme != OKV_SCHEME_RESP)
            return;
    okv_config_error(settings,
                     "--cluster %s: say where clients and the other servers reach this one with "
                     "--advertise URI, such as tcp://10.0.0.1%s",
                     cluster->name,
                     cluster->advertise_count ? ": resp:// and resps:// are for clients of Redis"
                                              : "");
}

/* ---- rules about several options ---- */

static void check_without_cluster(struct okv_settings *settings)
{
    for (unsigned i = 0; i < settings->count; i++) {
        const struct okv_option *option = settings->list[i].option;
        if (option->group == OKV_OPTION_GROUP_CLUSTER)
            okv_config_error(settings, "--%s %.*s: it needs --cluster, too", option->name,
                             SHOWN_MAX, settings->list[i].text);
    }
}

static void check_pair(bool has_one, bool has_other, const char *names,
                       struct okv_settings *settings)
{
    if (has_one != has_other)
        okv_config_error(settings, "%s: give both, or none of them", names);
}

static void check_users(const struct okv_config *config, struct okv_settings *settings)
{
    const struct okv_cluster_config *cluster = &config->cluster;

    if (config->users && !cluster->peer_user[0])
        okv_config_error(settings,
                         "--cluster %s: with --users the other servers ask who this one is: give "
                         "--peer-user and --peer-key",
                         cluster->name);
    if (!config->users && !config->is_open)
        okv_config_error(settings,
                         "--cluster %s: without --users anyone who reaches this server may act as "
                         "another one of the cluster: give --users, or --open if all may",
                         cluster->name);
}

void okv_config_check_cluster(const struct okv_config *config, struct okv_settings *settings)
{
    const struct okv_cluster_config *cluster = &config->cluster;

    if (!cluster->name[0]) {
        check_without_cluster(settings);
        return;
    }
    if (!cluster->etcd)
        okv_config_error(settings,
                         "--cluster %s: say where etcd is with --etcd URLS, such as "
                         "https://10.0.0.1:2379,https://10.0.0.2:2379",
                         cluster->name);
    else
        check_etcd(config, settings);
    check_pair(cluster->etcd_cert, cluster->etcd_key, "--etcd-cert and --etcd-key", settings);
    check_pair(cluster->etcd_user, cluster->etcd_password_file,
               "--etcd-user and --etcd-password-file", settings);
    check_advertised(cluster, settings);
    check_pair(cluster->peer_user[0], cluster->peer_key, "--peer-user and --peer-key", settings);
    check_users(config, settings);
    if (config->restore)
        okv_config_error(settings,
                         "--restore %s: the cluster's other servers have not what it brings: "
                         "restore without --cluster, then start with it",
                         config->restore);
}
