#include "shared/base/uri_list.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/error.h"
#include "shared/base/uri_part.h"

#define PREFIX "okv://"
#define TRANSPORT "transport="
#define EXAMPLE PREFIX "10.0.0.1,10.0.0.2/NAME"

static bool is_path(const char *server)
{
    return server[0] == '/';
}

char *okv_uri_list_server(const struct okv_uri_list *list, const char *server)
{
    size_t length = strlen(list->scheme) + strlen(server) + strlen(list->options) + 1;
    bool is_of_paths = is_path(list->servers[0]);
    bool is_same_kind =
        is_path(server) == is_of_paths && !strpbrk(server, is_of_paths ? ",?" : ",?/");
    char *text = is_same_kind || !list->cluster[0] ? malloc(length) : NULL;

    if (text)
        strcat(strcat(strcpy(text, list->scheme), server), list->options);
    return text;
}

static int one_server(struct okv_uri_list *out, struct okv_diag *diag)
{
    struct okv_uri uri;

    out->scheme = out->options = "";
    out->servers[0] = out->text;
    out->count = 1;
    return okv_uri_parse(out->text, &uri, diag);
}

/* Takes transport=TRANSPORT out of the options, which follow "?" and have room for one. */
static int take_transport(char *options, const char **scheme, struct okv_diag *diag)
{
    static const char *const schemes[] = {"tcp://", "tcps://", "rdma://", "ofi://"};
    char *found = options[0] ? options : NULL;

    while (found && strncmp(found + 1, TRANSPORT, sizeof TRANSPORT - 1) != 0)
        found = strchr(found + 1, '&');
    if (!found)
        return 0;
    struct okv_uri_part value = {found + sizeof TRANSPORT, strcspn(found + sizeof TRANSPORT, "&")};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t length = strlen(schemes[i]) - strlen("://");
        if (value.length == length && memcmp(value.text, schemes[i], length) == 0)
            *scheme = schemes[i];
    }
    if (!*scheme)
        return okv_diag_set(diag, OKV_EURI,
                            "\"%.*s\" is not a transport of a cluster's servers: write tcp, tcps, "
                            "rdma or ofi, as in " EXAMPLE "?transport=rdma",
                            okv_uri_shown(value), value.text);
    const char *rest = value.text + value.length;
    /* The first of what is left follows "?". */
    if (found == options && rest[0])
        rest++, found++;
    memmove(found, rest, strlen(rest) + 1);
    return 0;
}

/* Splits SERVER[,SERVER...], and parses each as the URI that it stands for. */
static int split(char *servers, struct okv_uri_list *out, struct okv_diag *diag)
{
    bool is_of_paths = is_path(servers);

    if (is_of_paths && out->scheme)
        return okv_diag_set(diag, OKV_EURI,
                            "transport is of hosts, and \"%.80s\" is a socket: leave it out",
                            servers);
    if (!out->scheme)
        out->scheme = is_of_paths ? "local://" : "tcp://";
    for (char *server = servers; server; out->count++) {
        char *comma = strchr(server, ',');
        struct okv_uri uri;
        if (out->count == OKV_SERVERS_MAX)
            return okv_diag_set(diag, OKV_EURI, "more than %d servers: name some of the cluster's",
                                OKV_SERVERS_MAX);
        if (comma)
            *comma = '\0';
        out->servers[out->count] = server;
        if (!is_path(server) && strchr(server, '/'))
            return okv_diag_set(diag, OKV_EURI,
                                "\"%.80s\" is not HOST or HOST:PORT: write for example " EXAMPLE,
                                server);
        if (is_path(server) != is_of_paths)
            return okv_diag_set(diag, OKV_EURI,
                                "\"%.80s\" and \"%.80s\" are a host and a socket: name servers of "
                                "one kind",
                                servers, server);
        char *text = okv_uri_list_server(out, server);
        int rc = text ? okv_uri_parse(text, &uri, diag) : OKV_ENOMEM;
        free(text);
        if (rc)
            return rc;
        server = comma ? comma + 1 : NULL;
    }
    return 0;
}

static int parse_cluster(struct okv_uri_list *out, struct okv_diag *diag)
{
    char *servers = out->text + sizeof PREFIX - 1;
    char *options = servers + strcspn(servers, "?");
    char *slash = memrchr(servers, '/', (size_t)(options - servers));
    struct okv_uri_part name = {"", 0};

    if (slash)
        name = (struct okv_uri_part){slash + 1, (size_t)(options - slash) - 1};
    if (!okv_uri_copy_part(name, out->cluster, sizeof out->cluster) ||
        !okv_name_is_valid(out->cluster))
        return okv_diag_set(diag, OKV_EURI,
                            "\"%.*s\" is not the name of a cluster: write " OKV_NAME_RULE
                            ", after the servers, as in " EXAMPLE,
                            okv_uri_shown(name), name.text);
    out->options = options;
    *slash = '\0';
    int rc = take_transport(options, &out->scheme, diag);
    return rc ? rc : split(servers, out, diag);
}

int okv_uri_list_parse(const char *text, struct okv_uri_list *out, struct okv_diag *diag)
{
    *out = (struct okv_uri_list){.text = strdup(text)};
    if (!out->text)
        return OKV_ENOMEM;
    int rc = strncmp(text, PREFIX, sizeof PREFIX - 1) == 0 ? parse_cluster(out, diag)
                                                           : one_server(out, diag);
    if (rc)
        okv_uri_list_free(out);
    return rc;
}

void okv_uri_list_free(struct okv_uri_list *list)
{
    free(list->text);
    list->text = NULL;
}
