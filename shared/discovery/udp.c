/* Discovery by UDP. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "shared/discovery/discovery.h"

struct udp_port {
    struct okv_discovery_port base;
    struct sockaddr_in group;
    struct sockaddr_in sender;                           /* of the latest datagram */
    uint8_t datagram[sizeof(struct okv_wire_discovery)]; /* the latest */
};

static int send_to(struct udp_port *port, const struct sockaddr_in *to,
                   const struct okv_wire_discovery *datagram)
{
    /* A failure concerns this datagram: the interface is down, or its queue is full. */
    (void)!sendto(port->base.fd, datagram, sizeof *datagram, MSG_DONTWAIT | MSG_NOSIGNAL,
                  (const struct sockaddr *)to, sizeof *to);
    return 0;
}

static int udp_ask(struct okv_discovery_port *port, const struct okv_wire_discovery *query)
{
    struct udp_port *udp = (struct udp_port *)port;

    return send_to(udp, &udp->group, query);
}

static int udp_answer(struct okv_discovery_port *port, const struct okv_wire_discovery *answer)
{
    struct udp_port *udp = (struct udp_port *)port;

    return send_to(udp, &udp->sender, answer);
}

static int udp_receive(struct okv_discovery_port *port, const uint8_t **datagram, size_t *length)
{
    struct udp_port *udp = (struct udp_port *)port;
    ssize_t received;

    do {
        socklen_t size = sizeof udp->sender;
        /* MSG_TRUNC: the length is the datagram's own, also of one that does not fit. */
        received = recvfrom(port->fd, udp->datagram, sizeof udp->datagram, MSG_DONTWAIT | MSG_TRUNC,
                            (struct sockaddr *)&udp->sender, &size);
    } while (received < 0 && (errno == EINTR || errno == ECONNREFUSED)); /* of an earlier send */
    if (received < 0)
        return errno == EAGAIN ? 0 : OKV_EIO;
    *datagram = udp->datagram;
    *length = (size_t)received;
    return 1;
}

static void udp_close(struct okv_discovery_port *port)
{
    close(port->fd);
    free(port);
}

/* Queries and answers stay on the link: their TTL is 1. */
static int set_up(struct udp_port *udp, const struct okv_discovery_place *place)
{
    const struct ip_mreqn interface = {.imr_multiaddr = place->group,
                                       .imr_address = place->interface};
    const int one = 1, zero = 0;
    int fd = udp->base.fd;

    if (setsockopt(fd, IPPROTO_IP, IP_TTL, &one, sizeof one) ||
        setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface))
        return -1;
    if (!place->listens)
        return 0;
    /* Servers of one host share the port. Bound to the group, the socket receives nothing else;
     * without IP_MULTICAST_ALL, nothing that came in by another interface. */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) ||
        setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &zero, sizeof zero) ||
        bind(fd, (const struct sockaddr *)&udp->group, sizeof udp->group))
        return -1;
    return setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &interface, sizeof interface);
}

int okv_discovery_udp_open(const struct okv_discovery_place *place, struct okv_discovery_port **out,
                           struct okv_diag *diag)
{
    static const struct okv_discovery_port_ops ops = {
        .ask = udp_ask, .receive = udp_receive, .answer = udp_answer, .close = udp_close};
    char address[INET_ADDRSTRLEN];
    struct udp_port *udp = calloc(1, sizeof *udp);

    if (!udp)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for discovery");
    udp->base.ops = &ops;
    udp->group = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(OKV_DISCOVERY_PORT), .sin_addr = place->group};
    udp->base.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (udp->base.fd >= 0 && set_up(udp, place) == 0) {
        *out = &udp->base;
        return 0;
    }
    int errnum = errno;
    if (udp->base.fd >= 0)
        close(udp->base.fd);
    free(udp);
    inet_ntop(AF_INET, &place->interface, address, sizeof address);
    return okv_diag_set(diag, okv_error_from_errno(errnum),
                        "discovery by UDP does not work on the interface of %s: %s", address,
                        strerror(errnum));
}
