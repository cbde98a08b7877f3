#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/cli/doctor/checks.h"
#include "shared/base/resolve.h"
#include "shared/base/uri.h"
#include "shared/devices/choice.h"

#define WHAT "route"

_Static_assert(sizeof((struct okv_uri *)0)->source >= OKV_CHOICE_SIZE, "an address fits");

/* The address that the kernel sends from: a datagram socket asks the routes, and sends nothing. */
static bool find_source(const struct addrinfo *to, char out[OKV_CHOICE_SIZE])
{
    struct sockaddr_storage from;
    socklen_t length = sizeof from;
    int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool is_found = fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
                    getsockname(fd, (struct sockaddr *)&from, &length) == 0;

    if (is_found)
        okv_host_text((const struct sockaddr *)&from, out, OKV_CHOICE_SIZE);
    if (fd >= 0)
        close(fd);
    return is_found;
}

/* Says which port and GID have the address. False: none has. */
static bool tell_gid(struct doctor_report *report, const char *server,
                     const struct okv_ports *ports, const char *address)
{
    char its[OKV_CHOICE_SIZE];

    for (unsigned i = 0; i < ports->count; i++) {
        const struct okv_port *port = &ports->list[i];
        for (unsigned k = 0; k < port->gid_count; k++) {
            okv_gid_address(&port->gids[k], its);
            its[strcspn(its, "%")] = '\0';
            if (strcmp(its, address) != 0 || (port->is_ethernet && !port->gids[k].is_v2))
                continue;
            doctor_add(report, DOCTOR_OK, WHAT, NULL, "%s leaves by %s port %u, GID %u (%s)",
                       server, port->device, port->number, port->gids[k].index, address);
            return true;
        }
    }
    return false;
}

/* The GIDs of InfiniBand are no addresses. */
static bool has_infiniband(const struct okv_ports *ports)
{
    for (unsigned i = 0; i < ports->count; i++)
        if (!ports->list[i].is_ethernet)
            return true;
    return false;
}

static void tell_way(struct doctor_report *report, const char *server,
                     const struct okv_ports *ports, const struct okv_uri *uri,
                     const struct addrinfo *to)
{
    char address[sizeof uri->source] = "";
    struct okv_diag diag = {""};

    snprintf(address, sizeof address, "%s", uri->source);
    if (uri->device[0] &&
        okv_device_choose(ports, uri, to->ai_family, uri->source, address, &diag)) {
        doctor_add(report, DOCTOR_PROBLEM, WHAT, "name one of these in the URI", "%s: %s", server,
                   diag.text);
        return;
    }
    if (!address[0] && !find_source(to, address)) {
        doctor_add(report, DOCTOR_PROBLEM, WHAT, "ip route get ADDRESS", "%s: no route leads there",
                   server);
        return;
    }
    address[strcspn(address, "%")] = '\0';
    if (tell_gid(report, server, ports, address))
        return;
    bool may_be = has_infiniband(ports);
    doctor_add(report, may_be ? DOCTOR_OK : DOCTOR_PROBLEM, WHAT,
               may_be ? NULL : "a route through an RDMA device, or ?device= or ?source= in the URI",
               may_be ? "%s leaves by the address %s"
                      : "%s leaves by the address %s, which no RDMA device here has",
               server, address);
}

static void check_rdma(struct doctor_report *report, const char *root, const char *server,
                       const struct okv_uri *uri)
{
    struct addrinfo *addresses;
    struct okv_ports ports;
    struct okv_diag diag = {""};

    if (okv_resolve(uri->host, uri->port, 0, &addresses, &diag)) {
        doctor_add(report, DOCTOR_PROBLEM, WHAT, "the name in the URI, or the resolver", "%s: %s",
                   server, diag.text);
        return;
    }
    if (okv_ports_read(root, &ports, NULL) == 0) {
        if (ports.count > 0) /* it was said that there are none */
            tell_way(report, server, &ports, uri, addresses);
        okv_ports_fini(&ports);
    }
    freeaddrinfo(addresses);
}

void doctor_check_route(struct doctor_report *report, const char *root, const char *server)
{
    struct okv_uri uri;
    struct okv_diag diag;

    if (okv_uri_parse(server, &uri, &diag))
        return; /* connecting says why */
    if (uri.scheme == OKV_SCHEME_RDMA && !uri.name[0])
        check_rdma(report, root, server, &uri);
    else if (uri.scheme == OKV_SCHEME_RDMA)
        doctor_add(report, DOCTOR_OK, WHAT, NULL,
                   "%s: where it leads is asked in a multicast group, through each interface",
                   server);
    else if (uri.scheme == OKV_SCHEME_OFI)
        doctor_add(report, DOCTOR_OK, WHAT, NULL, "%s: libfabric, by the provider %s", server,
                   uri.provider[0] ? uri.provider : "of the server");
    else if (uri.scheme == OKV_SCHEME_LOCAL)
        doctor_add(report, DOCTOR_OK, WHAT, NULL, "%s: shared memory with a server on this host",
                   server);
}
