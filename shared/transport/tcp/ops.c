/* The table of operations, and those that are a few lines. */
#include <stdlib.h>

#include "shared/base/error.h"
#include "shared/transport/tcp/bare.h"
#include "shared/transport/tcp/conn.h"
#include "shared/transport/tcp/connect.h"
#include "shared/transport/tcp/endpoint.h"
#include "shared/transport/tcp/listen.h"
#include "shared/transport/tcp/messages.h"
#include "shared/transport/tcp/poll.h"
#include "shared/transport/tcp/rendezvous.h"

static void close_conn(struct okv_conn *base)
{
    struct okv_tcp_conn *conn = okv_tcp_conn(base);

    conn->discards = true;
    okv_tcp_conn_end(conn, OKV_EDISCONNECTED, "");
}

static int memory_register(struct okv_endpoint *endpoint, void *base, size_t length,
                           struct okv_memory **out)
{
    struct okv_tcp_memory *memory = malloc(sizeof *memory);

    (void)endpoint;
    if (!memory)
        return OKV_ENOMEM;
    *memory = (struct okv_tcp_memory){base, length};
    *out = (struct okv_memory *)memory;
    return 0;
}

static void memory_unregister(struct okv_memory *memory)
{
    free(memory);
}

static void wake(struct okv_endpoint *endpoint)
{
    okv_wakeup_signal(&okv_tcp_endpoint(endpoint)->wakeup);
}

static int endpoint_create(struct okv_listener *listener, const struct okv_message_limits *limits,
                           unsigned max_conns, struct okv_endpoint **out, struct okv_diag *diag)
{
    struct okv_tcp_endpoint *endpoint;
    int rc = okv_tcp_endpoint_new(limits, max_conns, &endpoint, diag);

    (void)listener; /* what a connection needs of it, accept tells */
    if (rc == 0)
        *out = &endpoint->base;
    return rc;
}

static void endpoint_destroy(struct okv_endpoint *endpoint)
{
    if (endpoint)
        okv_tcp_endpoint_free(okv_tcp_endpoint(endpoint));
}

const struct okv_transport_ops okv_transport_tcp = {
    .name = "tcp",
    .listen = okv_tcp_listen,
    .unlisten = okv_tcp_unlisten,
    .endpoint_create = endpoint_create,
    .endpoint_destroy = endpoint_destroy,
    .next_request = okv_pending_next_request,
    .accept = okv_tcp_accept,
    .reject = okv_tcp_reject,
    .connect_start = okv_tcp_connect_start,
    .connect_step = okv_tcp_connect_step,
    .connect_cancel = okv_tcp_connect_cancel,
    .set_remote = okv_tcp_set_remote,
    .close = close_conn,
    .conn_destroy = okv_tcp_conn_destroy,
    .memory_register = memory_register,
    .memory_unregister = memory_unregister,
    .post_read = okv_tcp_post_read,
    .bare_read = okv_tcp_bare_read,
    .advertise = okv_tcp_advertise,
    .withdraw = okv_tcp_withdraw,
    .rendezvous = okv_tcp_rendezvous,
    .send_buffer = okv_tcp_send_buffer,
    .post_send = okv_tcp_post_send,
    .flush = okv_tcp_flush,
    .heartbeat = okv_tcp_heartbeat,
    .poll = okv_tcp_poll,
    .recv_release = okv_tcp_recv_release,
    .arm = okv_tcp_arm,
    .wake = wake,
};
