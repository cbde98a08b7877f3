#include "shared/base/uri_query.h"

#include <string.h>

#include "shared/base/error.h"

static int parse_source(struct okv_uri_part value, struct okv_uri *out, struct okv_diag *diag)
{
    struct okv_uri_part address = value;

    if (out->source[0] != '\0')
        return okv_diag_set(diag, OKV_EURI,
                            "source is given twice: write it once, as in "
                            "%s://10.0.0.1?source=10.0.0.2",
                            okv_uri_scheme_name(out));
    if (address.length >= 2 && address.text[0] == '[' && address.text[address.length - 1] == ']')
        address = (struct okv_uri_part){address.text + 1, address.length - 2};
    if (!okv_uri_copy_part(address, out->source, sizeof out->source) ||
        (!okv_uri_is_ipv4(out->source) && !okv_uri_is_ipv6(out->source)))
        return okv_diag_set(diag, OKV_EURI,
                            "\"%.*s\" is not an address to leave from: write one of this host's, "
                            "as in %s://10.0.0.1?source=10.0.0.2",
                            okv_uri_shown(value), value.text, okv_uri_scheme_name(out));
    return 0;
}

static int parse_group(struct okv_uri_part value, struct okv_uri *out, struct okv_diag *diag)
{
    if (out->group[0] != '\0')
        return okv_diag_set(diag, OKV_EURI,
                            "group is given twice: write it once, as in "
                            "%s://discover/cache?group=239.1.2.3",
                            okv_uri_scheme_name(out));
    if (!okv_uri_copy_part(value, out->group, sizeof out->group) || !okv_group_is_valid(out->group))
        return okv_diag_set(diag, OKV_EURI,
                            "\"%.*s\" is not a group: write " OKV_GROUP_RULE
                            ", as in %s://discover/cache?group=239.1.2.3",
                            okv_uri_shown(value), value.text, okv_uri_scheme_name(out));
    return 0;
}

/* True when `pair` begins with "key="; `value` is the rest of it. */
static bool has_key(struct okv_uri_part pair, const char *key, struct okv_uri_part *value)
{
    size_t length = strlen(key);

    if (pair.length <= length || memcmp(pair.text, key, length) != 0 || pair.text[length] != '=')
        return false;
    *value = (struct okv_uri_part){pair.text + length + 1, pair.length - length - 1};
    return true;
}

static int parse_provider(struct okv_uri_part value, struct okv_uri *out, struct okv_diag *diag)
{
    if (out->provider[0] != '\0')
        return okv_diag_set(diag, OKV_EURI,
                            "provider is given twice: write it once, as in "
                            "ofi://10.0.0.1:7471?provider=tcp");
    if (value.length > 0 && okv_uri_copy_part(value, out->provider, sizeof out->provider))
        return 0;
    return okv_diag_set(diag, OKV_EURI,
                        "\"%.*s\" is not a provider of libfabric: write for example "
                        "ofi://10.0.0.1:7471?provider=tcp",
                        okv_uri_shown(value), value.text);
}

static int parse_database(struct okv_uri_part value, struct okv_uri *out, struct okv_diag *diag)
{
    if (out->database[0] != '\0')
        return okv_diag_set(diag, OKV_EURI,
                            "database is given twice: write it once, as in " OKV_URI_RDMA_EXAMPLE
                            "?database=cache");
    if (okv_uri_copy_part(value, out->database, sizeof out->database) &&
        okv_name_is_valid(out->database))
        return 0;
    return okv_diag_set(diag, OKV_EURI,
                        "\"%.*s\" is not the name of a database: write " OKV_NAME_RULE
                        ", as in " OKV_URI_RDMA_EXAMPLE "?database=cache",
                        okv_uri_shown(value), value.text);
}

static int parse_uids(struct okv_uri_part value, struct okv_uri *out, struct okv_diag *diag)
{
    if (out->any_uid)
        return okv_diag_set(diag, OKV_EURI,
                            "uids is given twice: write it once, as in " OKV_URI_LOCAL_EXAMPLE
                            "?uids=any");
    out->any_uid = value.length == 3 && memcmp(value.text, "any", 3) == 0;
    if (out->any_uid)
        return 0;
    return okv_diag_set(diag, OKV_EURI,
                        "uids may be any, not \"%.*s\": write " OKV_URI_LOCAL_EXAMPLE
                        "?uids=any to serve all users of this host, and leave it out to serve "
                        "the server's own user and root",
                        okv_uri_shown(value), value.text);
}

/* Octal, as that of chmod(1). */
static int parse_mode(struct okv_uri_part value, struct okv_uri *out, struct okv_diag *diag)
{
    unsigned mode = 0;
    bool is_octal = value.length >= 3 && value.length <= 4;

    if (out->mode)
        return okv_diag_set(diag, OKV_EURI,
                            "mode is given twice: write it once, as in " OKV_URI_LOCAL_EXAMPLE
                            "?mode=0660");
    for (size_t i = 0; i < value.length && is_octal; i++) {
        is_octal = value.text[i] >= '0' && value.text[i] <= '7';
        mode = mode * 8 + (unsigned)(value.text[i] - '0');
    }
    if (!is_octal || mode == 0 || mode > 0777)
        return okv_diag_set(diag, OKV_EURI,
                            "\"%.*s\" is not a mode of a socket: write permissions in octal, as "
                            "in " OKV_URI_LOCAL_EXAMPLE "?mode=0660",
                            okv_uri_shown(value), value.text);
    out->mode = (uint16_t)mode;
    return 0;
}

static int parse_device(struct okv_uri_part value, struct okv_uri *out, struct okv_diag *diag)
{
    bool is_valid = value.length > 0 && !out->device[0];

    for (size_t i = 0; i < value.length && is_valid; i++)
        is_valid = okv_uri_is_letter(value.text[i]) || okv_uri_is_digit(value.text[i]) ||
                   strchr(".-_", value.text[i]);
    if (is_valid && okv_uri_copy_part(value, out->device, sizeof out->device))
        return 0;
    return okv_diag_set(
        diag, OKV_EURI,
        "\"%.*s\" is not one RDMA device: write a name that 'rdma dev' lists, once, "
        "as in " OKV_URI_RDMA_EXAMPLE "?device=mlx5_0",
        okv_uri_shown(value), value.text);
}

/* A port of a device, or an index of its GIDs. */
static int parse_number(struct okv_uri_part value, const char *what, uint16_t least, uint16_t *out,
                        struct okv_diag *diag)
{
    unsigned number = 0;
    bool is_number = value.length > 0 && value.length <= 5;

    for (size_t i = 0; i < value.length && is_number; i++) {
        is_number = okv_uri_is_digit(value.text[i]);
        number = number * 10 + (unsigned)(value.text[i] - '0');
    }
    if (!is_number || number < least || number > UINT16_MAX)
        return okv_diag_set(diag, OKV_EURI,
                            "\"%.*s\" is not a %s: write a number that 'okv doctor' lists, as "
                            "in " OKV_URI_RDMA_EXAMPLE "?device=mlx5_0&port=1&gid=3",
                            okv_uri_shown(value), value.text, what);
    *out = (uint16_t)number;
    return 0;
}

static int parse_tos(struct okv_uri_part value, struct okv_uri *out, struct okv_diag *diag)
{
    unsigned number = 0;
    bool is_number = value.length > 0 && value.length <= 3 && !out->has_tos;

    for (size_t i = 0; i < value.length && is_number; i++) {
        is_number = okv_uri_is_digit(value.text[i]);
        number = number * 10 + (unsigned)(value.text[i] - '0');
    }
    if (!is_number || number > UINT8_MAX)
        return okv_diag_set(diag, OKV_EURI,
                            "\"%.*s\" is not one traffic class: write a number from 0 to 255, "
                            "once, as in " OKV_URI_RDMA_EXAMPLE "?tos=106",
                            okv_uri_shown(value), value.text);
    out->has_tos = true;
    out->tos = (uint8_t)number;
    return 0;
}

/* The options of a tcps URI alone. OKV_EAGAIN: it is none of them. */
static int parse_tls_option(struct okv_uri_part pair, struct okv_uri *out, struct okv_diag *diag)
{
    const struct {
        const char *key, *example;
        char *text;
        size_t size;
    } options[] = {
        {"ca", "/etc/okv/ca.pem", out->of_tls.ca, sizeof out->of_tls.ca},
        {"cert", "/etc/okv/client.pem", out->of_tls.cert, sizeof out->of_tls.cert},
        {"key", "/etc/okv/client.key", out->of_tls.key, sizeof out->of_tls.key},
        {"server-name", "kv.example.com", out->of_tls.server_name, sizeof out->of_tls.server_name},
    };
    struct okv_uri_part value;

    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (!has_key(pair, options[i].key, &value))
            continue;
        if (!options[i].text[0] && value.length > 0 &&
            okv_uri_copy_part(value, options[i].text, options[i].size))
            return 0;
        return okv_diag_set(diag, OKV_EURI,
                            "\"%.*s\" is not one %s of up to %zu bytes: write it once, as in "
                            "tcps://10.0.0.1?%s=%s",
                            okv_uri_shown(value), value.text, options[i].key, options[i].size - 1,
                            options[i].key, options[i].example);
    }
    return OKV_EAGAIN;
}

/* The options of an rdma URI alone. OKV_EAGAIN: it is none of them. */
static int parse_rdma_option(struct okv_uri_part pair, struct okv_uri *out, struct okv_diag *diag)
{
    struct okv_uri_part value;

    if (has_key(pair, "device", &value))
        return parse_device(value, out, diag);
    if (has_key(pair, "port", &value))
        return parse_number(value, "port of a device", 1, &out->port_number, diag);
    if (has_key(pair, "gid", &value)) {
        out->has_gid = true;
        return parse_number(value, "GID index", 0, &out->gid, diag);
    }
    if (has_key(pair, "tos", &value))
        return parse_tos(value, out, diag);
    return OKV_EAGAIN;
}

static int parse_option(struct okv_uri_part pair, struct okv_uri *out, struct okv_diag *diag)
{
    bool is_ofi = out->scheme == OKV_SCHEME_OFI;
    struct okv_uri_part value;

    if (out->path[0] && has_key(pair, "mode", &value))
        return parse_mode(value, out, diag);
    if (out->scheme == OKV_SCHEME_RESP)
        return okv_diag_set(diag, OKV_EURI,
                            "\"%.*s\" is not an option of a resp URI, which has mode, of a Unix "
                            "socket: write for example resp:///run/okv-resp.sock?mode=0660",
                            okv_uri_shown(pair), pair.text);
    if (has_key(pair, "database", &value))
        return parse_database(value, out, diag);
    if (out->scheme == OKV_SCHEME_LOCAL && has_key(pair, "uids", &value))
        return parse_uids(value, out, diag);
    if (out->scheme == OKV_SCHEME_LOCAL)
        return okv_diag_set(diag, OKV_EURI,
                            "\"%.*s\" is not an option of a local URI, which has database, and "
                            "uids and mode for servers: write for example " OKV_URI_LOCAL_EXAMPLE
                            "?database=cache",
                            okv_uri_shown(pair), pair.text);
    if (has_key(pair, "source", &value))
        return parse_source(value, out, diag);
    if (out->name[0] && has_key(pair, "group", &value))
        return parse_group(value, out, diag);
    if (is_ofi && has_key(pair, "provider", &value))
        return parse_provider(value, out, diag);
    if (out->scheme == OKV_SCHEME_TCP && out->tls) {
        int status = parse_tls_option(pair, out, diag);
        return status != OKV_EAGAIN
                   ? status
                   : okv_diag_set(diag, OKV_EURI,
                                  "\"%.*s\" is not an option of a tcps URI, which has source, ca, "
                                  "cert, key, server-name%s and database: write for example "
                                  "tcps://10.0.0.1?ca=/etc/okv/ca.pem",
                                  okv_uri_shown(pair), pair.text, out->name[0] ? ", group" : "");
    }
    if (out->scheme == OKV_SCHEME_TCP)
        return okv_diag_set(diag, OKV_EURI,
                            "\"%.*s\" is not an option of a tcp URI, which has source%s and "
                            "database: write for example tcp://10.0.0.1:7471?source=10.0.0.2",
                            okv_uri_shown(pair), pair.text, out->name[0] ? ", group" : "");
    int rc = is_ofi ? OKV_EAGAIN : parse_rdma_option(pair, out, diag);
    if (rc != OKV_EAGAIN)
        return rc;
    return okv_diag_set(
        diag, OKV_EURI, "\"%.*s\" is not an option of %s: write for example %s?source=10.0.0.2",
        okv_uri_shown(pair), pair.text,
        is_ofi         ? "an ofi URI, which has provider, source and database"
        : out->name[0] ? "a " OKV_URI_DISCOVER_EXAMPLE
                         ", which has source, device, port, gid, tos, group and database"
                       : "an rdma URI, which has source, device, port, gid, tos and database",
        is_ofi         ? OKV_URI_OFI_EXAMPLE
        : out->name[0] ? OKV_URI_DISCOVER_EXAMPLE
                       : OKV_URI_RDMA_EXAMPLE);
}

int okv_uri_parse_query(struct okv_uri_part query, struct okv_uri *out, struct okv_diag *diag)
{
    const char *next = query.text;
    const char *end = query.text + query.length;

    for (;;) {
        const char *amp = memchr(next, '&', (size_t)(end - next));
        struct okv_uri_part pair = {next, (size_t)((amp ? amp : end) - next)};

        int status = parse_option(pair, out, diag);
        if (status)
            return status;
        if (!amp)
            break;
        next = amp + 1;
    }
    if ((out->port_number || out->has_gid) && !out->device[0])
        return okv_diag_set(diag, OKV_EURI,
                            "port and gid are of a device: name it, as in " OKV_URI_RDMA_EXAMPLE
                            "?device=mlx5_0&port=1&gid=3");
    return 0;
}
