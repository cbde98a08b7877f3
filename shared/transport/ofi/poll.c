#include "shared/transport/ofi/poll.h"

#include <sys/epoll.h>

#include "shared/base/error.h"
#include "shared/transport/ofi/closing.h"
#include "shared/transport/ofi/conn.h"
#include "shared/transport/ofi/control.h"
#include "shared/transport/ofi/fabric.h"
#include "shared/transport/ofi/post.h"
#include "shared/transport/ofi/receive.h"
#include "shared/transport/ofi/rendezvous.h"

/* A closing connection whose operations do not end is looked at this often. */
#define CLOSING_NS 100000000

/* The connection that a message is for, or NULL. */
static struct ofi_conn *receiver(const struct ofi_endpoint *ep,
                                 const struct ofi_message_header *header)
{
    uint32_t number = okv_le32_get(header->connection);
    struct ofi_conn *conn = number < ep->base.max_conns ? ep->table[number] : NULL;

    return conn && conn->key == okv_le64_get(header->key) ? conn : NULL;
}

/* Whether the provider has the slot by this operation; else it has returned the slot already. */
static bool is_current(const struct ofi_endpoint *ep, const struct ofi_op *op)
{
    const struct ofi_recv *recv = ofi_recv_of(ep, op->index);

    return recv->is_posted && op == &recv->ops[recv->turn];
}

/* Returns 1 with an event, 0 without, -1 when the connection's OKV_EVENT_OPENED comes first. */
static int complete_recv(struct ofi_endpoint *ep, unsigned slot, size_t length,
                         struct okv_event *event)
{
    const uint8_t *bytes = ofi_slot(ep, slot);
    const struct ofi_message_header *header = (const struct ofi_message_header *)bytes;
    struct ofi_conn *conn = NULL;

    if (length >= sizeof *header) {
        conn = receiver(ep, header);
        if (!conn && ep->listener) {
            okv_ofi_arrivals_process(ep);
            if (!STAILQ_EMPTY(&ep->arrivals.announced))
                return -1;
        }
    }
    ofi_recv_of(ep, slot)->is_posted = false;
    if (conn && length - sizeof *header > ep->limits.slot_size) {
        conn->discards_receives = true;
        okv_ofi_conn_fail(conn, OKV_EPROTO, "a message is longer than a slot");
    }
    if (!conn || conn->discards_receives || conn->state == OFI_CONN_CLOSED) {
        okv_ofi_post_slot(ep, slot);
        return 0;
    }
    *event = (struct okv_event){
        .type = OKV_EVENT_RECV,
        .conn = &conn->base,
        .immediate = okv_le32_get(header->immediate),
        .has_immediate = true,
        .length = (uint32_t)(length - sizeof *header),
        .data = bytes + sizeof *header,
        .slot = slot,
    };
    return 1;
}

/* A completion of anything but a receive. */
static int complete_own(struct ofi_op *op, int status, const char *why, struct okv_event *event)
{
    struct ofi_conn *conn = op->conn;

    conn->pending--;
    conn->base.unacknowledged -= ofi_endpoint_of(conn)->fabric->is_one_sided;
    conn->base.acknowledged += status == 0;
    if (status) /* the provider has cut the connection below, or lost a message */
        okv_ofi_conn_fail(conn, OKV_EDISCONNECTED, why);
    switch (op->work) {
    case OFI_WORK_READ:
        return okv_read_slots_complete(&conn->reads, op->index, status ? OKV_EDISCONNECTED : 0,
                                       &conn->base, event);
    case OFI_WORK_FIRST:
        conn->is_first_done = true;
        return 0;
    case OFI_WORK_PIECE:
        return okv_ofi_complete_piece(conn, op->index, status ? OKV_ERENDEZVOUS : 0, event);
    default:
        okv_send_slots_return(&conn->sends, op->index);
        return 0;
    }
}

/* NULL for what is none of ours: the end of a peer's write, or of work of the provider itself, for
 * which rxm gives a pointer of its own. */
static struct ofi_op *op_of(void *context)
{
    struct ofi_op *op = context;

    return op && op->self == op ? op : NULL;
}

static void post_again(struct ofi_endpoint *ep, unsigned slot)
{
    struct ofi_recv *recv = ofi_recv_of(ep, slot);

    recv->is_posted = false;
    recv->turn = (recv->turn + 1) % OFI_RECV_TURNS;
    okv_ofi_post_slot(ep, slot);
}

/* Whose message or work it was is not told. A client has one connection. In a server the provider
 * has cut off the peer. */
static void lose_message(struct ofi_endpoint *ep, const char *why)
{
    if (!ep->listener && ep->table[0])
        okv_ofi_conn_fail(ep->table[0], OKV_EDISCONNECTED, why);
}

/* The failed operation at the head of the queue. */
static int complete_failed(struct ofi_endpoint *ep, struct okv_event *event)
{
    struct fi_cq_err_entry error = {.err_data_size = 0};
    ssize_t rc = fi_cq_readerr(ep->cq, &error, 0);
    struct ofi_op *op = op_of(error.op_context);

    if (rc <= 0)
        return 0;
    if (error.err == FI_EOVERRUN) /* fatal: man fi_cq */
        ep->broken = true;
    if (op && op->work != OFI_WORK_RECV)
        return complete_own(op, okv_ofi_error(-error.err), fi_strerror(error.err), event);
    if (op && is_current(ep, op))
        post_again(ep, op->index);
    lose_message(ep, fi_strerror(error.err));
    return 0;
}

/* Turns the next completion into an event, or into none; -1: it has to wait. */
static int complete_next(struct ofi_endpoint *ep, struct okv_event *event)
{
    const struct fi_cq_msg_entry *done = &ep->done[ep->done_next];
    struct ofi_op *op = op_of(done->op_context);
    int made = 0;

    if (op && op->work == OFI_WORK_RECV)
        made = is_current(ep, op) ? complete_recv(ep, op->index, done->len, event) : 0;
    else if (op)
        made = complete_own(op, 0, "", event);
    if (made >= 0)
        ep->done_next++;
    return made;
}

/* Takes completions from the queue. Returns their number, with one event for a failed one, or a
 * negative code. */
static int take(struct ofi_endpoint *ep, struct okv_event *events, int *count)
{
    ssize_t n;

    /* Before the look: the thread that makes progress counts on one after it has counted. */
    atomic_fetch_add_explicit(&ep->progress.polls, 1, memory_order_relaxed);
    n = fi_cq_read(ep->cq, ep->done, OFI_POLL_BATCH);

    ep->done_next = 0;
    ep->done_count = n > 0 ? (int)n : 0;
    if (n == -FI_EAVAIL) {
        *count += complete_failed(ep, &events[*count]);
        return 1;
    }
    if (n == -FI_EAGAIN || n == 0) {
        ep->times_empty++;
        return 0;
    }
    if (n < 0) {
        ep->broken = true;
        return OKV_EIO;
    }
    return (int)n;
}

/* Whether the last batch was short: then the queue is empty, or has a failed operation next. A
 * closing connection must see it empty. */
static bool is_drained(const struct ofi_endpoint *ep)
{
    return ep->done_next == ep->done_count && ep->done_count < OFI_POLL_BATCH &&
           LIST_EMPTY(&ep->closing);
}

/* With events it ends after a short batch: one more look at the queue would take as long as the
 * first. */
static int take_completions(struct ofi_endpoint *ep, struct okv_event *events, int max)
{
    int count = 0, left = OFI_TAKEN_MAX;

    ep->base.is_copying = false;
    while (count < max && left-- > 0 && ep->ep && !ep->base.is_copying) {
        if (ep->done_next < ep->done_count) {
            int made = complete_next(ep, &events[count]);
            if (made < 0)
                return count;
            count += made;
            if (count > 0 && is_drained(ep))
                break;
            continue;
        }
        int taken = take(ep, events, &count);
        if (taken < 0)
            return taken;
        if (taken == 0)
            break;
    }
    if (left < 0 || ep->base.is_copying)
        okv_wakeup_signal(&ep->wakeup); /* no change of the queue announces the others */
    return count;
}

/* Finds connections whose other end is gone. */
static void check_controls(struct ofi_endpoint *ep)
{
    struct epoll_event ends[OFI_POLL_BATCH];

    if (ep->polls_until_controls-- > 0)
        return;
    ep->polls_until_controls = OFI_CONTROL_INTERVAL;
    int count = epoll_wait(ep->controls, ends, OFI_POLL_BATCH, 0);
    for (int i = 0; i < count; i++) {
        struct ofi_conn *conn = ends[i].data.ptr;
        int status = okv_ofi_control_check(conn->control);
        if (status)
            okv_ofi_conn_fail(conn, status,
                              status == OKV_EPROTO ? "bytes on the control connection"
                                                   : "the control connection ended");
    }
}

int okv_ofi_poll(struct okv_endpoint *endpoint, struct okv_event *events, int max)
{
    struct ofi_endpoint *ep = (struct ofi_endpoint *)endpoint;

    if (ep->broken)
        return OKV_EIO;
    check_controls(ep);
    if (okv_arrivals_has_any(&ep->arrivals))
        okv_ofi_arrivals_process(ep);
    int count = okv_arrivals_report(&ep->arrivals, events, max);
    if (!LIST_EMPTY(&ep->closing) && count < max) /* before messages, which may fill every poll */
        count += okv_ofi_closing_finish(ep, events + count, max - count);
    if (max == 0 && ep->ep) {
        atomic_fetch_add_explicit(&ep->progress.polls, 1, memory_order_relaxed);
        fi_cq_read(ep->cq, NULL, 0);
    }
    if (count < max) {
        int taken = take_completions(ep, events + count, max - count);
        if (taken < 0 && count == 0)
            return taken;
        count += taken > 0 ? taken : 0;
    }
    if (!LIST_EMPTY(&ep->blocked))
        okv_ofi_retry_blocked(ep);
    if (ep->unposted_count > 0)
        okv_ofi_post_slots(ep);
    if (!LIST_EMPTY(&ep->zombies))
        okv_ofi_zombies_free(ep, false);
    return count;
}

int okv_ofi_arm(struct okv_endpoint *endpoint)
{
    struct ofi_endpoint *ep = (struct ofi_endpoint *)endpoint;
    struct fid *queue = &ep->cq->fid;
    struct epoll_event change;

    epoll_wait(ep->base.fd, &change, 1, 0); /* takes a change of the queue's descriptor */
    if (okv_wakeup_clear(&ep->wakeup) || ep->broken)
        return OKV_EIO;
    ep->polls_until_controls = 0;
    if (ep->ep) {
        int rc = fi_trywait(ep->fabric->fabric, &queue, 1);
        if (rc == -FI_EAGAIN)
            okv_wakeup_signal(&ep->wakeup); /* something has arrived already */
        else if (rc)
            return OKV_EIO;
    }
    if (!LIST_EMPTY(&ep->closing) || !LIST_EMPTY(&ep->blocked) || ep->unposted_count > 0)
        okv_wakeup_start_timer(&ep->wakeup, CLOSING_NS);
    return 0;
}
