/* How connections end: their READs and rendezvous reads are reported, then OKV_EVENT_CLOSED; then
 * their memory is freed, as soon as the provider has no operation of theirs. And how endpoints end.
 */
#include "shared/transport/ofi/closing.h"

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/transport/ofi/conn.h"
#include "shared/transport/ofi/endpoint.h"
#include "shared/transport/ofi/progress.h"
#include "shared/transport/ofi/rendezvous.h"

void okv_ofi_conn_close(struct okv_conn *conn)
{
    struct ofi_conn *c = (struct ofi_conn *)conn;

    c->discards_receives = true;
    okv_ofi_conn_fail(c, OKV_EDISCONNECTED, "");
}

/* A client's endpoint has one connection, and closing it ends every operation, so that nothing is
 * written to the caller's memory afterwards. False when the provider does not close it. */
static bool end_operations(struct ofi_conn *conn)
{
    struct ofi_endpoint *ep = ofi_endpoint_of(conn);

    if (ep->listener || !ep->ep)
        return !ep->is_stuck;
    ep->is_stuck = ep->broken = fi_close(&ep->ep->fid) != 0;
    ep->ep = NULL;
    if (!ep->is_stuck)
        conn->pending = 0;
    return !ep->is_stuck;
}

/* The queue was seen empty after the end, so that the peer's last messages were delivered. A
 * server's own messages have left, or had time to. */
static bool is_over(const struct ofi_endpoint *ep, const struct ofi_conn *conn)
{
    bool is_drained = conn->discards_receives || ep->times_empty > conn->close_times_empty;

    if (is_drained && (!ep->listener || conn->pending == 0))
        return true;
    return okv_clock_ns() >= conn->close_deadline;
}

int okv_ofi_closing_finish(struct ofi_endpoint *endpoint, struct okv_event *events, int max)
{
    struct ofi_conn *next;
    int count = 0;

    max = max < OKV_ENDS_PER_POLL ? max : OKV_ENDS_PER_POLL;
    for (struct ofi_conn *conn = LIST_FIRST(&endpoint->closing); conn && count < max; conn = next) {
        next = LIST_NEXT(conn, in_closing);
        bool is_done = is_over(endpoint, conn);
        if (is_done)
            is_done = end_operations(conn) &&
                      okv_read_slots_end(&conn->reads, &conn->base, events, max, &count) &&
                      okv_ofi_end_rendezvous_reads(conn, events, max, &count) && count < max;
        if (!is_done)
            continue;
        LIST_REMOVE(conn, in_closing);
        endpoint->table[conn->number] = NULL;
        conn->state = OFI_CONN_CLOSED;
        events[count++] = (struct okv_event){
            .type = OKV_EVENT_CLOSED, .status = conn->close_status, .conn = &conn->base};
    }
    return count;
}

/* Waits for the provider to release its operations. Its number is free for another connection
 * meanwhile, so that peers that stall cannot take all numbers. At most max_conns numbers are freed
 * in this way, which bounds the memory. */
static void become_zombie(struct ofi_conn *conn)
{
    struct ofi_endpoint *ep = ofi_endpoint_of(conn);

    if (ep->zombie_count++ < ep->base.max_conns) {
        okv_ofi_conn_return_number(ep, conn->number);
        conn->has_number = false;
    }
    LIST_INSERT_HEAD(&ep->zombies, conn, in_closing);
}

void okv_ofi_conn_destroy(struct okv_conn *conn)
{
    struct ofi_conn *c = (struct ofi_conn *)conn;

    if (!c)
        return;
    struct ofi_endpoint *ep = ofi_endpoint_of(c);
    okv_ofi_conn_fail(c, OKV_EDISCONNECTED, "");
    if (c->state == OFI_CONN_CLOSING)
        LIST_REMOVE(c, in_closing);
    c->state = OFI_CONN_CLOSED;
    ep->table[c->number] = NULL;
    if (c->is_blocked)
        LIST_REMOVE(c, in_blocked);
    if (!end_operations(c))
        return; /* the provider may write to what it has, so all of it stays */
    if (c->pending == 0) {
        okv_ofi_conn_free(c);
    } else {
        become_zombie(c);
    }
    if (!ep->listener)
        okv_ofi_endpoint_destroy(&ep->base);
}

void okv_ofi_zombies_free(struct ofi_endpoint *endpoint, bool all)
{
    struct ofi_conn *next;

    for (struct ofi_conn *conn = LIST_FIRST(&endpoint->zombies); conn; conn = next) {
        next = LIST_NEXT(conn, in_closing);
        if (conn->pending > 0 && !all)
            continue;
        LIST_REMOVE(conn, in_closing);
        endpoint->zombie_count--;
        okv_ofi_conn_free(conn);
    }
}

/* Accepted connections whose OKV_EVENT_OPENED was not polled have no other owner. */
static void destroy_arrivals(struct ofi_endpoint *ep)
{
    struct okv_conn *conn;

    okv_ofi_arrivals_process(ep);
    while ((conn = okv_arrivals_pop(&ep->arrivals)))
        okv_ofi_conn_destroy(conn);
}

void okv_ofi_endpoint_destroy(struct okv_endpoint *endpoint)
{
    struct ofi_endpoint *ep = (struct ofi_endpoint *)endpoint;

    if (!ep)
        return;
    destroy_arrivals(ep);
    okv_ofi_progress_stop(ep);
    if (ep->ep && fi_close(&ep->ep->fid)) /* ends every operation */
        return; /* or the provider may write to what it has, which stays */
    okv_ofi_zombies_free(ep, true);
    okv_ofi_endpoint_free(ep);
}
