/* How connections end: what they still owe, then OKV_EVENT_CLOSED, then their memory. */
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/transport/verbs/verbs.h"

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

void okv_verbs_conn_destroy(struct okv_conn *conn)
{
    if (!conn)
        return;
    struct verbs_endpoint *ep = (struct verbs_endpoint *)conn->endpoint;
    bool is_client = ep->cm != NULL;

    okv_verbs_conn_discard((struct verbs_conn *)conn);
    if (is_client)
        okv_verbs_endpoint_destroy(&ep->base);
}
