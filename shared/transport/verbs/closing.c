/* How connections end: their READs and rendezvous reads are reported, then OKV_EVENT_CLOSED; then
 * their memory is freed. And how endpoints end. */
#include "shared/transport/verbs/closing.h"

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/transport/verbs/conn.h"
#include "shared/transport/verbs/endpoint.h"
#include "shared/transport/verbs/handover.h"
#include "shared/transport/verbs/rendezvous.h"

void okv_verbs_conn_close(struct okv_conn *conn)
{
    struct verbs_conn *c = (struct verbs_conn *)conn;
    c->discards_receives = true;
    okv_verbs_conn_fail(c, OKV_EDISCONNECTED);
}

/* A connection is over when the device has returned all its work and the queue was seen empty
 * after it entered the error state, so that the peer's last messages were delivered. A deadline
 * bounds both. */
static bool is_over(const struct verbs_endpoint *ep, const struct verbs_conn *conn)
{
    bool has_returned = conn->base.unacknowledged == 0 && conn->recvs_posted == 0;

    if (has_returned && ep->times_empty > conn->close_times_empty)
        return true;
    return okv_clock_ns() >= conn->close_deadline;
}

/* Work that the device did not return in time may still touch memory. Without its queue pair it
 * cannot. */
static void revoke_work(struct verbs_conn *conn)
{
    if ((conn->base.unacknowledged > 0 || conn->recvs_posted > 0) && conn->qp) {
        ibv_destroy_qp(conn->qp);
        conn->qp = NULL;
    }
    conn->base.unacknowledged = conn->recvs_posted = 0;
}

int okv_verbs_closing_finish(struct verbs_endpoint *endpoint, struct okv_event *events, int max)
{
    struct verbs_conn *next;
    int count = 0;

    max = max < OKV_ENDS_PER_POLL ? max : OKV_ENDS_PER_POLL;
    for (struct verbs_conn *conn = LIST_FIRST(&endpoint->closing); conn && count < max;
         conn = next) {
        next = LIST_NEXT(conn, in_closing);
        if (!is_over(endpoint, conn))
            continue;
        revoke_work(conn);
        if (!okv_read_slots_end(&conn->reads, &conn->base, events, max, &count) ||
            !okv_verbs_end_rendezvous_reads(conn, events, max, &count) || count == max)
            break;
        LIST_REMOVE(conn, in_closing);
        okv_verbs_conn_expel(conn);
        conn->state = VERBS_CONN_CLOSED;
        events[count++] = (struct okv_event){
            .type = OKV_EVENT_CLOSED, .status = conn->close_status, .conn = &conn->base};
    }
    return count;
}

/* Disconnects and frees a connection in any state; its endpoint stays, and with a client's its id.
 */
static void discard(struct verbs_conn *conn)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)conn->base.endpoint;

    okv_verbs_conn_fail(conn, OKV_EDISCONNECTED); /* disconnects, unless that has happened */
    if (conn->state == VERBS_CONN_CLOSING)
        LIST_REMOVE(conn, in_closing);
    okv_verbs_conn_expel(conn);
    if (ep->cm)
        ep->last_id = conn->id;
    else
        rdma_destroy_id(conn->id); /* waits for the listener's thread, see verbs.h */
    okv_verbs_handover_forget(conn);
    okv_verbs_conn_free(conn);
}

/* Accepted connections whose OKV_EVENT_OPENED was not polled have no other owner. */
static void discard_arrivals(struct verbs_endpoint *ep)
{
    struct okv_conn *conn;

    okv_verbs_handover_process(ep);
    while ((conn = okv_arrivals_pop(&ep->arrivals)))
        discard((struct verbs_conn *)conn);
}

void okv_verbs_endpoint_destroy(struct okv_endpoint *endpoint)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)endpoint;

    if (!ep)
        return;
    discard_arrivals(ep);
    okv_verbs_endpoint_free(ep);
}

void okv_verbs_conn_destroy(struct okv_conn *conn)
{
    if (!conn)
        return;
    struct verbs_endpoint *ep = (struct verbs_endpoint *)conn->endpoint;
    bool is_client = ep->cm != NULL;

    discard((struct verbs_conn *)conn);
    if (is_client)
        okv_verbs_endpoint_free(ep);
}
