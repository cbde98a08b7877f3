#include "shared/base/uri.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "shared/base/error.h"

#define RDMA_PREFIX "rdma://"
#define OFI_PREFIX "ofi://"
#define LOCAL_PREFIX "local://"
#define RESP_PREFIX "resp://"
#define RESPS_PREFIX "resps://"
#define RDMA_EXAMPLE "rdma://10.0.0.1:7471"
#define OFI_EXAMPLE "ofi://10.0.0.1:7471"
#define LOCAL_EXAMPLE "local:///run/okv.sock"
#define DISCOVER_PREFIX "discover/"
#define DISCOVER_EXAMPLE "rdma://discover/cache"

/* A piece of the parsed text; not terminated. */
struct part {
    const char *text;
    size_t length;
};

/* Enough to recognise the input, and short enough to leave room for the advice. */
#define SHOWN_MAX 80

/* For sentences about a URI with a host. */
static const char *scheme_name(const struct okv_uri *uri)
{
    return uri->scheme == OKV_SCHEME_OFI ? "ofi" : uri->scheme == OKV_SCHEME_RESP ? "resp" : "rdma";
}

static int shown(struct part part)
{
    return part.length > SHOWN_MAX ? SHOWN_MAX : (int)part.length;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* True when `part` fits `size` bytes with its NUL and was copied to `out`. */
static bool copy_part(struct part part, char *out, size_t size)
{
    if (part.length >= size)
        return false;
    memcpy(out, part.text, part.length);
    out[part.length] = '\0';
    return true;
}

bool okv_name_is_valid(const char *name)
{
    size_t length = strlen(name);

    for (size_t i = 0; i < length; i++)
        if (!is_letter(name[i]) && !is_digit(name[i]) && !strchr(".-_", name[i]))
            return false;
    return length > 0 && length < OKV_NAME_SIZE;
}

bool okv_group_is_valid(const char *group)
{
    struct in_addr address;

    if (strlen(group) >= OKV_GROUP_SIZE || inet_pton(AF_INET, group, &address) != 1)
        return false;
    /* The first block is for the protocols of routers (RFC 5771). */
    return ntohl(address.s_addr) >= 0xe0000100u && ntohl(address.s_addr) <= 0xefffffffu;
}

static bool is_address(int family, const char *text)
{
    unsigned char bytes[16];
    return inet_pton(family, text, bytes) == 1;
}

/* An IPv6 address, perhaps with a zone: "fe80::1%eth0". */
static bool is_ipv6(const char *text)
{
    static const char forbidden[] = " %[]:&=@";
    char address[INET6_ADDRSTRLEN];
    const char *zone = strchr(text, '%');
    size_t length = zone ? (size_t)(zone - text) : strlen(text);

    if (zone && (zone[1] == '\0' || strpbrk(zone + 1, forbidden)))
        return false;
    if (!copy_part((struct part){text, length}, address, sizeof address))
        return false;
    return is_address(AF_INET6, address);
}

static int parse_bracketed(struct part host, struct okv_uri *out, struct okv_diag *diag)
{
    if (!copy_part(host, out->host, sizeof out->host) || !is_ipv6(out->host))
        return okv_diag_set(diag, OKV_EURI,
                            "\"[%.*s]\" is not an IPv6 address: write it as in %s://[fd00::1]:7471",
                            shown(host), host.text, scheme_name(out));
    return 0;
}

static int parse_name(struct part host, struct okv_uri *out, struct okv_diag *diag)
{
    if (host.length == 0)
        return okv_diag_set(diag, OKV_EURI,
                            "the host is missing after %s://: write for example "
                            "%s://10.0.0.1:7471%s",
                            scheme_name(out), scheme_name(out),
                            out->scheme == OKV_SCHEME_RDMA
                                ? ", or " RDMA_PREFIX "* to listen on the machine's one device"
                                : "");
    if (host.length == 1 && host.text[0] == '*') {
        memcpy(out->host, "*", 2);
        return 0;
    }
    for (size_t i = 0; i < host.length; i++) {
        char c = host.text[i];
        if (!is_letter(c) && !is_digit(c) && c != '.' && c != '-' && c != '_')
            return okv_diag_set(
                diag, OKV_EURI,
                "\"%.*s\" is not a host name or address: write for example %s://10.0.0.1:7471",
                shown(host), host.text, scheme_name(out));
    }
    if (!copy_part(host, out->host, sizeof out->host))
        return okv_diag_set(diag, OKV_EURI,
                            "the host name is %zu bytes long and may have %zu: write for example "
                            "%s://10.0.0.1:7471",
                            host.length, sizeof out->host - 1, scheme_name(out));
    return 0;
}

static int parse_port(struct part port, struct okv_uri *out, struct okv_diag *diag)
{
    unsigned number = 0;

    if (port.length == 0 || port.length > 5 || port.text[0] == '0')
        goto bad;
    for (size_t i = 0; i < port.length; i++) {
        if (!is_digit(port.text[i]))
            goto bad;
        number = number * 10 + (unsigned)(port.text[i] - '0');
    }
    if (number > 65535)
        goto bad;
    copy_part(port, out->port, sizeof out->port);
    return 0;
bad:
    return okv_diag_set(
        diag, OKV_EURI,
        "\"%.*s\" is not a port: write a number from 1 to 65535, as in %s://10.0.0.1:7471",
        shown(port), port.text, scheme_name(out));
}

/* HOST[:PORT], with an IPv6 host in brackets. */
static int parse_authority(struct part authority, struct okv_uri *out, struct okv_diag *diag)
{
    struct part host = authority;
    const char *colon;
    int status;

    if (authority.length > 0 && authority.text[0] == '[') {
        const char *end = memchr(authority.text, ']', authority.length);
        if (!end)
            return okv_diag_set(
                diag, OKV_EURI,
                "the bracket of \"%.*s\" is not closed: write for example %s://[fd00::1]:7471",
                shown(authority), authority.text, scheme_name(out));
        host = (struct part){authority.text + 1, (size_t)(end - authority.text) - 1};
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
                "%s://[fd00::1]:7471",
                shown(authority), authority.text, scheme_name(out));
        status = parse_name(host, out, diag);
    }
    if (status)
        return status;

    size_t used = colon ? (size_t)(colon - authority.text) : authority.length;
    if (used == authority.length) {
        strcpy(out->port, out->scheme == OKV_SCHEME_RESP ? OKV_RESP_PORT : OKV_DEFAULT_PORT);
        return 0;
    }
    if (*colon != ':')
        return okv_diag_set(diag, OKV_EURI,
                            "only a port can follow the bracket in \"%.*s\": write for example "
                            "%s://[fd00::1]:7471",
                            shown(authority), authority.text, scheme_name(out));
    return parse_port((struct part){colon + 1, authority.length - used - 1}, out, diag);
}

static int parse_source(struct part value, struct okv_uri *out, struct okv_diag *diag)
{
    struct part address = value;

    if (out->source[0] != '\0')
        return okv_diag_set(diag, OKV_EURI,
                            "source is given twice: write it once, as in "
                            "%s://10.0.0.1:7471?source=10.0.0.2",
                            scheme_name(out));
    if (address.length >= 2 && address.text[0] == '[' && address.text[address.length - 1] == ']')
        address = (struct part){address.text + 1, address.length - 2};
    if (!copy_part(address, out->source, sizeof out->source) ||
        (!is_address(AF_INET, out->source) && !is_ipv6(out->source)))
        return okv_diag_set(diag, OKV_EURI,
                            "\"%.*s\" is not an address to leave from: write one of this host's, "
                            "as in %s://10.0.0.1:7471?source=10.0.0.2",
                            shown(value), value.text, scheme_name(out));
    return 0;
}

static int parse_group(struct part value, struct okv_uri *out, struct okv_diag *diag)
{
    if (out->group[0] != '\0')
        return okv_diag_set(diag, OKV_EURI,
                            "group is given twice: write it once, as in " DISCOVER_EXAMPLE
                            "?group=239.1.2.3");
    if (!copy_part(value, out->group, sizeof out->group) || !okv_group_is_valid(out->group))
        return okv_diag_set(diag, OKV_EURI,
                            "\"%.*s\" is not a group: write " OKV_GROUP_RULE
                            ", as in " DISCOVER_EXAMPLE "?group=239.1.2.3",
                            shown(value), value.text);
    return 0;
}

/* True when `pair` begins with "key="; `value` is the rest of it. */
static bool has_key(struct part pair, const char *key, struct part *value)
{
    size_t length = strlen(key);

    if (pair.length <= length || memcmp(pair.text, key, length) != 0 || pair.text[length] != '=')
        return false;
    *value = (struct part){pair.text + length + 1, pair.length - length - 1};
    return true;
}

static int parse_provider(struct part value, struct okv_uri *out, struct okv_diag *diag)
{
    if (out->provider[0] != '\0')
        return okv_diag_set(diag, OKV_EURI,
                            "provider is given twice: write it once, as in "
                            "ofi://10.0.0.1:7471?provider=tcp");
    if (value.length > 0 && copy_part(value, out->provider, sizeof out->provider))
        return 0;
    return okv_diag_set(diag, OKV_EURI,
                        "\"%.*s\" is not a provider of libfabric: write for example "
                        "ofi://10.0.0.1:7471?provider=tcp",
                        shown(value), value.text);
}

static int parse_database(struct part value, struct okv_uri *out, struct okv_diag *diag)
{
    if (out->database[0] != '\0')
        return okv_diag_set(diag, OKV_EURI,
                            "database is given twice: write it once, as in " RDMA_EXAMPLE
                            "?database=cache");
    if (copy_part(value, out->database, sizeof out->database) && okv_name_is_valid(out->database))
        return 0;
    return okv_diag_set(diag, OKV_EURI,
                        "\"%.*s\" is not the name of a database: write " OKV_NAME_RULE
                        ", as in " RDMA_EXAMPLE "?database=cache",
                        shown(value), value.text);
}

static int parse_uids(struct part value, struct okv_uri *out, struct okv_diag *diag)
{
    if (out->any_uid)
        return okv_diag_set(diag, OKV_EURI,
                            "uids is given twice: write it once, as in " LOCAL_EXAMPLE "?uids=any");
    out->any_uid = value.length == 3 && memcmp(value.text, "any", 3) == 0;
    if (out->any_uid)
        return 0;
    return okv_diag_set(diag, OKV_EURI,
                        "uids may be any, not \"%.*s\": write " LOCAL_EXAMPLE
                        "?uids=any to serve all users of this host, and leave it out to serve "
                        "the server's own user and root",
                        shown(value), value.text);
}

/* Octal, as that of chmod(1). */
static int parse_mode(struct part value, struct okv_uri *out, struct okv_diag *diag)
{
    unsigned mode = 0;
    bool is_octal = value.length >= 3 && value.length <= 4;

    if (out->mode)
        return okv_diag_set(diag, OKV_EURI,
                            "mode is given twice: write it once, as in " LOCAL_EXAMPLE
                            "?mode=0660");
    for (size_t i = 0; i < value.length && is_octal; i++) {
        is_octal = value.text[i] >= '0' && value.text[i] <= '7';
        mode = mode * 8 + (unsigned)(value.text[i] - '0');
    }
    if (!is_octal || mode == 0 || mode > 0777)
        return okv_diag_set(
            diag, OKV_EURI,
            "\"%.*s\" is not a mode of a socket: write permissions in octal, as in " LOCAL_EXAMPLE
            "?mode=0660",
            shown(value), value.text);
    out->mode = (uint16_t)mode;
    return 0;
}

static int parse_device(struct part value, struct okv_uri *out, struct okv_diag *diag)
{
    bool is_valid = value.length > 0 && !out->device[0];

    for (size_t i = 0; i < value.length && is_valid; i++)
        is_valid =
            is_letter(value.text[i]) || is_digit(value.text[i]) || strchr(".-_", value.text[i]);
    if (is_valid && copy_part(value, out->device, sizeof out->device))
        return 0;
    return okv_diag_set(
        diag, OKV_EURI,
        "\"%.*s\" is not one RDMA device: write a name that 'rdma dev' lists, once, "
        "as in " RDMA_EXAMPLE "?device=mlx5_0",
        shown(value), value.text);
}

/* A port of a device, or an index of its GIDs. */
static int parse_number(struct part value, const char *what, uint16_t least, uint16_t *out,
                        struct okv_diag *diag)
{
    unsigned number = 0;
    bool is_number = value.length > 0 && value.length <= 5;

    for (size_t i = 0; i < value.length && is_number; i++) {
        is_number = is_digit(value.text[i]);
        number = number * 10 + (unsigned)(value.text[i] - '0');
    }
    if (!is_number || number < least || number > UINT16_MAX)
        return okv_diag_set(
            diag, OKV_EURI,
            "\"%.*s\" is not a %s: write a number that 'okv doctor' lists, as in " RDMA_EXAMPLE
            "?device=mlx5_0&port=1&gid=3",
            shown(value), value.text, what);
    *out = (uint16_t)number;
    return 0;
}

/* The options of an rdma URI alone. OKV_EAGAIN: it is none of them. */
static int parse_rdma_option(struct part pair, struct okv_uri *out, struct okv_diag *diag)
{
    struct part value;

    if (has_key(pair, "device", &value))
        return parse_device(value, out, diag);
    if (has_key(pair, "port", &value))
        return parse_number(value, "port of a device", 1, &out->port_number, diag);
    if (has_key(pair, "gid", &value)) {
        out->has_gid = true;
        return parse_number(value, "GID index", 0, &out->gid, diag);
    }
    if (out->name[0] && has_key(pair, "group", &value))
        return parse_group(value, out, diag);
    return OKV_EAGAIN;
}

static int parse_option(struct part pair, struct okv_uri *out, struct okv_diag *diag)
{
    bool is_ofi = out->scheme == OKV_SCHEME_OFI;
    struct part value;

    if (out->path[0] && has_key(pair, "mode", &value))
        return parse_mode(value, out, diag);
    if (out->scheme == OKV_SCHEME_RESP)
        return okv_diag_set(diag, OKV_EURI,
                            "\"%.*s\" is not an option of a resp URI, which has mode, of a Unix "
                            "socket: write for example resp:///run/okv-resp.sock?mode=0660",
                            shown(pair), pair.text);
    if (has_key(pair, "database", &value))
        return parse_database(value, out, diag);
    if (out->scheme == OKV_SCHEME_LOCAL && has_key(pair, "uids", &value))
        return parse_uids(value, out, diag);
    if (out->scheme == OKV_SCHEME_LOCAL)
        return okv_diag_set(diag, OKV_EURI,
                            "\"%.*s\" is not an option of a local URI, which has database, and "
                            "uids and mode for servers: write for example " LOCAL_EXAMPLE
                            "?database=cache",
                            shown(pair), pair.text);
    if (has_key(pair, "source", &value))
        return parse_source(value, out, diag);
    if (is_ofi && has_key(pair, "provider", &value))
        return parse_provider(value, out, diag);
    int rc = is_ofi ? OKV_EAGAIN : parse_rdma_option(pair, out, diag);
    if (rc != OKV_EAGAIN)
        return rc;
    return okv_diag_set(
        diag, OKV_EURI, "\"%.*s\" is not an option of %s: write for example %s?source=10.0.0.2",
        shown(pair), pair.text,
        is_ofi         ? "an ofi URI, which has provider, source and database"
        : out->name[0] ? "a " DISCOVER_EXAMPLE
                         ", which has source, device, port, gid, group and database"
                       : "an rdma URI, which has source, device, port, gid and database",
        is_ofi         ? OFI_EXAMPLE
        : out->name[0] ? DISCOVER_EXAMPLE
                       : RDMA_EXAMPLE);
}

/* key=value pairs joined by '&'. */
static int parse_query(struct part query, struct okv_uri *out, struct okv_diag *diag)
{
    const char *next = query.text;
    const char *end = query.text + query.length;

    for (;;) {
        const char *amp = memchr(next, '&', (size_t)(end - next));
        struct part pair = {next, (size_t)((amp ? amp : end) - next)};

        int status = parse_option(pair, out, diag);
        if (status)
            return status;
        if (!amp)
            break;
        next = amp + 1;
    }
    if ((out->port_number || out->has_gid) && !out->device[0])
        return okv_diag_set(diag, OKV_EURI,
                            "port and gid are of a device: name it, as in " RDMA_EXAMPLE
                            "?device=mlx5_0&port=1&gid=3");
    return 0;
}

/* NAME[?OPTIONS], after rdma://discover/ */
static int parse_discover(const char *rest, struct okv_uri *out, struct okv_diag *diag)
{
    struct part name = {rest, strcspn(rest, "?")};

    if (!copy_part(name, out->name, sizeof out->name) || !okv_name_is_valid(out->name))
        return okv_diag_set(diag, OKV_EURI,
                            "\"%.*s\" is not the name of a server: write " OKV_NAME_RULE
                            ", as in " DISCOVER_EXAMPLE,
                            shown(name), name.text);
    if (rest[name.length] == '\0')
        return 0;
    rest += name.length + 1;
    return parse_query((struct part){rest, strlen(rest)}, out, diag);
}

/* A URI with a host. */
static int parse_network(const char *rest, enum okv_scheme scheme, struct okv_uri *out,
                         struct okv_diag *diag)
{
    size_t length = strlen(rest);
    size_t authority = strcspn(rest, "/?#");
    int status;

    out->scheme = scheme;
    if (scheme == OKV_SCHEME_RDMA &&
        strncmp(rest, DISCOVER_PREFIX, sizeof DISCOVER_PREFIX - 1) == 0)
        return parse_discover(rest + sizeof DISCOVER_PREFIX - 1, out, diag);
    status = parse_authority((struct part){rest, authority}, out, diag);
    if (status || authority == length)
        return status;
    if (rest[authority] != '?' && scheme == OKV_SCHEME_RESP)
        return okv_diag_set(diag, OKV_EURI,
                            "nothing can follow host and port of a resp URI, and this one has "
                            "\"%.*s\": write for example resp://10.0.0.1:6379",
                            SHOWN_MAX, rest + authority);
    if (rest[authority] != '?')
        return okv_diag_set(diag, OKV_EURI,
                            "nothing but ?%s can follow host and port, and this URI has \"%.*s\": "
                            "write for example %s://10.0.0.1:7471",
                            scheme == OKV_SCHEME_OFI
                                ? "provider=NAME, ?source=ADDRESS or ?database=NAME"
                                : "source=ADDRESS, ?device=NAME or ?database=NAME",
                            SHOWN_MAX, rest + authority, scheme_name(out));
    return parse_query((struct part){rest + authority + 1, length - authority - 1}, out, diag);
}

/* A URI with a path. */
static int parse_path(const char *text, enum okv_scheme scheme, struct okv_uri *out,
                      struct okv_diag *diag)
{
    struct part path = {text, strcspn(text, "?")};

    out->scheme = scheme;
    if (path.length == 0)
        return okv_diag_set(diag, OKV_EURI,
                            "the path is missing after " LOCAL_PREFIX
                            ": write for example " LOCAL_EXAMPLE);
    if (text[0] != '/')
        return okv_diag_set(
            diag, OKV_EURI,
            "the path \"%.*s\" is not absolute: write three slashes, as in " LOCAL_EXAMPLE,
            shown(path), text);
    if (text[path.length - 1] == '/')
        return okv_diag_set(
            diag, OKV_EURI,
            "the path \"%.*s\" names a directory: add the name of the socket, as in " LOCAL_EXAMPLE,
            shown(path), text);
    if (memchr(text, '#', path.length))
        return okv_diag_set(
            diag, OKV_EURI,
            "the path of a URI may not contain #: write for example " LOCAL_EXAMPLE);
    if (!copy_part(path, out->path, sizeof out->path))
        return okv_diag_set(
            diag, OKV_EURI,
            "the path is %zu bytes long and a Unix socket's may have %zu: choose a shorter one, "
            "as in " LOCAL_EXAMPLE,
            path.length, sizeof out->path - 1);
    if (text[path.length] == '\0')
        return 0;
    text += path.length + 1;
    return parse_query((struct part){text, strlen(text)}, out, diag);
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
                            "the URI is empty: write for example " RDMA_EXAMPLE
                            " or " LOCAL_EXAMPLE);
    if (has_control_character(text))
        return okv_diag_set(diag, OKV_EURI,
                            "the URI contains a control character: write for example " RDMA_EXAMPLE
                            " or " LOCAL_EXAMPLE);
    if (strncmp(text, RDMA_PREFIX, sizeof RDMA_PREFIX - 1) == 0)
        return parse_network(text + sizeof RDMA_PREFIX - 1, OKV_SCHEME_RDMA, out, diag);
    if (strncmp(text, OFI_PREFIX, sizeof OFI_PREFIX - 1) == 0)
        return parse_network(text + sizeof OFI_PREFIX - 1, OKV_SCHEME_OFI, out, diag);
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
                        "\"%.*s\" does not begin with " RDMA_PREFIX ", " OFI_PREFIX
                        " or " LOCAL_PREFIX ", or for clients of Redis " RESP_PREFIX
                        ": write for example " RDMA_EXAMPLE " or " LOCAL_EXAMPLE,
                        SHOWN_MAX, text);
}
