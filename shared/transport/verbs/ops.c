/* The table of the verbs transport's operations. */
#include "shared/transport/verbs/closing.h"
#include "shared/transport/verbs/conn.h"
#include "shared/transport/verbs/connect.h"
#include "shared/transport/verbs/endpoint.h"
#include "shared/transport/verbs/listen.h"
#include "shared/transport/verbs/mr.h"
#include "shared/transport/verbs/poll.h"
#include "shared/transport/verbs/post.h"
#include "shared/transport/verbs/rendezvous.h"

static void wake(struct okv_endpoint *endpoint)
{
    okv_wakeup_signal(&((struct verbs_endpoint *)endpoint)->wakeup);
}

const struct okv_transport_ops okv_transport_verbs = {
    .name = "rdma",
    .listen = okv_verbs_listen,
    .unlisten = okv_verbs_unlisten,
    .endpoint_create = okv_verbs_endpoint_create,
    .endpoint_destroy = okv_verbs_endpoint_destroy,
    .next_request = okv_verbs_next_request,
    .accept = okv_verbs_accept,
    .reject = okv_verbs_reject,
    .connect_start = okv_verbs_connect_start,
    .connect_step = okv_verbs_connect_step,
    .connect_cancel = okv_verbs_connect_cancel,
    .set_remote = okv_verbs_set_remote,
    .close = okv_verbs_conn_close,
    .conn_destroy = okv_verbs_conn_destroy,
    .memory_register = okv_verbs_memory_register,
    .memory_unregister = okv_verbs_memory_unregister,
    .post_read = okv_verbs_post_read,
    .advertise = okv_verbs_advertise,
    .withdraw = okv_verbs_withdraw,
    .rendezvous = okv_verbs_rendezvous,
    .send_buffer = okv_verbs_send_buffer,
    .post_send = okv_verbs_post_send,
    .flush = okv_verbs_flush,
    .heartbeat = okv_verbs_heartbeat,
    .poll = okv_verbs_poll,
    .recv_release = okv_verbs_recv_release,
    .arm = okv_verbs_arm,
    .wake = wake,
};
