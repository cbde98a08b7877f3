#include "client/connection/servers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/connection/tls_files.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/random.h"
#include "shared/base/uri_part.h"
#include "shared/transport/transport.h"

/* An attempt to reach one of several servers: another one may be the primary. When no server has
 * answered within this time, all of them get twice as much. */
#define LIMIT_FIRST_NS UINT64_C(500000000)
#define PATIENCE_MAX 4

uint64_t servers_limit_ns(const struct link *link, uint64_t limit_ns)
{
    uint64_t shorter_ns = LIMIT_FIRST_NS << link->servers.patience;

    return servers_are_many(link) && shorter_ns < limit_ns ? shorter_ns : limit_ns;
}

void servers_heed(struct link *link, const uint8_t *rejection, size_t length)
{
    struct servers *servers = &link->servers;

    if (okv_not_primary_decode(rejection, length, servers->named))
        servers->named[0] = '\0';
}

static void forget_avoided(struct servers *servers)
{
    free(servers->avoided);
    servers->avoided = NULL;
}

void servers_avoid(struct link *link, uint64_t ns)
{
    forget_avoided(&link->servers);
    link->servers.avoided = strdup(link->uri_text);
    link->servers.avoid_until_ns = okv_clock_ns() + ns;
}

static bool avoids(const struct servers *servers)
{
    return servers->avoided && okv_clock_ns() < servers->avoid_until_ns;
}

static bool is_avoided(const struct servers *servers, const char *server)
{
    char *text = avoids(servers) ? okv_uri_list_server(&servers->list, server) : NULL;
    bool is_same = text && strcmp(text, servers->avoided) == 0;

    free(text);
    return is_same;
}

/* The next attempt goes to `server`. False: it does not stand for a URI. */
static bool take(struct link *link, const char *server)
{
    struct servers *servers = &link->servers;
    char *text = okv_uri_list_server(&servers->list, server);
    struct okv_uri uri;

    if (!text || okv_uri_parse(text, &uri, NULL)) {
        free(text);
        return false;
    }
    if (strcmp(text, link->uri_text) == 0) {
        free(text);
        return true;
    }
    memcpy(uri.database, servers->database, sizeof uri.database);
    uri.of_tls = servers->of_tls;
    tls_server_name_choose(&uri);
    free(link->uri_text);
    link->uri_text = text;
    link->uri = uri;
    link->address[0] = '\0';
    return true;
}

/* What a copy says is believed once between two pauses: copies may name each other. While a server
 * is avoided, they are likely to name that one. */
static bool take_named(struct link *link)
{
    struct servers *servers = &link->servers;
    bool is_taken = servers->named[0] && !servers->has_followed && !avoids(servers) &&
                    take(link, servers->named);

    servers->has_followed |= is_taken;
    servers->named[0] = '\0';
    return is_taken;
}

/* The next in turn. True: since the last pause all were asked. */
static bool take_turn(struct link *link)
{
    struct servers *servers = &link->servers;
    unsigned steps = 0;
    bool is_over = false;

    do {
        servers->at = (servers->at + 1) % servers->list.count;
        is_over |= ++servers->asked >= servers->list.count;
    } while (++steps < servers->list.count &&
             is_avoided(servers, servers->list.servers[servers->at]));
    take(link, servers->list.servers[servers->at]);
    return is_over;
}

static void end_round(struct servers *servers)
{
    if (servers->was_answered)
        servers->patience = 0;
    else if (servers->patience < PATIENCE_MAX)
        servers->patience++;
    servers->asked = 0;
    servers->has_followed = servers->was_answered = false;
}

bool servers_next(okv *handle, int rc)
{
    struct link *link = &handle->link;
    struct servers *servers = &link->servers;

    if (!servers_are_many(link))
        return true;
    servers->was_answered |= rc != OKV_ETIMEDOUT;
    if (take_named(link))
        return false;
    bool is_over = take_turn(link);
    if (is_over)
        end_round(servers);
    return is_over;
}

void servers_found(okv *handle)
{
    const struct okv_uri *uri = &handle->link.uri;
    struct servers *servers = &handle->link.servers;
    const char *scheme = okv_uri_scheme_name(uri);
    bool is_ipv6 = strchr(uri->host, ':') != NULL;

    servers->asked = servers->patience = 0;
    servers->has_followed = servers->was_answered = false;
    forget_avoided(servers);
    if (uri->path[0])
        snprintf(handle->server, sizeof handle->server, "%s://%s", scheme, uri->path);
    else if (uri->name[0])
        snprintf(handle->server, sizeof handle->server, "%s://discover/%s", scheme, uri->name);
    else
        snprintf(handle->server, sizeof handle->server, is_ipv6 ? "%s://[%s]:%s" : "%s://%s:%s",
                 scheme, uri->host, uri->port);
}

/* ---- opening ---- */

/* Takes the database of the options, unless the URI names one. */
static int choose_database(okv *handle, const char name[OKV_NAME_SIZE])
{
    struct okv_uri *uri = &handle->link.uri;

    if (!name[0] || uri->database[0])
        return 0;
    if (!memchr(name, '\0', OKV_NAME_SIZE) || !okv_name_is_valid(name))
        return okv_diag_set(&handle->why, OKV_EINVAL,
                            "options->database: \"%.32s\" is not " OKV_NAME_RULE, name);
    memcpy(uri->database, name, OKV_NAME_SIZE);
    return 0;
}

static int check_scheme(okv *handle, const char *text)
{
    const struct okv_uri *uri = &handle->link.uri;

    if (uri->any_uid || uri->mode)
        return okv_diag_set(&handle->why, OKV_EURI,
                            "%s is for the --listen of a server: leave it out of \"%.100s\"",
                            uri->any_uid ? "uids" : "mode", text);
    if (uri->scheme == OKV_SCHEME_RESP)
        return okv_diag_set(
            &handle->why, OKV_EURI,
            "%.100s is for clients of Redis: give one of the server's other listeners", text);
    return 0;
}

/* Clients that begin with different servers spread over them. */
static int choose_first(okv *handle)
{
    struct link *link = &handle->link;
    struct servers *servers = &link->servers;

    servers->at = (unsigned)((okv_random_next(&link->random) >> 32) % servers->list.count);
    link->uri_text = okv_uri_list_server(&servers->list, servers->list.servers[servers->at]);
    if (!link->uri_text)
        return OKV_ENOMEM;
    return okv_uri_parse(link->uri_text, &link->uri, &handle->why);
}

int servers_init(okv *handle, const char *uri, const struct okv_options *options)
{
    struct link *link = &handle->link;
    struct servers *servers = &link->servers;
    int rc = okv_uri_list_parse(uri, &servers->list, &handle->why);

    if (rc == 0)
        rc = choose_first(handle);
    if (rc == 0)
        rc = check_scheme(handle, uri);
    if (rc == 0)
        rc = choose_database(handle, options->database);
    if (rc == 0)
        rc = tls_files_choose(handle, options);
    if (rc)
        return rc;
    memcpy(servers->database, link->uri.database, sizeof servers->database);
    servers->of_tls = link->uri.of_tls;
    tls_server_name_choose(&link->uri);
    return 0;
}

void servers_fini(okv *handle)
{
    free(handle->link.uri_text);
    forget_avoided(&handle->link.servers);
    okv_uri_list_free(&handle->link.servers.list);
}
