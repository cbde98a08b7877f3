#include "server/net/announcer.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/core/server.h"
#include "server/database/database.h"
#include "shared/base/error.h"
#include "shared/base/thread.h"
#include "shared/format/superblock.h"

/* Datagrams of one port that are looked at before the next port gets its share. */
#define DATAGRAMS_PER_PASS 64

static bool is_local(const struct okv_listener *listener)
{
    return strncmp(listener->where, "local:", 6) == 0;
}

static bool is_rdma(const struct okv_listener *listener)
{
    return strncmp(listener->where, "rdma:", 5) == 0;
}

/* The IPv4 address that a listener has; false: it has none. */
static bool address_of(const struct okv_listener *listener, struct in_addr *out)
{
    struct okv_uri uri;

    return okv_uri_parse(listener->where, &uri, NULL) == 0 &&
           inet_pton(AF_INET, uri.host, out) == 1;
}

static bool is_loopback(struct in_addr address)
{
    return ntohl(address.s_addr) >> 24 == 127;
}

static void add_uri(struct okv_discovery_answer *answer, const struct okv_listener *listener)
{
    if (answer->uri_count < OKV_DISCOVERY_URIS && okv_discovery_uri_fits(listener->where))
        snprintf(answer->uris[answer->uri_count++], OKV_DISCOVERY_URI_SIZE, "%s", listener->where);
}

/* On the loopback interface: all listeners, those of this host first. Elsewhere: those with the
 * interface's address. */
static void list_uris(const struct okv_server *server, struct okv_announced_port *port)
{
    bool is_all = is_loopback(port->interface);
    struct in_addr address;

    for (unsigned i = 0; is_all && i < server->listener_count; i++)
        if (is_local(server->listeners[i]))
            add_uri(&port->answer, server->listeners[i]);
    for (unsigned i = 0; i < server->listener_count; i++) {
        const struct okv_listener *listener = server->listeners[i];
        bool is_here = address_of(listener, &address) && address.s_addr == port->interface.s_addr;
        if (!is_local(listener) && (is_all || is_here))
            add_uri(&port->answer, listener);
    }
}

/* Opens the port of an interface, once. */
static int open_port(struct okv_server *server, struct in_addr interface, bool is_udp,
                     struct okv_diag *diag)
{
    struct okv_announcer *announcer = server->announcer;
    struct okv_announced_port *port = &announcer->ports[announcer->count];
    struct okv_discovery_place place = {.interface = interface, .listens = true};

    for (unsigned i = 0; i < announcer->count; i++)
        if (announcer->ports[i].interface.s_addr == interface.s_addr &&
            announcer->ports[i].is_udp == is_udp)
            return 0;
    *port = (struct okv_announced_port){
        .interface = interface, .is_udp = is_udp, .answer.boot_id = server->boot_id};
    snprintf(port->answer.name, sizeof port->answer.name, "%s", server->config.name);
    snprintf(port->answer.release, sizeof port->answer.release, "%s", OKV_VERSION);
    list_uris(server, port);
    if (port->answer.uri_count == 0)
        return okv_diag_set(diag, OKV_EINVAL,
                            "--announce: the path of a socket may have printable ASCII characters "
                            "only: rename it");
    inet_pton(AF_INET, server->config.group, &place.group);
    int rc = is_udp ? okv_discovery_udp_open(&place, &port->port, diag)
                    : okv_discovery_ud_open(&place, &port->port, diag);
    if (rc == 0)
        announcer->count++;
    return rc;
}

static int open_for(struct okv_server *server, const struct okv_listener *listener,
                    struct okv_diag *diag)
{
    const struct in_addr loopback = {htonl(INADDR_LOOPBACK)};
    struct in_addr interface;

    if (is_local(listener))
        return open_port(server, loopback, true, diag);
    if (!address_of(listener, &interface))
        return okv_diag_set(diag, OKV_EADDRESS,
                            "--announce: %s has no IPv4 address, and discovery groups are IPv4: "
                            "listen on an IPv4 address, or leave --announce out",
                            listener->where);
    if (is_rdma(listener))
        return open_port(server, interface, false, diag);
    return open_port(server, is_loopback(interface) ? loopback : interface, true, diag);
}

int okv_announcer_open(struct okv_server *server, struct okv_diag *diag)
{
    if (!server->config.group[0])
        return 0;
    for (unsigned i = 0; i < server->listener_count; i++) {
        int rc = open_for(server, server->listeners[i], diag);
        if (rc) {
            okv_announcer_close(server->announcer);
            return rc;
        }
    }
    return 0;
}

static void close_port(struct okv_announcer *announcer, unsigned index)
{
    announcer->ports[index].port->ops->close(announcer->ports[index].port);
    announcer->ports[index] = announcer->ports[--announcer->count];
}

void okv_announcer_close(struct okv_announcer *announcer)
{
    while (announcer->count > 0)
        close_port(announcer, announcer->count - 1);
}

/* Each answer moves next_ns on by its share of a second, from a burst ago at the earliest. */
static bool is_within_rate(struct okv_announcer *announcer, uint64_t now_ns)
{
    const uint64_t share_ns = 1000000000u / OKV_ANNOUNCER_RATE;
    const uint64_t burst_ns = share_ns * (OKV_ANNOUNCER_BURST - 1);

    if (announcer->next_ns + burst_ns < now_ns)
        announcer->next_ns = now_ns - burst_ns;
    if (announcer->next_ns > now_ns)
        return false;
    announcer->next_ns += share_ns;
    return true;
}

static int answer(struct okv_server *server, struct okv_announced_port *port, uint64_t nonce)
{
    struct okv_wire_discovery datagram;
    uint64_t items = 0, memory_used = 0;

    for (unsigned i = 0; i < server->database_count; i++) {
        const struct okv_store *store = &server->databases[i].store;
        items += atomic_load(&store->totals.items);
        memory_used += OKV_HEAP_OFFSET + okv_heap_used(&store->heap);
    }
    port->answer.nonce = nonce;
    port->answer.items = okv_discovery_coarse(items);
    port->answer.memory_used = okv_discovery_coarse(memory_used);
    okv_discovery_answer_encode(&port->answer, &datagram);
    OKV_STATS_ADD(&server->stats, discovery_answers, 1);
    return port->port->ops->answer(port->port, &datagram);
}

static int handle(struct okv_server *server, struct okv_announced_port *port,
                  const uint8_t *datagram, size_t length, uint64_t now_ns)
{
    struct okv_discovery_query query;

    if (okv_discovery_query_decode(datagram, length, &query)) {
        OKV_STATS_ADD(&server->stats, discovery_malformed, 1);
        return 0;
    }
    if (query.name[0] && strcmp(query.name, port->answer.name) != 0)
        return 0;
    if (!is_within_rate(server->announcer, now_ns)) {
        OKV_STATS_ADD(&server->stats, discovery_limited, 1);
        return 0;
    }
    return answer(server, port, query.nonce);
}

/* A server that ends is not found. Returns 1 when there may be more, 0, or a negative code when the
 * port failed. */
static int serve_port(struct okv_server *server, struct okv_announced_port *port, uint64_t now_ns)
{
    const uint8_t *datagram;
    size_t length;
    int rc = 1;

    for (unsigned i = 0; i < DATAGRAMS_PER_PASS && rc == 1 && !atomic_load(&server->stopping);
         i++) {
        rc = port->port->ops->receive(port->port, &datagram, &length);
        if (rc == 1 && handle(server, port, datagram, length, now_ns))
            rc = OKV_EIO;
    }
    return rc;
}

static void log_failure(struct okv_server *server, const struct okv_announced_port *port,
                        uint64_t now_ns)
{
    char address[INET_ADDRSTRLEN], text[OKV_LOG_TEXT_MAX];

    inet_ntop(AF_INET, &port->interface, address, sizeof address);
    snprintf(text, sizeof text, "discovery on the interface of %s failed: not announced there",
             address);
    okv_log_line(&server->log, OKV_LOG_WARNING, "discovery", now_ns, text);
}

bool okv_announcer_serve(struct okv_server *server, uint64_t now_ns)
{
    struct okv_announcer *announcer = server->announcer;
    bool has_more = false;

    for (unsigned i = announcer->count; i-- > 0;) {
        int rc = serve_port(server, &announcer->ports[i], now_ns);
        if (rc < 0) {
            log_failure(server, &announcer->ports[i], now_ns);
            close_port(announcer, i);
        }
        has_more = has_more || rc > 0;
    }
    return has_more;
}

static void *serve_all(void *user)
{
    struct okv_server *server = user;
    struct okv_announcer *announcer = server->announcer;
    struct pollfd fds[OKV_ANNOUNCER_PORTS_MAX + 1];
    bool has_more = false;

    for (;;) {
        fds[0] = (struct pollfd){.fd = announcer->stop_fd, .events = POLLIN};
        for (unsigned i = 0; i < announcer->count; i++)
            fds[1 + i] = (struct pollfd){.fd = announcer->ports[i].port->fd, .events = POLLIN};
        poll(fds, announcer->count + 1, has_more ? 0 : -1);
        if (fds[0].revents)
            return NULL;
        has_more = okv_announcer_serve(server, okv_clock_ns());
    }
}

int okv_announcer_start(struct okv_server *server, struct okv_diag *why)
{
    struct okv_announcer *announcer = server->announcer;

    announcer->stop_fd = -1;
    if (announcer->count == 0)
        return 0;
    announcer->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (announcer->stop_fd < 0)
        return OKV_EIO;
    int rc = okv_thread_start(&announcer->thread, serve_all, server, why);
    if (rc == 0)
        return 0;
    close(announcer->stop_fd);
    announcer->stop_fd = -1;
    return rc;
}

void okv_announcer_stop(struct okv_announcer *announcer)
{
    if (announcer->stop_fd < 0)
        return;
    eventfd_write(announcer->stop_fd, 1);
    pthread_join(announcer->thread, NULL);
    close(announcer->stop_fd);
}
