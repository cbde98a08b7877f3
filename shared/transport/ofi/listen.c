/*
 * The listener: the region, and clients on the control port.
 * A client is greeted at once, and pending until its hello.
 */
#include "shared/transport/ofi/listen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "shared/transport/ofi/conn.h"
#include "shared/transport/ofi/control.h"
#include "shared/transport/ofi/fabric.h"
#include "shared/transport/ofi/provider.h"

/* Between greeting and hello a client opens its endpoint, which takes a second and more on a
 * machine with other work. */
#define HELLO_NS UINT64_C(10000000000)

/* ---- pending clients ---- */

static void request_free(struct okv_pending_client *client)
{
    if (client->sock >= 0)
        close(client->sock);
    free(client);
}

static int send_greeting(const struct okv_pending_client *client)
{
    const struct ofi_listener *l = (struct ofi_listener *)client->base.listener;
    struct ofi_frame frame;

    okv_ofi_frame_begin(&frame, OFI_GREETING);
    snprintf((char *)frame.body.greeting.provider, OFI_PROVIDER_MAX, "%s",
             okv_ofi_fabric_name(&l->fabric));
    return okv_ofi_control_send(client->sock, &frame);
}

static int greet(struct okv_pending_client *client)
{
    struct okv_request *request = &client->base;
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer;

    if (getpeername(client->sock, (struct sockaddr *)&peer, &length) ||
        okv_ofi_control_prepare(client->sock) || send_greeting(client))
        return OKV_EDISCONNECTED;
    okv_address_text((struct sockaddr *)&peer, request->peer, sizeof request->peer);
    okv_host_group_text((struct sockaddr *)&peer, request->address);
    return 0;
}

static int read_hello(struct okv_pending_client *client)
{
    struct ofi_request *request = (struct ofi_request *)client;
    const struct ofi_hello *hello = &request->frame.body.hello;
    int rc = okv_ofi_control_receive(client->sock, &request->frame, &request->got);

    if (rc <= 0)
        return rc;
    if (request->frame.header.kind != OFI_HELLO)
        return OKV_EPROTO;
    client->base.hello = hello->bytes;
    client->base.hello_length = hello->length;
    okv_ofi_binding(&hello->place, &client->base.binding);
    return 1;
}

static const struct okv_pending_ops pending_ops = {
    .size = sizeof(struct ofi_request),
    .greet = greet,
    .read_hello = read_hello,
    .drop = request_free,
};

/* ---- opening ---- */

static int open_socket(const struct okv_uri *uri, const struct addrinfo *address, int *out,
                       struct okv_diag *diag)
{
    const int one = 1;
    int sock = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (sock < 0)
        return okv_bind_failed(errno, uri->host, uri->port, diag);
    setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one); /* after a restart */
    if (bind(sock, address->ai_addr, address->ai_addrlen) || listen(sock, OKV_PENDING_MAX)) {
        int errnum = errno;
        close(sock);
        return okv_bind_failed(errnum, uri->host, uri->port, diag);
    }
    *out = sock;
    return 0;
}

static void close_regions(struct ofi_listener *l)
{
    while (l->region_count > 0)
        okv_ofi_region_close(&l->regions[--l->region_count]);
    okv_ofi_fabric_close(&l->fabric);
}

static int open_regions(struct ofi_listener *l, const struct okv_region *memories, unsigned count,
                        struct okv_diag *diag)
{
    int rc = 0;

    if (count > 1 && l->fabric.info->domain_attr->mr_mode & FI_MR_PROV_KEY)
        rc = okv_diag_set(diag, OKV_EUNSUPPORTED,
                          "the libfabric provider %s gives memory keys that can be guessed, which "
                          "keep no database from clients of another: serve one database there, or "
                          "listen on rdma://",
                          okv_ofi_fabric_name(&l->fabric));
    while (rc == 0 && l->region_count < count) {
        const struct okv_region *memory = &memories[l->region_count];
        l->memories[l->region_count] = *memory;
        /* FI_READ: rendezvous reads of ours arrive in it. */
        rc = okv_ofi_region_open(&l->fabric, memory->base, memory->length, FI_READ | FI_REMOTE_READ,
                                 &l->regions[l->region_count], diag);
        l->region_count += rc == 0;
    }
    if (rc)
        close_regions(l);
    return rc;
}

static void describe(struct ofi_listener *l, const struct okv_uri *uri)
{
    bool is_ipv6 = strchr(uri->host, ':') != NULL;

    snprintf(l->base.where, sizeof l->base.where, is_ipv6 ? "ofi://[%.128s]:%s" : "ofi://%.128s:%s",
             uri->host, uri->port);
    snprintf(l->base.how, sizeof l->base.how, "libfabric provider %s, READs served by %s%s%s%s",
             okv_ofi_fabric_name(&l->fabric),
             l->fabric.is_one_sided ? "the device" : "this process",
             l->fabric.refused ? " (not by " : "", l->fabric.refused ? l->fabric.refused : "",
             l->fabric.refused ? ", which cannot be used: name it to hear why)" : "");
}

int okv_ofi_listen(const struct okv_uri *uri, const struct okv_region *regions, unsigned count,
                   struct okv_listener **out, struct okv_diag *diag)
{
    struct addrinfo *found;
    char host[64];
    int sock = -1;

    if (strcmp(uri->host, "*") == 0)
        return okv_diag_set(diag, OKV_EADDRESS,
                            "an ofi listener needs one address, which clients reach: write for "
                            "example ofi://10.0.0.1");
    int rc = okv_resolve(uri->host, uri->port, 0, &found, diag);
    if (rc)
        return rc;
    struct ofi_listener *l = calloc(1, sizeof *l);
    if (!l) {
        rc = okv_diag_set(diag, OKV_ENOMEM, "no memory for a listener");
        goto free_found;
    }
    l->base.ops = &okv_transport_ofi;
    rc = open_socket(uri, found, &sock, diag);
    if (rc)
        goto free_listener;
    rc = okv_pending_open(&l->pending, sock, HELLO_NS, &pending_ops, diag);
    if (rc)
        goto free_listener;
    l->base.fd = l->pending.epoll;
    l->base.pending = &l->pending;
    okv_host_text(found->ai_addr, host, sizeof host);
    rc = okv_ofi_provider_open(uri->provider, host, true, &l->fabric, diag);
    if (rc == 0)
        rc = open_regions(l, regions, count, diag);
    if (rc)
        goto close_pending;
    describe(l, uri);
    freeaddrinfo(found);
    *out = &l->base;
    return 0;

close_pending:
    okv_pending_close(&l->pending);
free_listener:
    free(l);
free_found:
    freeaddrinfo(found);
    return rc;
}

void okv_ofi_unlisten(struct okv_listener *listener)
{
    struct ofi_listener *l = (struct ofi_listener *)listener;

    okv_pending_close(&l->pending);
    close_regions(l);
    free(l);
}

/* ---- answers ---- */

/* Answers the hello and hands the connection over, under the lock: a message of the client may
 * reach the endpoint's thread before the answer is sent here, and must then find the connection. */
static int answer(struct ofi_conn *conn, const uint8_t *welcome, size_t length)
{
    struct ofi_endpoint *ep = ofi_endpoint_of(conn);
    struct ofi_frame frame;

    okv_ofi_frame_begin(&frame, OFI_WELCOME);
    okv_ofi_conn_tell_place(conn, &frame.body.welcome.place);
    frame.body.welcome.region_address = okv_le64_of(conn->region->address);
    frame.body.welcome.region_key = okv_le64_of(conn->region->key);
    frame.body.welcome.region_length = okv_le64_of(conn->memory->length);
    frame.body.welcome.length = (uint8_t)length;
    memcpy(frame.body.welcome.bytes, welcome, length);
    pthread_mutex_lock(&ep->arrivals.lock);
    int rc = okv_ofi_control_send(conn->control, &frame);
    if (rc == 0)
        okv_arrivals_add_locked(&ep->arrivals, &conn->base);
    pthread_mutex_unlock(&ep->arrivals.lock);
    return rc;
}

int okv_ofi_accept(struct okv_request *request, const struct okv_accept *accept)
{
    struct ofi_request *r = (struct ofi_request *)request;
    const struct ofi_listener *l = (struct ofi_listener *)request->listener;
    struct ofi_conn *conn;

    if (accept->length > OKV_WELCOME_MAX)
        return OKV_EINVAL;
    int rc = okv_ofi_conn_new((struct ofi_endpoint *)accept->endpoint, &conn, NULL);
    if (rc)
        return rc;
    conn->base.user = accept->user;
    conn->memory = &l->memories[accept->region];
    conn->region = &l->regions[accept->region];
    snprintf(conn->base.peer, sizeof conn->base.peer, "%s", request->peer);
    snprintf(conn->base.how, sizeof conn->base.how, "%s", request->listener->how);
    conn->control = r->client.sock;
    rc = okv_ofi_conn_find_peer(conn, &r->frame.body.hello.place);
    if (rc)
        goto return_control;
    rc = answer(conn, accept->welcome, accept->length);
    if (rc)
        goto return_control;
    okv_wakeup_signal(&((struct ofi_endpoint *)accept->endpoint)->wakeup);
    free(r);
    return 0;

return_control:
    conn->control = -1; /* the caller rejects on it */
    okv_ofi_conn_free(conn);
    return rc;
}

void okv_ofi_reject(struct okv_request *request, const uint8_t *reason, size_t length)
{
    struct ofi_request *r = (struct ofi_request *)request;
    struct ofi_frame frame;

    okv_ofi_frame_begin(&frame, OFI_REJECT);
    frame.body.reject.length = (uint8_t)(length < OKV_REJECT_MAX ? length : OKV_REJECT_MAX);
    memcpy(frame.body.reject.bytes, reason, frame.body.reject.length);
    okv_ofi_control_send(r->client.sock, &frame);
    request_free(&r->client);
}
