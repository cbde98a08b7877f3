#include "server/resp/net/listen.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/config/config.h"
#include "server/core/certificates.h"
#include "server/core/server.h"
#include "server/core/takeover.h"
#include "server/resp/net/accept.h"
#include "server/resp/net/handshake.h"
#include "server/resp/run/rates.h"
#include "server/resp/run/shared.h"
#include "server/resp/script/cache.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/resolve.h"

#define BACKLOG 511

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
    return rc;
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

static int open_path(const struct okv_uri *uri, struct okv_resp_listener *out,
                     struct okv_diag *diag)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return okv_diag_set(diag, OKV_EIO, "no socket for resp://%s: %s", uri->path,
                            strerror(errno));
    int rc = okv_socket_path_listen(&out->socket, uri, fd, BACKLOG, diag);
    if (rc)
        close(fd);
    snprintf(out->where, sizeof out->where, "resp://%s", uri->path);
    out->fd = fd;
    return rc;
}

/* While the address is in use: waits for it. */
static int open_place(struct okv_server *server, const struct okv_uri *uri,
                      struct okv_resp_listener *out, struct okv_diag *diag)
{
    struct okv_takeover takeover = {&server->log, "listener", 0};
    char option[sizeof out->where + 16];
    int rc;

    do
        rc = uri->path[0] ? open_path(uri, out, diag) : open_network(uri, out, diag);
    while (rc == OKV_EAGAIN && okv_takeover_wait(&takeover, out->where));
    if (rc && !uri->path[0]) {
        snprintf(option, sizeof option, "--listen %s", out->where);
        okv_diag_begin(diag, option);
    }
    return rc;
}

static void close_listener(struct okv_resp_listener *listener)
{
    okv_entrance_close(&listener->entrance);
    okv_socket_path_remove(&listener->socket);
    close(listener->fd);
}

static int open_entrance(struct okv_resp_listener *listener, struct okv_diag *diag)
{
    int errnum = okv_entrance_open(&listener->entrance, listener->fd);

    if (errnum == 0)
        return 0;
    close_listener(listener);
    return okv_entrance_explain(diag, errnum);
}

static int open_tls(struct okv_server *server, struct okv_diag *diag)
{
    int rc = okv_certificates_open(server, OKV_TLS_RESPS, &server->resp_shared->tls, diag);

    return rc ? rc : okv_resp_handshakes_start(server, diag);
}

static int open_listener(struct okv_server *server, const struct okv_uri *uri,
                         struct okv_diag *diag)
{
    struct okv_resp_shared *shared = server->resp_shared;
    struct okv_resp_listener *listener = &shared->listeners[shared->listener_count];
    int rc = uri->tls && !shared->tls ? open_tls(server, diag) : 0;

    if (rc)
        return rc;
    rc = open_place(server, uri, listener, diag);
    if (rc == 0)
        rc = open_entrance(listener, diag);
    if (rc)
        return rc;
    shared->listener_count++;
    server->sockets[server->socket_count++] = (struct okv_socket_listener){
        listener->entrance.fd, listener->where, "for clients of Redis", okv_resp_accept, listener};
    return 0;
}

int okv_resp_open(struct okv_server *server, struct okv_diag *diag)
{
    struct okv_resp_shared *shared = calloc(1, sizeof *shared);
    int rc = 0;

    if (shared)
        shared->scripts = okv_resp_script_cache_create();
    if (!shared || !shared->scripts) {
        free(shared);
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for clients of Redis");
    }
    server->resp_shared = shared;
    okv_exclusive_init(&shared->exclusive);
    okv_resp_door_init(&shared->door);
    okv_resp_rates_init(&shared->rates);
    shared->began_ns = okv_clock_ns();
    shared->began_steps = okv_clock_steps();
    server->exclusive = server->config.resp_count ? &shared->exclusive : NULL;
    for (unsigned i = 0; i < server->config.resp_count && rc == 0; i++)
        rc = open_listener(server, &server->config.resp[i], diag);
    if (rc)
        okv_resp_close(server);
    return rc;
}

void okv_resp_stop(struct okv_server *server)
{
    okv_resp_handshakes_stop(server);
}

void okv_resp_close(struct okv_server *server)
{
    struct okv_resp_shared *shared = server->resp_shared;

    okv_resp_stop(server);
    server->socket_count = 0;
    while (shared->listener_count > 0)
        close_listener(&shared->listeners[--shared->listener_count]);
    okv_resp_rates_fini(&shared->rates);
    okv_resp_door_fini(&shared->door);
    okv_exclusive_fini(&shared->exclusive);
    okv_resp_script_cache_destroy(shared->scripts);
    free(shared);
    server->exclusive = NULL;
    server->resp_shared = NULL;
}
