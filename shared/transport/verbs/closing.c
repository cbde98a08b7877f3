/* How connections end: what they still owe, then OKV_EVENT_CLOSED, then their memory. */
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/transport/verbs/verbs.h"

/* Reports READs that the device never completed. True when none is left. */
static bool end_reads(struct verbs_conn *conn, struct okv_event *events, int max, int *count)
{
    for (unsigned i = 0; i < VERBS_MAX_READS; i++) {
        struct verbs_read_slot *slot = &conn->reads[i];
        if (!slot->busy)
            continue;
        if (!slot->silent) {
            if (*count == max)
                return false;
            events[(*count)++] = (struct okv_event){.type = OKV_EVENT_READ,
                                                    .status = OKV_EDISCONNECTED,
                                                    .conn = &conn->base,
                                                    .cookie = slot->cookie};
        }
        slot->busy = false;
    }
    return true;
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
    int count = 0;
    struct verbs_conn **link = &endpoint->closing;

    max = max < OKV_ENDS_PER_POLL ? max : OKV_ENDS_PER_POLL;
    while (*link && count < max) {
        struct verbs_conn *conn = *link;
        if (!is_over(endpoint, conn)) {
            link = &conn->next_closing;
            continue;
        }
        revoke_work(conn);
        if (!end_reads(conn, events, max, &count) ||
            !okv_verbs_end_rendezvous_reads(conn, events, max, &count) || count == max)
            break;
        *link = conn->next_closing;
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
