#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/cli/doctor/checks.h"
#include "shared/base/resolve.h"
#include "shared/base/uri_list.h"
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

static bool is_named(const struct okv_uri *uri, const struct okv_port *port)
{
    return (!uri->device[0] || strcmp(uri->device, port->device) == 0) &&
           (!uri->port_number || uri->port_number == port->number);
}

/* Reports the port that has the address. False: none has. */
static bool tell_port(struct doctor_report *report, const char *root, const char *server,
                      const struct okv_ports *ports, const struct okv_uri *uri, const char *address)
{
    char interface[IF_NAMESIZE];

    for (unsigned i = 0; i < ports->count; i++) {
        const struct okv_port *port = &ports->list[i];
        const struct okv_gid *gid = okv_port_gid_of(port, address);
        if (!is_named(uri, port))
            continue;
        if (gid)
            doctor_add(report, DOCTOR_OK, WHAT, NULL, "%s leaves by %s port %u, GID %u (%s)",
                       server, port->device, port->number, gid->index, address);
        else if (!port->is_ethernet && doctor_ipoib_find(root, port, address, interface))
            doctor_add(report, DOCTOR_OK, WHAT, NULL, "%s leaves by %s port %u, %s (%s)", server,
                       port->device, port->number, interface, address);
        else
            continue;
        return true;
    }
    return false;
}

/* Finds the source address for the first address of the server that has a route. */
static int find_way(const struct okv_ports *ports, const struct okv_uri *uri,
                    const struct addrinfo *to, char address[OKV_CHOICE_SIZE], struct okv_diag *diag)
{
    int rc = OKV_EADDRESS;

    for (; to && rc; to = to->ai_next)
        if (uri->device[0])
            rc = okv_device_choose(ports, uri, to->ai_family, uri->source, address, diag);
        else if (find_source(to, address))
            rc = 0;
        else
            okv_diag_set(diag, rc, "no route leads to any of its addresses");
    return rc;
}

/* Never a problem: connecting decides. */
static void tell_way(struct doctor_report *report, const char *root, const char *server,
                     const struct okv_ports *ports, const struct okv_uri *uri,
                     const struct addrinfo *to)
{
    char address[sizeof uri->source];
    struct okv_diag diag = {""};

    snprintf(address, sizeof address, "%s", uri->source);
    if ((uri->device[0] || !address[0]) && find_way(ports, uri, to, address, &diag)) {
        doctor_add(report, DOCTOR_NOTE, WHAT, "correct the URI, or add a route", "%s: %s", server,
                   diag.text);
        return;
    }
    if (tell_port(report, root, server, ports, uri, address))
        return;
    doctor_add(report, DOCTOR_NOTE, WHAT,
               "add a route through an RDMA device, or name one by ?device= or ?source=",
               "%s leaves by the address %s, which no RDMA device here has", server, address);
}

static void tell_unknown(struct doctor_report *report, const char *server,
                         const struct okv_diag *diag)
{
    doctor_add(report, DOCTOR_NOTE, WHAT, "correct the name, or see that the resolver knows it",
               "%s: %s", server, diag->text);
}

static void check_rdma(struct doctor_report *report, const char *root, const char *server,
                       const struct okv_uri *uri)
{
    struct addrinfo *addresses;
    struct okv_ports ports;
    struct okv_diag diag = {""};

    if (okv_resolve(uri->host, uri->port, 0, &addresses, &diag)) {
        tell_unknown(report, server, &diag);
        return;
    }
    if (okv_ports_read(root, &ports, NULL) == 0) {
        if (ports.count > 0) /* it was reported that there are none */
            tell_way(report, root, server, &ports, uri, addresses);
        okv_ports_fini(&ports);
    }
    freeaddrinfo(addresses);
}

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

static void check_tcp(struct doctor_report *report, const char *server, const struct okv_uri *uri)
{
    char address[sizeof uri->source] = "";
    struct addrinfo *addresses;
    struct okv_diag diag;

    if (okv_resolve(uri->host, uri->port, 0, &addresses, &diag)) {
        tell_unknown(report, server, &diag);
        return;
    }
    snprintf(address, sizeof address, "%s", uri->source);
    for (const struct addrinfo *to = addresses; to && !address[0]; to = to->ai_next)
        find_source(to, address);
    freeaddrinfo(addresses);
    if (!address[0])
        doctor_add(report, DOCTOR_NOTE, WHAT, "correct the URI, or add a route",
                   "%s: no route leads to any of its addresses", server);
    else if (uri->tls)
        doctor_add(report, DOCTOR_OK, WHAT, NULL, "%s leaves by the address %s, with TLS", server,
                   address);
    else if (is_loopback(address))
        doctor_add(report, DOCTOR_OK, WHAT, NULL, "%s stays on this host", server);
    else
        doctor_add(report, DOCTOR_NOTE, WHAT, "beyond a network that you trust use tcps://",
                   "%s leaves by the address %s, not encrypted", server, address);
}

static void check_server(struct doctor_report *report, const char *root, const char *server)
{
    struct okv_uri uri;
    struct okv_diag diag;

    if (okv_uri_parse(server, &uri, &diag))
        return;
    if (uri.name[0])
        doctor_add(report, DOCTOR_OK, WHAT, NULL,
                   "%s: looked up in the multicast group at each attempt", server);
    else if (uri.scheme == OKV_SCHEME_RDMA)
        check_rdma(report, root, server, &uri);
    else if (uri.scheme == OKV_SCHEME_TCP)
        check_tcp(report, server, &uri);
    else if (uri.scheme == OKV_SCHEME_OFI)
        doctor_add(report, DOCTOR_OK, WHAT, NULL, "%s: libfabric, by the provider %s", server,
                   uri.provider[0] ? uri.provider : "of the server");
    else if (uri.scheme == OKV_SCHEME_LOCAL)
        doctor_add(report, DOCTOR_OK, WHAT, NULL, "%s: shared memory with a server on this host",
                   server);
}

void doctor_check_route(struct doctor_report *report, const char *root, const char *uri)
{
    struct okv_uri_list list;

    if (okv_uri_list_parse(uri, &list, NULL))
        return; /* connecting says why */
    for (unsigned i = 0; i < list.count; i++) {
        char *server = okv_uri_list_server(&list, list.servers[i]);
        if (server)
            check_server(report, root, server);
        free(server);
    }
    okv_uri_list_free(&list);
}
