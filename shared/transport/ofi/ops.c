/* The table of the ofi transport's operations. */
#include "shared/transport/ofi/bare.h"
#include "shared/transport/ofi/closing.h"
#include "shared/transport/ofi/conn.h"
#include "shared/transport/ofi/connect.h"
#include "shared/transport/ofi/endpoint.h"
#include "shared/transport/ofi/fabric.h"
#include "shared/transport/ofi/listen.h"
#include "shared/transport/ofi/poll.h"
#include "shared/transport/ofi/post.h"
#include "shared/transport/ofi/receive.h"
#include "shared/transport/ofi/rendezvous.h"

static void wake(struct okv_endpoint *endpoint)
{
    okv_wakeup_signal(&((struct ofi_endpoint *)endpoint)->wakeup);
}

__attribute__((visibility("default"))) const struct okv_transport_ops okv_transport_ofi = {
    .name = "ofi",
    .listen = okv_ofi_listen,
    .unlisten = okv_ofi_unlisten,
    .endpoint_create = okv_ofi_endpoint_create,
    .endpoint_destroy = okv_ofi_endpoint_destroy,
    .next_request = okv_pending_next_request,
    .accept = okv_ofi_accept,
    .reject = okv_ofi_reject,
    .connect_start = okv_ofi_connect_start,
    .connect_step = okv_ofi_connect_step,
    .connect_cancel = okv_ofi_connect_cancel,
    .set_remote = okv_ofi_set_remote,
    .close = okv_ofi_conn_close,
    .conn_destroy = okv_ofi_conn_destroy,
    .memory_register = okv_ofi_memory_register,
    .memory_unregister = okv_ofi_memory_unregister,
    .post_read = okv_ofi_post_read,
    .bare_read = okv_ofi_bare_read,
    .advertise = okv_ofi_advertise,
    .withdraw = okv_ofi_withdraw,
    .rendezvous = okv_ofi_rendezvous,
    .send_buffer = okv_ofi_send_buffer,
    .post_send = okv_ofi_post_send,
    .flush = okv_ofi_flush,
    .heartbeat = okv_ofi_heartbeat,
    .poll = okv_ofi_poll,
    .recv_release = okv_ofi_recv_release,
    .arm = okv_ofi_arm,
    .wake = wake,
};
