#include "server/resp/net/accept.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/core/server.h"
#include "server/resp/net/admit.h"
#include "server/resp/net/handshake.h"
#include "server/resp/run/place.h"
#include "server/resp/run/shared.h"
#include "shared/base/resolve.h"
#include "shared/format/wire.h"
#include "shared/transport/local/peer_credentials.h"

/* Clients that are accepted before other listeners get their share. */
#define CLIENTS_PER_PASS 16

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
    /* Taking no replies for a while is allowed, and must not end the connection. */
    ms = ms < OKV_RESP_STALLED_MS ? OKV_RESP_STALLED_MS : ms;
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

static void name_ends(struct okv_resp_client *client, const struct sockaddr_storage *address,
                      const struct okv_resp_listener *listener)
{
    struct sockaddr_storage local = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof local;

    if (listener->socket.path) {
        snprintf(client->peer, sizeof client->peer, "%.60s:0", listener->socket.path);
        snprintf(client->local, sizeof client->local, "%.60s:0", listener->socket.path);
        okv_local_peer_name(client->stream.fd, client->common.peer, client->address);
        return;
    }
    getsockname(client->stream.fd, (struct sockaddr *)&local, &length);
    okv_address_text((const struct sockaddr *)address, client->peer, sizeof client->peer);
    memcpy(client->common.peer, client->peer, sizeof client->common.peer);
    okv_address_text((const struct sockaddr *)&local, client->local, sizeof client->local);
    okv_host_group_text((const struct sockaddr *)address, client->address);
}

static struct okv_resp_client *create_client(struct okv_server *server,
                                             const struct okv_resp_listener *listener, int fd,
                                             const struct sockaddr_storage *address)
{
    struct okv_resp_client *client = calloc(1, sizeof *client);

    if (!client) {
        close(fd);
        return NULL;
    }
    if (okv_stream_init(&client->stream, fd, listener->has_tls ? server->resp_shared->tls : NULL,
                        NULL)) {
        free(client);
        return NULL;
    }
    client->listener = listener;
    name_ends(client, address, listener);
    return client;
}

/* Before it has a place, or is silent. */
static void reject(struct okv_server *server, struct okv_resp_client *client)
{
    if (client->stream.ssl)
        okv_resp_turn_away(server, client);
    else
        okv_resp_refuse_place(server, client);
}

/* A stranger waits until it has shaken hands and logged in. */
static bool may_wait(struct okv_server *server, struct okv_resp_client *client)
{
    bool is_stranger = server->config.users || client->stream.ssl;
    bool is_stopping = atomic_load(&server->stopping);
    bool has_room = !is_stopping && (!is_stranger || okv_resp_place_wait(server, client));

    OKV_STATS_ADD(&server->stats, rejected_stopping, is_stopping);
    OKV_STATS_ADD(&server->stats, rejected_resources, !is_stopping && !has_room);
    return has_room;
}

static void accept_client(struct okv_server *server, const struct okv_resp_listener *listener,
                          int fd, const struct sockaddr_storage *address)
{
    struct okv_resp_client *client = create_client(server, listener, fd, address);

    if (!client) {
        OKV_STATS_ADD(&server->stats, rejected_resources, 1);
        return;
    }
    if (!may_wait(server, client)) {
        reject(server, client);
        return;
    }
    if (!listener->socket.path)
        watch_peer(server, fd);
    client->id = ++server->resp_shared->last_id;
    if (client->stream.ssl)
        okv_resp_handshakes_add(server, client);
    else
        okv_resp_admit(server, client);
}

void okv_resp_accept(struct okv_server *server, void *user)
{
    struct okv_resp_listener *listener = user;

    for (unsigned i = 0; i < CLIENTS_PER_PASS; i++) {
        struct sockaddr_storage address;
        socklen_t length = sizeof address;
        int fd = okv_entrance_accept(&listener->entrance, (struct sockaddr *)&address, &length);
        if (fd < 0)
            break;
        accept_client(server, listener, fd, &address);
    }
    okv_server_log_shortage(server, &listener->entrance, listener->where);
}
