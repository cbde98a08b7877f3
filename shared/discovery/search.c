/* Asks on all interfaces at once, and collects the answers. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/discovery/discovery.h"

#define PORTS_MAX 32
#define MS UINT64_C(1000000)
#define ASK_EVERY_NS (100 * MS) /* queries and answers get lost */
#define ANSWERS_PER_PASS 64     /* of one port, before the clock is looked at */

struct asking {
    const struct okv_discovery_search *search;
    struct okv_discovery_found *found;
    uint64_t nonce;
    unsigned count;
    struct okv_discovery_port *ports[PORTS_MAX];
};

static void add_port(struct asking *asking, int rc, struct okv_discovery_port *port,
                     const struct okv_diag *reason, struct okv_diag *why)
{
    if (rc == 0)
        asking->ports[asking->count++] = port;
    else if (rc != OKV_ENODEVICE) /* an interface without RDMA is no failure */
        *why = *reason;
}

/* Opens what the interface has: a UD queue pair, a UDP socket, or both. */
static void open_on(struct asking *asking, const struct ifaddrs *interface, struct in_addr group,
                    struct okv_diag *why)
{
    struct okv_discovery_place place = {.group = group};
    struct okv_discovery_port *port = NULL;
    struct okv_diag diag;
    int rc;

    place.interface = ((const struct sockaddr_in *)(const void *)interface->ifa_addr)->sin_addr;
    /* The kernel would bind a loopback address to some device. */
    if (asking->search->rdma && !(interface->ifa_flags & IFF_LOOPBACK) &&
        asking->count < PORTS_MAX) {
        rc = okv_discovery_ud_open(&place, &port, &diag);
        add_port(asking, rc, port, &diag, why);
    }
    if (asking->search->udp && asking->count < PORTS_MAX) {
        rc = okv_discovery_udp_open(&place, &port, &diag);
        add_port(asking, rc, port, &diag, why);
    }
}

static bool is_wanted(const struct ifaddrs *interface, const char *source)
{
    char address[INET_ADDRSTRLEN];

    if (!interface->ifa_addr || interface->ifa_addr->sa_family != AF_INET ||
        !(interface->ifa_flags & IFF_UP))
        return false;
    inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)interface->ifa_addr)->sin_addr,
              address, sizeof address);
    return !source[0] || strcmp(source, address) == 0;
}

static int open_ports(struct asking *asking, struct okv_diag *diag)
{
    const struct okv_discovery_search *search = asking->search;
    struct okv_diag why = {.text = ""};
    struct ifaddrs *interfaces;
    struct in_addr group;

    if (inet_pton(AF_INET, search->group[0] ? search->group : OKV_DISCOVERY_GROUP, &group) != 1)
        return okv_diag_set(diag, OKV_EINVAL, "%s is not a group", search->group);
    if (getifaddrs(&interfaces))
        return okv_diag_set(diag, OKV_EIO, "the network interfaces cannot be listed: %s",
                            strerror(errno));
    for (const struct ifaddrs *i = interfaces; i; i = i->ifa_next)
        if (is_wanted(i, search->source))
            open_on(asking, i, group, &why);
    freeifaddrs(interfaces);
    if (asking->count > 0)
        return 0;
    if (why.text[0])
        return okv_diag_set(diag, OKV_EADDRESS, "%s", why.text);
    return okv_diag_set(diag, OKV_ENODEVICE,
                        "no interface to look for servers on: discovery needs %s with %s%s (%s)",
                        search->udp ? "a network interface" : "an RDMA device",
                        search->source[0] ? "the address " : "an IPv4 address", search->source,
                        search->udp ? "'ip addr'" : "'ip addr', 'rdma link'");
}

static void close_port(struct asking *asking, unsigned index)
{
    asking->ports[index]->ops->close(asking->ports[index]);
    asking->ports[index] = asking->ports[--asking->count];
}

static void merge_uris(struct okv_discovery_answer *into, const struct okv_discovery_answer *from)
{
    for (unsigned i = 0; i < from->uri_count; i++) {
        unsigned same = 0;
        while (same < into->uri_count && strcmp(into->uris[same], from->uris[i]) != 0)
            same++;
        if (same == into->uri_count && same < OKV_DISCOVERY_URIS) {
            memcpy(into->uris[same], from->uris[i], OKV_DISCOVERY_URI_SIZE);
            into->uri_count++;
        }
    }
}

/* A server answers several times, and on several interfaces. */
static void take(struct asking *asking, const uint8_t *datagram, size_t length)
{
    struct okv_discovery_found *found = asking->found;
    const char *name = asking->search->name;
    struct okv_discovery_answer answer;

    if (okv_discovery_answer_decode(datagram, length, &answer) || answer.nonce != asking->nonce ||
        (name[0] && strcmp(name, answer.name) != 0))
        return;
    for (unsigned i = 0; i < found->count; i++) {
        if (found->servers[i].boot_id == answer.boot_id) {
            merge_uris(&found->servers[i], &answer);
            return;
        }
    }
    if (found->count < OKV_DISCOVERY_FOUND_MAX)
        found->servers[found->count++] = answer;
}

static void take_all(struct asking *asking)
{
    for (unsigned i = asking->count; i-- > 0;) {
        const uint8_t *datagram;
        size_t length;
        int rc = 1;
        for (unsigned n = 0; n < ANSWERS_PER_PASS && rc == 1; n++) {
            rc = asking->ports[i]->ops->receive(asking->ports[i], &datagram, &length);
            if (rc == 1)
                take(asking, datagram, length);
        }
        if (rc < 0)
            close_port(asking, i);
    }
}

static void ask_all(struct asking *asking)
{
    struct okv_discovery_query query = {.nonce = asking->nonce};
    struct okv_wire_discovery datagram;

    memcpy(query.name, asking->search->name, strnlen(asking->search->name, sizeof query.name - 1));
    okv_discovery_query_encode(&query, &datagram);
    for (unsigned i = asking->count; i-- > 0;)
        if (asking->ports[i]->ops->ask(asking->ports[i], &datagram))
            close_port(asking, i);
}

static void wait_for_answers(struct asking *asking, uint64_t until_ns)
{
    struct pollfd fds[PORTS_MAX];

    for (unsigned i = 0; i < asking->count; i++)
        fds[i] = (struct pollfd){.fd = asking->ports[i]->fd, .events = POLLIN};
    poll(fds, asking->count, okv_clock_ms_until(until_ns));
}

static void ask_until_the_end(struct asking *asking)
{
    const struct okv_discovery_search *search = asking->search;
    uint64_t now = okv_clock_ns();
    uint64_t settled = now + search->settle_ms * MS;
    uint64_t end = now + search->timeout_ms * MS;
    uint64_t ask = now;

    while (asking->count > 0 && now < end &&
           !(search->settle_ms && asking->found->count && now >= settled)) {
        if (now >= ask) {
            ask_all(asking);
            ask = now + ASK_EVERY_NS;
        }
        wait_for_answers(asking, ask < end ? ask : end);
        take_all(asking);
        now = okv_clock_ns();
    }
}

int okv_discovery_search(const struct okv_discovery_search *search, struct okv_discovery_found *out,
                         struct okv_diag *diag)
{
    struct asking asking = {.search = search, .found = out};

    out->count = 0;
    /* Only a host that saw the query can answer it. */
    if (getrandom(&asking.nonce, sizeof asking.nonce, 0) != sizeof asking.nonce)
        return okv_diag_set(diag, OKV_EIO, "no random bytes from the system: %s", strerror(errno));
    int rc = open_ports(&asking, diag);
    if (rc)
        return rc;
    ask_until_the_end(&asking);
    if (asking.count == 0 && out->count == 0)
        return okv_diag_set(diag, OKV_EIO, "the query could be sent on no interface");
    while (asking.count > 0)
        close_port(&asking, asking.count - 1);
    return 0;
}
