/* The table of the local transport's operations, and those that are a few lines. */
#include <stdlib.h>

#include "shared/base/error.h"
#include "shared/transport/local/conn.h"
#include "shared/transport/local/connect.h"
#include "shared/transport/local/endpoint.h"
#include "shared/transport/local/listen.h"
#include "shared/transport/local/messages.h"
#include "shared/transport/local/notification.h"
#include "shared/transport/local/poll.h"
#include "shared/transport/local/read.h"
#include "shared/transport/local/rendezvous.h"

static void close_conn(struct okv_conn *conn)
{
    okv_local_conn_end(okv_local_conn(conn), OKV_EDISCONNECTED);
}

static int memory_register(struct okv_endpoint *endpoint, void *base, size_t length,
                           struct okv_memory **out)
{
    struct okv_local_memory *memory = malloc(sizeof *memory);

    (void)endpoint;
    if (!memory)
        return OKV_ENOMEM;
    *memory = (struct okv_local_memory){base, length};
    *out = (struct okv_memory *)memory;
    return 0;
}

static void memory_unregister(struct okv_memory *memory)
{
    free(memory);
}

static void wake(struct okv_endpoint *endpoint)
{
    okv_wakeup_signal(&okv_local_endpoint(endpoint)->wakeup);
}

static int endpoint_create(struct okv_listener *listener, const struct okv_message_limits *limits,
                           unsigned max_conns, struct okv_endpoint **out, struct okv_diag *diag)
{
    struct okv_local_endpoint *endpoint;
    int status = okv_local_endpoint_new(limits, max_conns, &endpoint, diag);

    (void)listener; /* what a connection needs of it, accept tells */
    if (status == 0)
        *out = &endpoint->base;
    return status;
}

static void endpoint_destroy(struct okv_endpoint *endpoint)
{
    okv_local_endpoint_free(okv_local_endpoint(endpoint));
}

const struct okv_transport_ops okv_transport_local = {
    .name = "local",
    .listen = okv_local_listen,
    .unlisten = okv_local_unlisten,
    .endpoint_create = endpoint_create,
    .endpoint_destroy = endpoint_destroy,
    .next_request = okv_pending_next_request,
    .accept = okv_local_accept,
    .reject = okv_local_reject,
    .connect_start = okv_local_connect_start,
    .connect_step = okv_local_connect_step,
    .connect_cancel = okv_local_connect_cancel,
    .set_remote = okv_local_set_remote,
    .close = close_conn,
    .conn_destroy = okv_local_conn_destroy,
    .memory_register = memory_register,
    .memory_unregister = memory_unregister,
    .post_read = okv_local_post_read,
    .read_now = okv_local_read_now,
    .advertise = okv_local_advertise,
    .withdraw = okv_local_withdraw,
    .rendezvous = okv_local_rendezvous,
    .send_buffer = okv_local_send_buffer,
    .post_send = okv_local_post_send,
    .flush = okv_local_flush,
    .heartbeat = okv_local_heartbeat,
    .poll = okv_local_poll,
    .recv_release = okv_local_recv_release,
    .arm = okv_local_arm,
    .wake = wake,
};
