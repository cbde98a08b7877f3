#include "shared/devices/choice.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/error.h"

enum { RANK_UNUSABLE, RANK_LINK_LOCAL, RANK_IPV6, RANK_IPV4 };

void okv_gid_address(const struct okv_gid *gid, char out[OKV_CHOICE_SIZE])
{
    if (IN6_IS_ADDR_V4MAPPED(&gid->raw)) {
        inet_ntop(AF_INET, &gid->raw.s6_addr[12], out, OKV_CHOICE_SIZE);
        return;
    }
    inet_ntop(AF_INET6, &gid->raw, out, OKV_CHOICE_SIZE);
    size_t length = strlen(out);
    if (IN6_IS_ADDR_LINKLOCAL(&gid->raw))
        snprintf(out + length, OKV_CHOICE_SIZE - length, "%%%s", gid->interface);
}

/* True when the connection manager takes another GID for the same address. */
static bool has_better_twin(const struct okv_port *port, const struct okv_gid *gid)
{
    for (unsigned i = 0; i < port->gid_count && !gid->is_v2; i++)
        if (port->gids[i].is_v2 && IN6_ARE_ADDR_EQUAL(&port->gids[i].raw, &gid->raw))
            return true;
    return false;
}

static int rank(const struct okv_port *port, const struct okv_gid *gid)
{
    if (!port->is_active || !port->is_ethernet || !gid->interface[0] || !gid->is_here ||
        has_better_twin(port, gid))
        return RANK_UNUSABLE;
    if (IN6_IS_ADDR_V4MAPPED(&gid->raw))
        return RANK_IPV4;
    return IN6_IS_ADDR_LINKLOCAL(&gid->raw) ? RANK_LINK_LOCAL : RANK_IPV6;
}

static bool is_of_family(const struct okv_gid *gid, int family)
{
    return family == AF_UNSPEC || (family == AF_INET) == IN6_IS_ADDR_V4MAPPED(&gid->raw);
}

/* True for "", and for an address of the GID, with its zone or without. */
static bool has_address(const struct okv_gid *gid, const char *address)
{
    char host[OKV_CHOICE_SIZE];
    struct in6_addr raw = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    size_t length = strcspn(address, "%");

    snprintf(host, sizeof host, "%.*s", (int)length, address);
    if (inet_pton(AF_INET, host, &raw.s6_addr[12]) != 1 && inet_pton(AF_INET6, host, &raw) != 1)
        return address[0] == '\0';
    return IN6_ARE_ADDR_EQUAL(&raw, &gid->raw) &&
           (!address[length] || strcmp(address + length + 1, gid->interface) == 0);
}

static const struct okv_gid *best_gid(const struct okv_port *port, int family,
                                      const struct okv_uri *uri, const char *address)
{
    const struct okv_gid *best = NULL;
    int best_rank = RANK_UNUSABLE;

    for (unsigned i = 0; i < port->gid_count; i++) {
        const struct okv_gid *gid = &port->gids[i];
        int it = rank(port, gid);
        if (it <= best_rank || !is_of_family(gid, family) ||
            (uri && uri->has_gid && gid->index != uri->gid) || !has_address(gid, address))
            continue;
        best = gid;
        best_rank = it;
    }
    return best;
}

const struct okv_gid *okv_port_best_gid(const struct okv_port *port, int family)
{
    return best_gid(port, family, NULL, "");
}

const struct okv_gid *okv_port_gid_of(const struct okv_port *port, const char *address)
{
    return best_gid(port, AF_UNSPEC, NULL, address);
}

const char *okv_port_flaw(const struct okv_port *port)
{
    if (!port->is_active)
        return "is not active";
    if (!port->is_ethernet)
        return "is InfiniBand, whose GIDs are no addresses: name that of its IPoIB interface";
    if (!okv_port_best_gid(port, AF_UNSPEC))
        return "has no GID with an address of this host, or of this container: add one to its "
               "network device here";
    return NULL;
}

/* Names what can be named, of many the first. */
static void name_usable(const struct okv_ports *ports, char *out, size_t size)
{
    char address[OKV_CHOICE_SIZE], entry[OKV_CHOICE_SIZE + 128];
    const size_t room = size - sizeof " and 4294967295 more";
    unsigned left_out = 0;
    size_t used = 0;

    snprintf(out, size, "no port here is usable, 'okv doctor' says why");
    for (unsigned i = 0; i < ports->count; i++) {
        const struct okv_port *port = &ports->list[i];
        const struct okv_gid *gid = okv_port_best_gid(port, AF_UNSPEC);
        if (!gid)
            continue;
        okv_gid_address(gid, address);
        size_t length = (size_t)snprintf(entry, sizeof entry, "%sdevice=%s&port=%u&gid=%u (%s)",
                                         used ? ", " : "usable are ", port->device, port->number,
                                         gid->index, address);
        if (left_out > 0 || used + length > room) {
            left_out++;
            continue;
        }
        memcpy(out + used, entry, length + 1);
        used += length;
    }
    if (left_out > 0)
        snprintf(out + used, size - used, used ? " and %u more" : "'okv doctor' lists %u usable",
                 left_out);
}

/* Why nothing of what was found fits. `port` is the last one that was named, or NULL. */
static int refuse(const struct okv_ports *ports, const struct okv_uri *uri,
                  const struct okv_port *port, const char *address, struct okv_diag *diag)
{
    const char *flaw = port ? okv_port_flaw(port) : NULL;
    char text[sizeof((struct okv_diag *)0)->text], why[128], number[16] = "";

    if (uri->port_number)
        snprintf(number, sizeof number, " port %u", uri->port_number);
    if (!port)
        snprintf(why, sizeof why, "is not an RDMA device of this machine");
    else if (flaw)
        snprintf(why, sizeof why, "%s", flaw);
    else if (uri->has_gid)
        snprintf(why, sizeof why, "has no usable GID %u%s%s", uri->gid, address[0] ? " of " : "",
                 address);
    else
        snprintf(why, sizeof why, "has no GID of %s",
                 address[0] ? address : "the same kind of address");
    int used = snprintf(text, sizeof text, "%s%s %s; ", uri->device, number, why);
    name_usable(ports, text + used, sizeof text - (size_t)used);
    return okv_diag_set(diag, OKV_EADDRESS, "%s", text);
}

int okv_device_choose(const struct okv_ports *ports, const struct okv_uri *uri, int family,
                      const char *address, char out[OKV_CHOICE_SIZE], struct okv_diag *diag)
{
    const struct okv_port *named = NULL;

    for (unsigned i = 0; i < ports->count; i++) {
        const struct okv_port *port = &ports->list[i];
        if (strcmp(port->device, uri->device) != 0 ||
            (uri->port_number && port->number != uri->port_number))
            continue;
        const struct okv_gid *gid = best_gid(port, family, uri, address);
        if (gid) {
            okv_gid_address(gid, out);
            return 0;
        }
        named = port;
    }
    return refuse(ports, uri, named, address, diag);
}
