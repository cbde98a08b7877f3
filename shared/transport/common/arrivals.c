#include "shared/transport/common/arrivals.h"

void okv_arrivals_init(struct okv_arrivals *arrivals)
{
    pthread_mutex_init(&arrivals->lock, NULL);
    atomic_init(&arrivals->any, false);
    STAILQ_INIT(&arrivals->added);
    STAILQ_INIT(&arrivals->announced);
}

void okv_arrivals_fini(struct okv_arrivals *arrivals)
{
    pthread_mutex_destroy(&arrivals->lock);
}

void okv_arrivals_add_locked(struct okv_arrivals *arrivals, struct okv_conn *conn)
{
    STAILQ_INSERT_TAIL(&arrivals->added, conn, in_arrivals);
    atomic_store(&arrivals->any, true);
}

struct okv_conn *okv_arrivals_take_locked(struct okv_arrivals *arrivals)
{
    struct okv_conn *first = STAILQ_FIRST(&arrivals->added);

    atomic_store(&arrivals->any, false);
    STAILQ_CONCAT(&arrivals->announced, &arrivals->added);
    return first;
}

struct okv_conn *okv_arrivals_take(struct okv_arrivals *arrivals)
{
    pthread_mutex_lock(&arrivals->lock);
    struct okv_conn *first = okv_arrivals_take_locked(arrivals);
    pthread_mutex_unlock(&arrivals->lock);
    return first;
}

struct okv_conn *okv_arrivals_pop(struct okv_arrivals *arrivals)
{
    struct okv_conn *conn = STAILQ_FIRST(&arrivals->announced);

    if (conn)
        STAILQ_REMOVE_HEAD(&arrivals->announced, in_arrivals);
    return conn;
}

int okv_arrivals_report(struct okv_arrivals *arrivals, struct okv_event *events, int max)
{
    struct okv_conn *conn;
    int count = 0;

    while (count < max && (conn = okv_arrivals_pop(arrivals)))
        events[count++] = (struct okv_event){.type = OKV_EVENT_OPENED, .conn = conn};
    return count;
}
