#include "shared/base/uri.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "shared/base/error.h"
#include "shared/base/uri_part.h"
#include "shared/base/uri_query.h"

#define RDMA_PREFIX "rdma://"
#define OFI_PREFIX "ofi://"
#define TCP_PREFIX "tcp://"
#define TCPS_PREFIX "tcps://"
#define LOCAL_PREFIX "local://"
#define RESP_PREFIX "resp://"
#define RESPS_PREFIX "resps://"
#define DISCOVER_PREFIX "discover/"

static const char *default_port(const struct okv_uri *uri)
{
    if (uri->scheme == OKV_SCHEME_RESP)
        return OKV_RESP_PORT;
    return uri->tls ? OKV_TCPS_PORT : OKV_DEFAULT_PORT;
}

static int parse_bracketed(struct okv_uri_part host, struct okv_uri *out, struct okv_diag *diag)
{
    if (!okv_uri_copy_part(host, out->host, sizeof out->host) || !okv_uri_is_ipv6(out->host))
        return okv_diag_set(
            diag, OKV_EURI, "\"[%.*s]\" is not an IPv6 address: write it as in %s://[fd00::1]:%s",
            okv_uri_shown(host), host.text, okv_uri_scheme_name(out), default_port(out));
    return 0;
}

static int parse_name(struct okv_uri_part host, struct okv_uri *out, struct okv_diag *diag)
{
    if (host.length == 0)
        return okv_diag_set(diag, OKV_EURI,
                            "the host is missing after %s://: write for example "
                            "%s://10.0.0.1:%s%s",
                            okv_uri_scheme_name(out), okv_uri_scheme_name(out), default_port(out),
                            out->scheme == OKV_SCHEME_RDMA
                                ? ", or " RDMA_PREFIX "* to listen on the machine's one device"
                                : "");
    if (host.length == 1 && host.text[0] == '*') {
        memcpy(out->host, "*", 2);
        return 0;
    }
    for (size_t i = 0; i < host.length; i++) {
        char c = host.text[i];
        if (!okv_uri_is_letter(c) && !okv_uri_is_digit(c) && c != '.' && c != '-' && c != '_')
            return okv_diag_set(
                diag, OKV_EURI,
                "\"%.*s\" is not a host name or address: write for example %s://10.0.0.1:%s",
                okv_uri_shown(host), host.text, okv_uri_scheme_name(out), default_port(out));
    }
    if (!okv_uri_copy_part(host, out->host, sizeof out->host))
        return okv_diag_set(diag, OKV_EURI,
                            "the host name is %zu bytes long and may have %zu: write for example "
                            "%s://10.0.0.1:%s",
                            host.length, sizeof out->host - 1, okv_uri_scheme_name(out),
                            default_port(out));
    return 0;
}

static int parse_port(struct okv_uri_part port, struct okv_uri *out, struct okv_diag *diag)
{
    unsigned number = 0;

    if (port.length == 0 || port.length > 5 || port.text[0] == '0')
        goto bad;
    for (size_t i = 0; i < port.length; i++) {
        if (!okv_uri_is_digit(port.text[i]))
            goto bad;
        number = number * 10 + (unsigned)(port.text[i] - '0');
    }
    if (number > 65535)
        goto bad;
    okv_uri_copy_part(port, out->port, sizeof out->port);
    return 0;
bad:
    return okv_diag_set(
        diag, OKV_EURI,
        "\"%.*s\" is not a port: write a number from 1 to 65535, as in %s://10.0.0.1:%s",
        okv_uri_shown(port), port.text, okv_uri_scheme_name(out), default_port(out));
}

/* HOST[:PORT], with an IPv6 host in brackets. */
static int parse_authority(struct okv_uri_part authority, struct okv_uri *out,
                           struct okv_diag *diag)
{
    struct okv_uri_part host = authority;
    const char *colon;
    int status;

    if (authority.length > 0 && authority.text[0] == '[') {
        const char *end = memchr(authority.text, ']', authority.length);
        if (!end)
            return okv_diag_set(
                diag, OKV_EURI,
                "the bracket of \"%.*s\" is not closed: write for example %s://[fd00::1]:%s",
                okv_uri_shown(authority), authority.text, okv_uri_scheme_name(out),
                default_port(out));
        host = (struct okv_uri_part){authority.text + 1, (size_t)(end - authority.text) - 1};
        status = parse_bracketed(host, out, diag);
        colon = end + 1;
    } else {
        colon = memchr(authority.text, ':', authority.length);
        if (colon)
            host.length = (size_t)(colon - authority.text);
        if (colon && memchr(colon + 1, ':', authority.length - host.length - 1))
            return okv_diag_set(
                diag, OKV_EURI,
                "\"%.*s\" has more than one colon: an IPv6 address needs brackets, as in "
                "%s://[fd00::1]:%s",
                okv_uri_shown(authority), authority.text, okv_uri_scheme_name(out),
                default_port(out));
        status = parse_name(host, out, diag);
    }
    if (status)
        return status;

    size_t used = colon ? (size_t)(colon - authority.text) : authority.length;
    if (used == authority.length) {
        strcpy(out->port, default_port(out));
        return 0;
    }
    if (*colon != ':')
        return okv_diag_set(diag, OKV_EURI,
                            "only a port can follow the bracket in \"%.*s\": write for example "
                            "%s://[fd00::1]:%s",
                            okv_uri_shown(authority), authority.text, okv_uri_scheme_name(out),
                            default_port(out));
    return parse_port((struct okv_uri_part){colon + 1, authority.length - used - 1}, out, diag);
}

/* NAME[?OPTIONS], after SCHEME://discover/ */
static int parse_discover(const char *rest, struct okv_uri *out, struct okv_diag *diag)
{
    struct okv_uri_part name = {rest, strcspn(rest, "?")};

    if (!okv_uri_copy_part(name, out->name, sizeof out->name) || !okv_name_is_valid(out->name))
        return okv_diag_set(diag, OKV_EURI,
                            "\"%.*s\" is not the name of a server: write " OKV_NAME_RULE
                            ", as in %s://discover/cache",
                            okv_uri_shown(name), name.text, okv_uri_scheme_name(out));
    if (rest[name.length] == '\0')
        return 0;
    rest += name.length + 1;
    return okv_uri_parse_query((struct okv_uri_part){rest, strlen(rest)}, out, diag);
}

/* A URI with a host. */
static int parse_network(const char *rest, enum okv_scheme scheme, struct okv_uri *out,
                         struct okv_diag *diag)
{
    size_t length = strlen(rest);
    size_t authority = strcspn(rest, "/?#");
    int status;

    out->scheme = scheme;
    if ((scheme == OKV_SCHEME_RDMA || scheme == OKV_SCHEME_TCP) &&
        strncmp(rest, DISCOVER_PREFIX, sizeof DISCOVER_PREFIX - 1) == 0)
        return parse_discover(rest + sizeof DISCOVER_PREFIX - 1, out, diag);
    if (scheme == OKV_SCHEME_OFI && strncmp(rest, DISCOVER_PREFIX, sizeof DISCOVER_PREFIX - 1) == 0)
        return okv_diag_set(diag, OKV_EURI,
                            "ofi:// takes an address alone: write tcp://discover/NAME for a server "
                            "that also listens on TCP, or for example " OKV_URI_OFI_EXAMPLE);
    status = parse_authority((struct okv_uri_part){rest, authority}, out, diag);
    if (status || authority == length)
        return status;
    if (rest[authority] != '?' && scheme == OKV_SCHEME_RESP)
        return okv_diag_set(diag, OKV_EURI,
                            "nothing can follow host and port of a resp URI, and this one has "
                            "\"%.*s\": write for example resp://10.0.0.1:6379",
                            OKV_URI_SHOWN_MAX, rest + authority);
    if (rest[authority] != '?')
        return okv_diag_set(
            diag, OKV_EURI,
            "nothing but ?%s can follow host and port, and this URI has \"%.*s\": "
            "write for example %s://10.0.0.1:%s",
            scheme == OKV_SCHEME_OFI ? "provider=NAME, ?source=ADDRESS or ?database=NAME"
            : scheme == OKV_SCHEME_TCP && out->tls ? "ca=FILE, ?source=ADDRESS or ?database=NAME"
            : scheme == OKV_SCHEME_TCP             ? "source=ADDRESS or ?database=NAME"
                                       : "source=ADDRESS, ?device=NAME or ?database=NAME",
            OKV_URI_SHOWN_MAX, rest + authority, okv_uri_scheme_name(out), default_port(out));
    return okv_uri_parse_query((struct okv_uri_part){rest + authority + 1, length - authority - 1},
                               out, diag);
}

/* A URI with a path. */
static int parse_path(const char *text, enum okv_scheme scheme, struct okv_uri *out,
                      struct okv_diag *diag)
{
    struct okv_uri_part path = {text, strcspn(text, "?")};

    out->scheme = scheme;
    if (path.length == 0)
        return okv_diag_set(diag, OKV_EURI,
                            "the path is missing after " LOCAL_PREFIX
                            ": write for example " OKV_URI_LOCAL_EXAMPLE);
    if (text[0] != '/')
        return okv_diag_set(
            diag, OKV_EURI,
            "the path \"%.*s\" is not absolute: write three slashes, as in " OKV_URI_LOCAL_EXAMPLE,
            okv_uri_shown(path), text);
    if (text[path.length - 1] == '/')
        return okv_diag_set(diag, OKV_EURI,
                            "the path \"%.*s\" names a directory: add the name of the socket, as "
                            "in " OKV_URI_LOCAL_EXAMPLE,
                            okv_uri_shown(path), text);
    if (memchr(text, '#', path.length))
        return okv_diag_set(
            diag, OKV_EURI,
            "the path of a URI may not contain #: write for example " OKV_URI_LOCAL_EXAMPLE);
    if (!okv_uri_copy_part(path, out->path, sizeof out->path))
        return okv_diag_set(
            diag, OKV_EURI,
            "the path is %zu bytes long and a Unix socket's may have %zu: choose a shorter one, "
            "as in " OKV_URI_LOCAL_EXAMPLE,
            path.length, sizeof out->path - 1);
    if (text[path.length] == '\0')
        return 0;
    text += path.length + 1;
    return okv_uri_parse_query((struct okv_uri_part){text, strlen(text)}, out, diag);
}

static bool has_control_character(const char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return true;
    }
    return false;
}

int okv_uri_parse(const char *text, struct okv_uri *out, struct okv_diag *diag)
{
    memset(out, 0, sizeof *out);
    if (!text || text[0] == '\0')
        return okv_diag_set(diag, OKV_EURI,
                            "the URI is empty: write for example " OKV_URI_RDMA_EXAMPLE
                            " or " OKV_URI_LOCAL_EXAMPLE);
    if (has_control_character(text))
        return okv_diag_set(
            diag, OKV_EURI,
            "the URI contains a control character: write for example " OKV_URI_RDMA_EXAMPLE
            " or " OKV_URI_LOCAL_EXAMPLE);
    if (strncmp(text, RDMA_PREFIX, sizeof RDMA_PREFIX - 1) == 0)
        return parse_network(text + sizeof RDMA_PREFIX - 1, OKV_SCHEME_RDMA, out, diag);
    if (strncmp(text, OFI_PREFIX, sizeof OFI_PREFIX - 1) == 0)
        return parse_network(text + sizeof OFI_PREFIX - 1, OKV_SCHEME_OFI, out, diag);
    if (strncmp(text, TCP_PREFIX, sizeof TCP_PREFIX - 1) == 0)
        return parse_network(text + sizeof TCP_PREFIX - 1, OKV_SCHEME_TCP, out, diag);
    out->tls = strncmp(text, TCPS_PREFIX, sizeof TCPS_PREFIX - 1) == 0;
    if (out->tls)
        return parse_network(text + sizeof TCPS_PREFIX - 1, OKV_SCHEME_TCP, out, diag);
    if (strncmp(text, LOCAL_PREFIX, sizeof LOCAL_PREFIX - 1) == 0)
        return parse_path(text + sizeof LOCAL_PREFIX - 1, OKV_SCHEME_LOCAL, out, diag);
    if (strncmp(text, RESP_PREFIX "/", sizeof RESP_PREFIX) == 0)
        return parse_path(text + sizeof RESP_PREFIX - 1, OKV_SCHEME_RESP, out, diag);
    out->tls = strncmp(text, RESPS_PREFIX, sizeof RESPS_PREFIX - 1) == 0;
    if (out->tls)
        return parse_network(text + sizeof RESPS_PREFIX - 1, OKV_SCHEME_RESP, out, diag);
    if (strncmp(text, RESP_PREFIX, sizeof RESP_PREFIX - 1) == 0)
        return parse_network(text + sizeof RESP_PREFIX - 1, OKV_SCHEME_RESP, out, diag);
    return okv_diag_set(diag, OKV_EURI,
                        "\"%.*s\" does not begin with " RDMA_PREFIX ", " TCP_PREFIX ", " TCPS_PREFIX
                        ", " OFI_PREFIX " or " LOCAL_PREFIX ", or for clients of Redis " RESP_PREFIX
                        ": write for example " OKV_URI_RDMA_EXAMPLE " or " OKV_URI_LOCAL_EXAMPLE,
                        OKV_URI_SHOWN_MAX, text);
}
