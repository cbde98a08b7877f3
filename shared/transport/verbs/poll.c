#include "shared/transport/verbs/poll.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

#include "shared/base/error.h"
#include "shared/transport/verbs/closing.h"
#include "shared/transport/verbs/conn.h"
#include "shared/transport/verbs/handover.h"
#include "shared/transport/verbs/post.h"
#include "shared/transport/verbs/rendezvous.h"

/* Empty polls per check of the CM channel, a system call, in a client that spins. */
#define CM_CHECK_INTERVAL 64u

/* An acknowledgement takes a lock, so one covers many events (man ibv_get_cq_event). */
#define ACK_BATCH 64u

/* Why a failed completion ends the connection. A remote access error of a READ means that the
 * region is gone with its server. */
static int close_status(enum verbs_work work, enum ibv_wc_status status)
{
    if (status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_RNR_RETRY_EXC_ERR)
        return OKV_ETIMEDOUT;
    if (work == VERBS_WORK_RECV && status != IBV_WC_WR_FLUSH_ERR)
        return OKV_EPROTO; /* the peer sent too long a message, or a write */
    return OKV_EDISCONNECTED;
}

static void fail_conn(struct verbs_conn *conn, enum verbs_work work, const struct ibv_wc *wc)
{
    int status = close_status(work, wc->status);

    /* A peer that is cut off for what it sent disconnects, which may be heard of first. */
    if (conn->state == VERBS_CONN_CLOSING && !conn->discards_receives && status == OKV_EPROTO)
        conn->close_status = status;
    if (conn->state != VERBS_CONN_OPEN)
        return;
    snprintf(conn->base.failure, sizeof conn->base.failure, "%s (%d, vendor 0x%x)",
             ibv_wc_status_str(wc->status), (int)wc->status, wc->vendor_err);
    okv_verbs_conn_fail(conn, status);
}

static int complete_recv(struct verbs_conn *conn, const struct ibv_wc *wc, struct okv_event *event)
{
    unsigned slot = (uint32_t)wc->wr_id;

    conn->recvs_posted--;
    if (wc->status == IBV_WC_SUCCESS && wc->opcode != IBV_WC_RECV) {
        /* A write with immediate data: peers may not write. */
        conn->discards_receives = true;
        okv_verbs_conn_fail(conn, OKV_EPROTO);
    }
    if (conn->discards_receives || wc->status != IBV_WC_SUCCESS)
        return 0;
    verbs_conn_is_ready(conn);
    bool has_immediate = wc->wc_flags & IBV_WC_WITH_IMM;
    *event = (struct okv_event){
        .type = OKV_EVENT_RECV,
        .conn = &conn->base,
        .immediate = has_immediate ? ntohl(wc->imm_data) : 0,
        .has_immediate = has_immediate,
        .length = wc->byte_len,
        .data = okv_verbs_slot(conn, slot),
        .slot = slot,
    };
    return 1;
}

/* A completion of anything but a receive. */
static int complete_own(struct verbs_conn *conn, enum verbs_work work, const struct ibv_wc *wc,
                        struct okv_event *event)
{
    okv_verbs_conn_completed(conn, wc);
    switch (work) {
    case VERBS_WORK_READ:
        return okv_read_slots_complete(&conn->reads, (uint32_t)wc->wr_id,
                                       wc->status == IBV_WC_SUCCESS ? 0 : OKV_EDISCONNECTED,
                                       &conn->base, event);
    case VERBS_WORK_RENDEZVOUS:
        return okv_verbs_complete_piece(conn, wc, event);
    case VERBS_WORK_HEARTBEAT:
        conn->heartbeat_pending = false;
        return 0;
    default:
        okv_send_slots_return(&conn->sends, (uint32_t)wc->wr_id);
        return 0;
    }
}

/* Turns the next completion into an event, or into none. In a failed completion only wr_id, status,
 * qp_num and vendor_err are valid (man ibv_poll_cq). */
static int complete_next(struct verbs_endpoint *ep, struct okv_event *event)
{
    const struct ibv_wc *wc = &ep->wc[ep->wc_next];
    enum verbs_work work = (enum verbs_work)(wc->wr_id >> 32);
    struct verbs_conn *conn = okv_verbs_conn_find(ep, wc->qp_num);

    if (!conn) {
        /* The connection may still be in the hand-over: announce it first. */
        okv_verbs_handover_process(ep);
        if (!STAILQ_EMPTY(&ep->arrivals.announced))
            return 0;
    }
    ep->wc_next++;
    if (!conn)
        return 0;
    if (wc->status != IBV_WC_SUCCESS)
        fail_conn(conn, work, wc);
    return work == VERBS_WORK_RECV ? complete_recv(conn, wc, event)
                                   : complete_own(conn, work, wc, event);
}

/* Polls the completion queue when ep->wc is used up. Returns the number of completions in ep->wc, 0
 * when there is none, or a negative code. A short batch means that the queue is drained, so the
 * next call does not poll again; but a closing connection must see the queue empty. */
static int refill(struct verbs_endpoint *ep, bool *drained)
{
    if (ep->wc_next < ep->wc_count)
        return ep->wc_count - ep->wc_next;
    if (*drained)
        return 0;
    int got = ibv_poll_cq(ep->cq, VERBS_POLL_BATCH, ep->wc);
    if (got < 0) {
        ep->broken = true;
        return OKV_EIO;
    }
    ep->wc_next = 0;
    ep->wc_count = got;
    *drained = got < VERBS_POLL_BATCH && LIST_EMPTY(&ep->closing);
    if (got == 0)
        ep->times_empty++;
    return got;
}

/* A client has no listener's thread and reads its CM events between completions. */
static void poll_cm(struct verbs_endpoint *ep)
{
    struct rdma_cm_event *event;
    while (rdma_get_cm_event(ep->cm, &event) == 0) {
        struct verbs_conn *conn = event->id->context;
        enum rdma_cm_event_type type = event->event;
        rdma_ack_cm_event(event);
        if (conn && okv_verbs_is_gone_event(type))
            okv_verbs_conn_fail(conn, OKV_EDISCONNECTED);
    }
}

int okv_verbs_poll(struct okv_endpoint *endpoint, struct okv_event *events, int max)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)endpoint;
    int count = 0;
    int waiting = 0;
    bool drained = false;
    /* Completions may never run out: leave room for the end of a connection. */
    int room = !LIST_EMPTY(&ep->closing) && max > 1 ? max - 1 : max;

    if (okv_arrivals_has_any(&ep->arrivals))
        okv_verbs_handover_process(ep);
    for (;;) {
        count += okv_arrivals_report(&ep->arrivals, events + count, room - count);
        if (count == room)
            break;
        waiting = refill(ep, &drained);
        if (waiting <= 0)
            break;
        count += complete_next(ep, &events[count]);
    }
    if (count == 0 && ep->cm && (ep->armed || ++ep->empty_polls % CM_CHECK_INTERVAL == 0))
        poll_cm(ep);
    /* An end never comes before the OKV_EVENT_OPENED of its connection. */
    if (!LIST_EMPTY(&ep->closing) && STAILQ_EMPTY(&ep->arrivals.announced))
        count += okv_verbs_closing_finish(ep, events + count, max - count);
    if (count > 0) {
        ep->armed = false;
        return count;
    }
    return ep->broken ? OKV_EIO : 0;
}

static void take_cq_events(struct verbs_endpoint *ep)
{
    struct ibv_cq *cq;
    void *context;

    while (ibv_get_cq_event(ep->completions, &cq, &context) == 0)
        ep->unacked_events++;
    if (ep->unacked_events >= ACK_BATCH) {
        ibv_ack_cq_events(ep->cq, ep->unacked_events);
        ep->unacked_events = 0;
    }
}

int okv_verbs_arm(struct okv_endpoint *endpoint)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)endpoint;
    int status = okv_wakeup_clear(&ep->wakeup);

    take_cq_events(ep);
    if (status || ep->broken || ibv_req_notify_cq(ep->cq, 0))
        return OKV_EIO;
    ep->armed = true;
    /* A connection whose work the device never flushes makes no completion. */
    if (!LIST_EMPTY(&ep->closing))
        okv_wakeup_start_timer(&ep->wakeup, VERBS_CLOSE_NS);
    return 0;
}
