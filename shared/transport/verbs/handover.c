#include "shared/transport/verbs/handover.h"

#include "shared/base/error.h"
#include "shared/transport/verbs/conn.h"

bool okv_verbs_is_gone_event(enum rdma_cm_event_type type)
{
    switch (type) {
    case RDMA_CM_EVENT_CONNECT_ERROR: /* accepted, never established */
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        return true;
    default:
        /* TIMEWAIT_EXIT only says that the queue pair's number may be used again.
         * ADDR_CHANGE concerns new connections. If it breaks the path of this one,
         * the next packet fails by itself. */
        return false;
    }
}

void okv_verbs_handover_gone(struct verbs_conn *conn)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)conn->base.endpoint;
    pthread_mutex_lock(&ep->arrivals.lock);
    if (!conn->is_gone) {
        conn->is_gone = true;
        conn->next_gone = ep->gone;
        ep->gone = conn;
        atomic_store(&ep->arrivals.any, true);
        okv_wakeup_signal(&ep->wakeup);
    }
    pthread_mutex_unlock(&ep->arrivals.lock);
}

void okv_verbs_handover_process(struct verbs_endpoint *ep)
{
    pthread_mutex_lock(&ep->arrivals.lock);
    struct okv_conn *conn = okv_arrivals_take_locked(&ep->arrivals);
    struct verbs_conn *gone = ep->gone;
    ep->gone = NULL;
    pthread_mutex_unlock(&ep->arrivals.lock);

    for (; conn; conn = STAILQ_NEXT(conn, in_arrivals))
        okv_verbs_conn_admit((struct verbs_conn *)conn);
    for (; gone; gone = gone->next_gone)
        okv_verbs_conn_fail(gone, OKV_EDISCONNECTED);
}

void okv_verbs_handover_forget(struct verbs_conn *conn)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)conn->base.endpoint;
    pthread_mutex_lock(&ep->arrivals.lock);
    struct verbs_conn **link = &ep->gone;
    while (*link && *link != conn)
        link = &(*link)->next_gone;
    if (*link)
        *link = conn->next_gone;
    pthread_mutex_unlock(&ep->arrivals.lock);
}
