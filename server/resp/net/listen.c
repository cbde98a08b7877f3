#include "server/resp/net/listen.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/resp/resp.h"
#include "server/worker.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/resolve.h"

#define BACKLOG 511
/* Clients that are let in before other listeners get their share. */
#define CLIENTS_PER_PASS 16
/* Both clocks are cut to whole milliseconds, so their difference varies by this. */
#define WALL_CUT_MS 1

/* ---- listening ---- */

static void set_options(int fd)
{
    const int one = 1;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one); /* after a restart */
}

static int listen_at(const struct addrinfo *address, const struct okv_uri *uri, int *out,
                     struct okv_diag *diag)
{
    const int zero = 0;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return okv_diag_set(diag, OKV_EIO, "no socket for resp://%s: %s", uri->host,
                            strerror(errno));
    set_options(fd);
    if (strcmp(uri->host, "*") == 0)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) {
        *out = fd;
        return 0;
    }
    int rc = okv_bind_failed(errno, uri->host, uri->port, diag);
    close(fd);
    return rc == OKV_EAGAIN ? OKV_EADDRESS : rc;
}

static int open_network(const struct okv_uri *uri, struct okv_resp_listener *out,
                        struct okv_diag *diag)
{
    const char *host = strcmp(uri->host, "*") == 0 ? "::" : uri->host;
    const char *format = strchr(uri->host, ':') ? "%s://[%s]:%s" : "%s://%s:%s";
    struct addrinfo *addresses;
    int rc = okv_resolve(host, uri->port, AI_PASSIVE, &addresses, diag);

    if (rc)
        return rc;
    rc = listen_at(addresses, uri, &out->fd, diag);
    freeaddrinfo(addresses);
    snprintf(out->where, sizeof out->where, format, uri->tls ? "resps" : "resp", uri->host,
             uri->port);
    out->has_tls = uri->tls;
    return rc;
}

/* A socket that a killed server left refuses. */
static bool is_abandoned(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool refuses = fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 &&
                   errno == ECONNREFUSED;

    if (fd >= 0)
        close(fd);
    return refuses;
}

static int open_path(const struct okv_uri *uri, struct okv_resp_listener *out,
                     struct okv_diag *diag)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return okv_diag_set(diag, OKV_EIO, "no socket for resp://%s: %s", uri->path,
                            strerror(errno));
    snprintf(address.sun_path, sizeof address.sun_path, "%s", uri->path);
    snprintf(out->where, sizeof out->where, "resp://%s", address.sun_path);
    int rc = bind(fd, (const struct sockaddr *)&address, sizeof address);
    if (rc && errno == EADDRINUSE && is_abandoned(&address) && unlink(uri->path) == 0)
        rc = bind(fd, (const struct sockaddr *)&address, sizeof address);
    if (rc || (uri->mode && chmod(uri->path, uri->mode)) || listen(fd, BACKLOG)) {
        rc = okv_diag_set(diag, okv_error_from_errno(errno), "cannot listen on resp://%s: %s%s",
                          uri->path, strerror(errno),
                          errno == EADDRINUSE ? ": another server has it" : "");
        close(fd);
        return rc;
    }
    out->fd = fd;
    out->path = uri->path;
    return 0;
}

static int open_tls(struct okv_server *server, struct okv_diag *diag)
{
    const struct okv_config *config = &server->config;

    if (!config->tls_cert || !config->tls_key)
        return okv_diag_set(diag, OKV_EINVAL,
                            "resps://: name a certificate and its key with --tls-cert and "
                            "--tls-key");
    return okv_tls_create(config->tls_cert, config->tls_key, config->tls_ca, &server->resp_door.tls,
                          diag);
}

int okv_resp_door_open(struct okv_server *server, struct okv_diag *diag)
{
    struct okv_resp_door *door = &server->resp_door;

    okv_exclusive_init(&door->exclusive);
    server->exclusive = server->config.resp_count ? &door->exclusive : NULL;
    pthread_mutex_init(&door->lock, NULL);
    TAILQ_INIT(&door->clients);
    for (unsigned i = 0; i < server->config.resp_count; i++) {
        const struct okv_uri *uri = &server->config.resp[i];
        struct okv_resp_listener *listener = &door->listeners[i];
        int rc = uri->tls && !door->tls ? open_tls(server, diag) : 0;
        if (rc == 0)
            rc = uri->path[0] ? open_path(uri, listener, diag) : open_network(uri, listener, diag);
        if (rc) {
            okv_resp_door_close(server);
            return rc;
        }
        server->sockets[server->socket_count++] = (struct okv_socket_listener){
            listener->fd, listener->where, "for clients of Redis", okv_resp_door_admit, listener};
        door->count++;
    }
    return 0;
}

void okv_resp_door_close(struct okv_server *server)
{
    struct okv_resp_door *door = &server->resp_door;

    server->socket_count = 0;
    while (door->count > 0) {
        struct okv_resp_listener *listener = &door->listeners[--door->count];
        if (listener->path)
            unlink(listener->path);
        close(listener->fd);
    }
    okv_tls_destroy(door->tls);
    door->tls = NULL;
    pthread_mutex_destroy(&door->lock);
    okv_exclusive_fini(&door->exclusive);
}

/* ---- clients ---- */

/* A dead peer is found as over the other transports. */
static void watch_peer(const struct okv_server *server, int fd)
{
    const int one = 1;
    unsigned ms = server->config.keepalive_ms;
    int idle_s = ms < 3000 ? 1 : (int)(ms / 3000), count = 2;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    /* It also ends who takes no replies for a while, which is allowed. */
    ms = ms < OKV_RESP_STALLED_MS ? OKV_RESP_STALLED_MS : ms;
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

static void name_ends(struct okv_resp_client *client, const struct sockaddr_storage *address,
                      const struct okv_resp_listener *listener)
{
    struct sockaddr_storage local = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof local;

    if (listener->path) {
        snprintf(client->peer, sizeof client->peer, "%.60s:0", listener->path);
        snprintf(client->local, sizeof client->local, "%.60s:0", listener->path);
        snprintf(client->address, sizeof client->address, "unix");
        return;
    }
    getsockname(client->stream.fd, (struct sockaddr *)&local, &length);
    okv_address_text((const struct sockaddr *)address, client->peer, sizeof client->peer);
    okv_address_text((const struct sockaddr *)&local, client->local, sizeof client->local);
    okv_host_text((const struct sockaddr *)address, client->address, sizeof client->address);
}

static struct okv_resp *least_busy(struct okv_server *server)
{
    struct okv_resp *least = &server->workers[0].resp;

    for (unsigned i = 1; i < server->config.workers; i++) {
        struct okv_resp *resp = &server->workers[i].resp;
        if (atomic_load(&resp->clients) < atomic_load(&least->clients))
            least = resp;
    }
    return least;
}

/* Returns 0 or a reason to reject. */
static int let_in(struct okv_server *server, const struct okv_resp_listener *from, int fd,
                  const struct sockaddr_storage *address)
{
    struct okv_resp_client *client = calloc(1, sizeof *client);

    if (!client)
        return OKV_REJECT_RESOURCES;
    client->stream.fd = fd;
    client->listener = from;
    name_ends(client, address, from);
    const struct okv_admission_client who = {.user = "", .address = client->address};
    int reason = atomic_load(&server->stopping)
                     ? OKV_REJECT_STOPPING
                     : okv_admission_admit(&server->admission, &who, NULL, &client->ticket);
    if (reason) {
        free(client);
        return reason;
    }
    if (!from->path)
        watch_peer(server, fd);
    if (okv_stream_init(&client->stream, fd, from->has_tls ? server->resp_door.tls : NULL)) {
        okv_admission_release(&server->admission, client->ticket);
        free(client);
        return 0; /* it is closed */
    }
    client->has_ticket = true;
    client->id = ++server->resp_door.last_id;
    okv_resp_assign(least_busy(server), client);
    return 0;
}

static void turn_away(struct okv_server *server, int fd, int reason)
{
    static const char text[] = "-ERR max number of clients reached\r\n";

    if (reason == OKV_REJECT_USER || reason == OKV_REJECT_BUSY)
        OKV_STATS_ADD(&server->stats, rejected_busy, 1);
    else if (reason == OKV_REJECT_ADDRESS)
        OKV_STATS_ADD(&server->stats, rejected_address, 1);
    else
        OKV_STATS_ADD(&server->stats, rejected_resources, 1);
    send(fd, text, sizeof text - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}

void okv_resp_door_admit(struct okv_server *server, void *listener)
{
    const struct okv_resp_listener *from = listener;

    for (unsigned i = 0; i < CLIENTS_PER_PASS; i++) {
        struct sockaddr_storage address;
        socklen_t length = sizeof address;
        int fd =
            accept4(from->fd, (struct sockaddr *)&address, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        int reason = let_in(server, from, fd, &address);
        if (reason)
            turn_away(server, fd, reason);
    }
}

/* Of two readings of the server's clock that are the same, so that the wall's is of that time. */
static int64_t read_wall_ms(const struct okv_server *server)
{
    uint64_t clock_ms, wall_ms;

    do {
        clock_ms = okv_server_clock_ms(server);
        wall_ms = okv_clock_wall_ms();
    } while (okv_server_clock_ms(server) != clock_ms);
    return (int64_t)wall_ms - (int64_t)clock_ms;
}

int64_t okv_resp_door_wall_ms(struct okv_server *server)
{
    int64_t before = atomic_load(&server->resp_door.wall_ms);
    int64_t now = read_wall_ms(server);

    /* Another worker may set it meanwhile. */
    while (llabs(now - before) > WALL_CUT_MS)
        if (atomic_compare_exchange_weak(&server->resp_door.wall_ms, &before, now))
            return now;
    return before;
}
