/* The server's rendezvous reads: copies of an advertised buffer into the region. */
#include "shared/transport/local/local.h"

#include <errno.h>
#include <unistd.h>

#include "shared/base/bytes.h"
#include "shared/base/error.h"

/* Batches of packets in which a missing advertised buffer is searched for: enough to empty a full
 * socket. */
#define RECEIVE_BATCHES_MAX 256

static int copy_advertised(const struct okv_local_advertised *advertised,
                           const struct okv_rendezvous *rendezvous, uint8_t *to)
{
    uint32_t done = 0;

    if (!okv_range_inside(rendezvous->address, rendezvous->length, advertised->size))
        return OKV_ERENDEZVOUS;
    while (done < rendezvous->length) {
        ssize_t n = pread(advertised->fd, to + done, rendezvous->length - done,
                          (off_t)(rendezvous->address + done));
        if (n == 0 || (n < 0 && errno != EINTR))
            return OKV_ERENDEZVOUS;
        done += n > 0 ? (uint32_t)n : 0;
    }
    return 0;
}

static int rendezvous_now(struct okv_local_conn *conn, const struct okv_rendezvous *rendezvous)
{
    struct okv_local_advertised *advertised = okv_local_advertised_find(conn, rendezvous->key);

    /* The message that names the buffer may have overtaken it: messages take the ring. */
    for (unsigned i = 0;
         !advertised && i < RECEIVE_BATCHES_MAX && okv_local_socket_receive(conn) > 0; i++)
        advertised = okv_local_advertised_find(conn, rendezvous->key);
    if (!advertised)
        return OKV_ERENDEZVOUS;
    int status =
        copy_advertised(advertised, rendezvous, (uint8_t *)conn->region.base + rendezvous->offset);
    okv_local_advertised_close(advertised);
    return status;
}

int okv_local_rendezvous(struct okv_conn *base, const struct okv_rendezvous *rendezvous)
{
    struct okv_local_conn *conn = okv_local_conn(base);
    struct okv_local_endpoint *endpoint = okv_local_endpoint(base->endpoint);

    /* A client's connection has a region of length 0, so this refuses clients too. */
    if (rendezvous->length == 0 ||
        !okv_range_inside(rendezvous->offset, rendezvous->length, conn->region.length))
        return OKV_EINVAL;
    if (conn->state != OKV_LOCAL_OPEN)
        return OKV_EDISCONNECTED;
    if (conn->done_count == OKV_RENDEZVOUS_MAX)
        return OKV_EAGAIN;
    if (conn->done_count == 0) {
        conn->next_done = NULL;
        *endpoint->done_tail = conn;
        endpoint->done_tail = &conn->next_done;
    }
    conn->done[(conn->done_first + conn->done_count++) % OKV_RENDEZVOUS_MAX] =
        (struct okv_local_done){rendezvous->cookie, rendezvous_now(conn, rendezvous)};
    base->acknowledged++;
    okv_local_announce(endpoint);
    return 0;
}

int okv_local_report_rendezvous(struct okv_local_endpoint *endpoint, struct okv_event *events,
                                int max)
{
    int n = 0;

    while (n < max && endpoint->done) {
        struct okv_local_conn *conn = endpoint->done;
        const struct okv_local_done *done = &conn->done[conn->done_first];
        events[n++] = (struct okv_event){
            .type = OKV_EVENT_RENDEZVOUS_DONE,
            .status = done->status,
            .conn = &conn->base,
            .cookie = done->cookie,
        };
        conn->done_first = (conn->done_first + 1) % OKV_RENDEZVOUS_MAX;
        if (--conn->done_count > 0)
            continue;
        endpoint->done = conn->next_done;
        if (!endpoint->done)
            endpoint->done_tail = &endpoint->done;
    }
    return n;
}
