/* From completions to events, and the meeting of the listener's thread with the endpoint's. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

#include "shared/base/error.h"
#include "shared/transport/verbs/verbs.h"

/* Looking at the CM channel is a system call; a spinning client does it this seldom. */
#define CM_LOOK_EVERY 64u

void okv_verbs_hand_over_opened_locked(struct verbs_conn *conn)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)conn->base.endpoint;
    conn->next_opened = NULL;
    *ep->handover.opened_tail = conn;
    ep->handover.opened_tail = &conn->next_opened;
    atomic_store(&ep->handover.any, true);
    okv_verbs_wake(&ep->base);
}

void okv_verbs_hand_over_gone(struct verbs_conn *conn)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)conn->base.endpoint;
    pthread_mutex_lock(&ep->handover.lock);
    if (!conn->is_gone) {
        conn->is_gone = true;
        conn->next_gone = ep->handover.gone;
        ep->handover.gone = conn;
        atomic_store(&ep->handover.any, true);
        okv_verbs_wake(&ep->base);
    }
    pthread_mutex_unlock(&ep->handover.lock);
}

void okv_verbs_forget(struct verbs_conn *conn)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)conn->base.endpoint;
    pthread_mutex_lock(&ep->handover.lock);
    struct verbs_conn **link = &ep->handover.gone;
    while (*link && *link != conn)
        link = &(*link)->next_gone;
    if (*link)
        *link = conn->next_gone;
    pthread_mutex_unlock(&ep->handover.lock);
}

void okv_verbs_take_handover(struct verbs_endpoint *ep)
{
    pthread_mutex_lock(&ep->handover.lock);
    atomic_store(&ep->handover.any, false);
    struct verbs_conn *opened = ep->handover.opened;
    struct verbs_conn *gone = ep->handover.gone;
    ep->handover.opened = NULL;
    ep->handover.opened_tail = &ep->handover.opened;
    ep->handover.gone = NULL;
    pthread_mutex_unlock(&ep->handover.lock);

    *ep->announce_tail = opened;
    for (struct verbs_conn *conn = opened; conn; conn = conn->next_opened) {
        okv_verbs_conn_admit(conn);
        ep->announce_tail = &conn->next_opened;
    }
    for (struct verbs_conn *conn = gone; conn; conn = conn->next_gone)
        okv_verbs_conn_fail(conn, OKV_EDISCONNECTED);
}

static int announce_opened(struct verbs_endpoint *ep, struct okv_event *events, int max)
{
    int count = 0;
    while (ep->announce && count < max) {
        struct verbs_conn *conn = ep->announce;
        ep->announce = conn->next_opened;
        if (!ep->announce)
            ep->announce_tail = &ep->announce;
        events[count++] = (struct okv_event){.type = OKV_EVENT_OPENED, .conn = &conn->base};
    }
    return count;
}

/* What a failed completion says about the connection. A remote access error of a
 * READ means that the region is gone, with its server; never anything about a key. */
static int close_status(enum verbs_work work, enum ibv_wc_status status)
{
    if (status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_RNR_RETRY_EXC_ERR)
        return OKV_ETIMEDOUT;
    if (work == VERBS_WORK_RECV && status != IBV_WC_WR_FLUSH_ERR)
        return OKV_EPROTO; /* the peer sent what no slot can take, or wrote */
    return OKV_EDISCONNECTED;
}

static void fail_conn(struct verbs_conn *conn, enum verbs_work work, const struct ibv_wc *wc)
{
    if (conn->state != VERBS_CONN_OPEN)
        return;
    snprintf(conn->base.failure, sizeof conn->base.failure, "%s (%d, vendor 0x%x)",
             ibv_wc_status_str(wc->status), (int)wc->status, wc->vendor_err);
    okv_verbs_conn_fail(conn, close_status(work, wc->status));
}

static int complete_recv(struct verbs_endpoint *ep, struct verbs_conn *conn,
                         const struct ibv_wc *wc, struct okv_event *event)
{
    unsigned slot = (uint32_t)wc->wr_id;
    if (conn && wc->status == IBV_WC_SUCCESS && wc->opcode != IBV_WC_RECV) {
        /* A write with immediate data: nobody may write here. */
        conn->deaf = true;
        okv_verbs_conn_fail(conn, OKV_EPROTO);
    }
    if (!conn || conn->deaf || wc->status != IBV_WC_SUCCESS) {
        okv_verbs_post_slot(ep, slot);
        return 0;
    }
    atomic_store_explicit(&conn->ready, true, memory_order_relaxed);
    bool has_immediate = wc->wc_flags & IBV_WC_WITH_IMM;
    *event = (struct okv_event){
        .type = OKV_EVENT_RECV,
        .conn = &conn->base,
        .immediate = has_immediate ? ntohl(wc->imm_data) : 0,
        .has_immediate = has_immediate,
        .length = wc->byte_len,
        .data = ep->slots.base + slot * ep->slots.stride,
        .slot = slot,
    };
    return 1;
}

static int complete_read(struct verbs_conn *conn, const struct ibv_wc *wc, struct okv_event *event)
{
    unsigned index = (uint32_t)wc->wr_id;
    if (index >= VERBS_MAX_READS || !conn->reads[index].busy)
        return 0;
    struct verbs_read_slot *slot = &conn->reads[index];
    slot->busy = false;
    conn->reads_busy--;
    if (slot->silent)
        return 0;
    *event = (struct okv_event){
        .type = OKV_EVENT_READ,
        .status = wc->status == IBV_WC_SUCCESS ? 0 : OKV_EDISCONNECTED,
        .conn = &conn->base,
        .cookie = slot->cookie,
    };
    return 1;
}

/* Something that we posted, other than receives. */
static int complete_own(struct verbs_conn *conn, enum verbs_work work, const struct ibv_wc *wc,
                        struct okv_event *event)
{
    okv_verbs_conn_completed(conn, wc);
    switch (work) {
    case VERBS_WORK_READ:
        return complete_read(conn, wc, event);
    case VERBS_WORK_RENDEZVOUS:
        return okv_verbs_complete_piece(conn, wc, event);
    case VERBS_WORK_HEARTBEAT:
        conn->probing = false;
        return 0;
    default:
        okv_verbs_send_return(conn, (uint32_t)wc->wr_id);
        return 0;
    }
}

/* Turns the next completion into an event, or none. Of a failed completion only
 * wr_id, status, qp_num and vendor_err mean anything (man ibv_poll_cq). */
static int complete_next(struct verbs_endpoint *ep, struct okv_event *event)
{
    const struct ibv_wc *wc = &ep->wc[ep->wc_next];
    enum verbs_work work = (enum verbs_work)(wc->wr_id >> 32);
    struct verbs_conn *conn = okv_verbs_conn_find(ep, wc->qp_num);

    if (!conn) {
        /* Its OPENED may be on the way from the listener's thread: announce first. */
        okv_verbs_take_handover(ep);
        if (ep->announce)
            return 0;
    }
    ep->wc_next++;
    if (conn && wc->status != IBV_WC_SUCCESS)
        fail_conn(conn, work, wc);
    if (work == VERBS_WORK_RECV)
        return complete_recv(ep, conn, wc, event);
    return conn ? complete_own(conn, work, wc, event) : 0;
}

/* Completions waiting in ep->wc: their number, 0 when the queue is empty, or a negative code.
 * Where fewer came than there was room for, the queue was `drained`, and is not looked at again to
 * be told so. A connection that closes wants it seen empty after it began to. */
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
    *drained = got < VERBS_POLL_BATCH && !ep->closing;
    if (got == 0)
        ep->times_empty++;
    return got;
}

/* A client has no listener's thread: it reads its CM events between completions. */
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
    /* Completions may come for ever: they leave room for the end of a connection. */
    int room = ep->closing && max > 1 ? max - 1 : max;

    if (atomic_load_explicit(&ep->handover.any, memory_order_acquire))
        okv_verbs_take_handover(ep);
    for (;;) {
        count += announce_opened(ep, events + count, room - count);
        if (count == room)
            break;
        waiting = refill(ep, &drained);
        if (waiting <= 0)
            break;
        count += complete_next(ep, &events[count]);
    }
    if (count == 0 && ep->cm && (ep->armed || ++ep->empty_polls % CM_LOOK_EVERY == 0))
        poll_cm(ep);
    if (ep->closing)
        count += okv_verbs_conn_finish(ep, events + count, max - count);
    if (count > 0) {
        ep->armed = false;
        return count;
    }
    return ep->broken ? OKV_EIO : 0;
}
