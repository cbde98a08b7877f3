#include "server/net/devices.h"

#include <stdio.h>
#include <string.h>

#include "shared/base/error.h"
#include "shared/devices/choice.h"
#include "shared/devices/ports.h"

/* The listeners so far. */
struct expansion {
    const struct okv_ports *ports;
    struct okv_log *log;
    struct okv_diag *diag;
    struct okv_uri list[OKV_LISTENERS_MAX];
    unsigned count;
};

/* AF_UNSPEC for "*"; -1 for a host that is one address or a name. */
static int wildcard_family(const char *host)
{
    if (strcmp(host, "*") == 0)
        return AF_UNSPEC;
    if (strcmp(host, "0.0.0.0") == 0)
        return AF_INET;
    return strcmp(host, "::") == 0 ? AF_INET6 : -1;
}

/* Two devices of one network device have its address both. */
static bool is_there(const struct expansion *to, const struct okv_uri *uri, const char *host)
{
    for (unsigned i = 0; i < to->count; i++) {
        const struct okv_uri *there = &to->list[i];
        if (there->scheme == OKV_SCHEME_RDMA && strcmp(there->host, host) == 0 &&
            strcmp(there->port, uri->port) == 0)
            return true;
    }
    return false;
}

/* Adds `uri`, at `host` unless that is NULL. */
static int add(struct expansion *to, const struct okv_uri *uri, const char *host)
{
    if (to->count == OKV_LISTENERS_MAX)
        return okv_diag_set(to->diag, OKV_EADDRESS,
                            "%s stands for more than %d listeners with the others: name the "
                            "addresses that clients use",
                            uri->host, OKV_LISTENERS_MAX);
    struct okv_uri *added = &to->list[to->count++];
    *added = *uri;
    if (host)
        snprintf(added->host, sizeof added->host, "%s", host);
    return 0;
}

static int add_named_device(struct expansion *to, const struct okv_uri *uri, int family)
{
    char address[OKV_CHOICE_SIZE];
    bool is_any = family >= 0;
    int rc = okv_device_choose(to->ports, uri, is_any ? family : AF_UNSPEC, is_any ? "" : uri->host,
                               address, to->diag);
    if (rc == 0 && is_there(to, uri, address))
        rc = okv_diag_set(to->diag, OKV_EADDRESS,
                          "%s: another --listen has this address: leave one of them out", address);
    return rc ? rc : add(to, uri, address);
}

/* Why the port has no address of the family; NULL: it has one. */
static const char *lacks(const struct okv_port *port, int family)
{
    const char *flaw = okv_port_flaw(port);

    if (okv_port_best_gid(port, family))
        return NULL;
    return flaw ? flaw : "has no such address";
}

/* The port's address for a listener, or why it has none. */
static const char *name_address(const struct expansion *to, const struct okv_port *port,
                                const struct okv_uri *uri, int family,
                                char address[OKV_CHOICE_SIZE])
{
    const struct okv_gid *gid = okv_port_best_gid(port, family);

    if (!gid)
        return lacks(port, family);
    /* Nearly every port of RoCE has one, whether anybody uses it or not. */
    if (IN6_IS_ADDR_LINKLOCAL(&gid->raw))
        return "has link-local addresses only: ?device= may name it";
    okv_gid_address(gid, address);
    return is_there(to, uri, address) ? "has the address of another listener" : NULL;
}

static void say_without(const struct expansion *to, const struct okv_port *port, const char *why)
{
    okv_log_say(to->log, OKV_LOG_NOTICE, "listener", "not on %s port %u, which %s", port->device,
                port->number, why);
}

static int none_usable(const struct expansion *to, const struct okv_uri *uri)
{
    return okv_diag_set(to->diag, OKV_EADDRESS,
                        "no port of the RDMA devices here is usable for %s: see above and 'okv "
                        "doctor'",
                        uri->host);
}

static int add_usable_ports(struct expansion *to, const struct okv_uri *uri, int family)
{
    const unsigned before = to->count;
    char address[OKV_CHOICE_SIZE];

    for (unsigned i = 0; i < to->ports->count; i++) {
        const struct okv_port *port = &to->ports->list[i];
        const char *why = name_address(to, port, uri, family, address);
        int rc = why ? 0 : add(to, uri, address);
        if (why)
            say_without(to, port, why);
        if (rc)
            return rc;
    }
    return to->count > before ? 0 : none_usable(to, uri);
}

/* All addresses of the only device, also those that are of no GID: InfiniBand's of IPoIB. */
static int add_only_device(struct expansion *to, const struct okv_uri *uri, int family)
{
    unsigned usable = 0;

    for (unsigned i = 0; i < to->ports->count; i++) {
        const struct okv_port *port = &to->ports->list[i];
        bool is_infiniband = port->is_active && !port->is_ethernet;
        const char *why = is_infiniband ? NULL : lacks(port, family);
        usable += why == NULL;
        if (why)
            say_without(to, port, why);
    }
    return usable > 0 || to->ports->count == 0 ? add(to, uri, NULL) : none_usable(to, uri);
}

/* Ports are in the order of their devices. */
static bool has_several_devices(const struct okv_ports *ports)
{
    return ports->count > 1 &&
           strcmp(ports->list[0].device, ports->list[ports->count - 1].device) != 0;
}

static int expand(struct expansion *to, const struct okv_uri *uri)
{
    int family = wildcard_family(uri->host);

    if (uri->scheme == OKV_SCHEME_RDMA && uri->device[0])
        return add_named_device(to, uri, family);
    if (uri->scheme != OKV_SCHEME_RDMA || family < 0)
        return add(to, uri, NULL);
    return has_several_devices(to->ports) ? add_usable_ports(to, uri, family)
                                          : add_only_device(to, uri, family);
}

int okv_listen_devices(struct okv_config *config, const char *root, struct okv_log *log,
                       struct okv_diag *diag)
{
    struct okv_ports ports;
    struct expansion to = {.ports = &ports, .log = log, .diag = diag};
    int rc = okv_ports_read(root, &ports, diag);

    if (rc)
        return rc;
    for (unsigned i = 0; rc == 0 && i < config->listen_count; i++)
        rc = expand(&to, &config->listen[i]);
    okv_ports_fini(&ports);
    if (rc)
        return rc;
    memcpy(config->listen, to.list, sizeof config->listen);
    config->listen_count = to.count;
    return 0;
}
