/*
 * Accepted connections on their way from the listener's thread to the endpoint's.
 *
 * The listener's thread adds them under the lock. The endpoint's thread takes all of them at once,
 * admits each, and reports each by OKV_EVENT_OPENED, which may take several polls.
 */
#ifndef OKV_SHARED_TRANSPORT_COMMON_ARRIVALS_H
#define OKV_SHARED_TRANSPORT_COMMON_ARRIVALS_H

#include <pthread.h>

#include "shared/transport/transport.h"

STAILQ_HEAD(okv_conn_queue, okv_conn);

struct okv_arrivals {
    pthread_mutex_t lock;
    atomic_bool any;                 /* a hint that saves taking the lock */
    struct okv_conn_queue added;     /* under the lock */
    struct okv_conn_queue announced; /* the endpoint's thread's: taken, and not reported yet */
};

void okv_arrivals_init(struct okv_arrivals *arrivals);
/* The connections in it are the caller's to free before. */
void okv_arrivals_fini(struct okv_arrivals *arrivals);

/* Adds a connection; the caller holds the lock, and wakes the endpoint afterwards. */
void okv_arrivals_add_locked(struct okv_arrivals *arrivals, struct okv_conn *conn);

/* Endpoint's thread, all that follows. Whether take would find something. */
static inline bool okv_arrivals_has_any(struct okv_arrivals *arrivals)
{
    return atomic_load_explicit(&arrivals->any, memory_order_acquire);
}

/* Takes all. Returns the first; the others follow it by STAILQ_NEXT(conn, in_arrivals). NULL: there
 * are none. */
struct okv_conn *okv_arrivals_take(struct okv_arrivals *arrivals);
/* The same; the caller holds the lock. */
struct okv_conn *okv_arrivals_take_locked(struct okv_arrivals *arrivals);
/* Removes the next one that is taken and not reported; NULL: there is none. */
struct okv_conn *okv_arrivals_pop(struct okv_arrivals *arrivals);
/* Makes up to `max` OKV_EVENT_OPENED; returns their number. */
int okv_arrivals_report(struct okv_arrivals *arrivals, struct okv_event *events, int max);

/* Whether some are to be taken or reported. */
static inline bool okv_arrivals_are_waiting(struct okv_arrivals *arrivals)
{
    return okv_arrivals_has_any(arrivals) || !STAILQ_EMPTY(&arrivals->announced);
}

#endif
