/* Where the listener's thread meets the endpoint's: connections that were accepted or lost, and
 * the wake-up that tells of them. */
#include <unistd.h>

#include "shared/transport/verbs/verbs.h"

void okv_verbs_wake(struct okv_endpoint *endpoint)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)endpoint;
    uint64_t one = 1;
    ssize_t n = write(ep->wake_fd, &one, sizeof one);
    (void)n; /* fails only when the counter is full, and the descriptor then is readable */
}

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

void okv_verbs_handover_opened_locked(struct verbs_conn *conn)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)conn->base.endpoint;
    conn->next_opened = NULL;
    *ep->handover.opened_tail = conn;
    ep->handover.opened_tail = &conn->next_opened;
    atomic_store(&ep->handover.any, true);
    okv_verbs_wake(&ep->base);
}

void okv_verbs_handover_gone(struct verbs_conn *conn)
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

struct verbs_arrivals okv_verbs_handover_take(struct verbs_endpoint *ep)
{
    struct verbs_arrivals arrivals;

    pthread_mutex_lock(&ep->handover.lock);
    atomic_store(&ep->handover.any, false);
    arrivals = (struct verbs_arrivals){ep->handover.opened, ep->handover.gone};
    ep->handover.opened = NULL;
    ep->handover.opened_tail = &ep->handover.opened;
    ep->handover.gone = NULL;
    pthread_mutex_unlock(&ep->handover.lock);
    return arrivals;
}

void okv_verbs_handover_forget(struct verbs_conn *conn)
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
