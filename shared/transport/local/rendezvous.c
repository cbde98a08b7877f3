/* The server's rendezvous reads: copies of an advertised buffer into the region. */
#include "shared/transport/local/local.h"

#include <errno.h>
#include <unistd.h>

#include "shared/base/bytes.h"
#include "shared/base/error.h"

/* The client may change its table at any time. */
static int find_buffer(const struct okv_local_conn *conn, const struct okv_rendezvous *rendezvous,
                       struct okv_local_rendezvous *out)
{
    uint32_t index = rendezvous->key % (1u << OKV_LOCAL_INDEX_BITS);

    if (rendezvous->key == 0 || index >= OKV_LOCAL_PLACES)
        return OKV_ERENDEZVOUS;
    struct okv_local_place *place = &conn->ring.page->places[index];
    if (atomic_load_explicit(&place->key, memory_order_acquire) != rendezvous->key)
        return OKV_ERENDEZVOUS;
    uint32_t size = atomic_load_explicit(&place->size, memory_order_relaxed);
    uint64_t start =
        (uint64_t)atomic_load_explicit(&place->page, memory_order_relaxed) * OKV_LOCAL_PAGE;
    if (!okv_range_inside(start, size, OKV_LOCAL_VALUES_BYTES) ||
        !okv_range_inside(rendezvous->address, rendezvous->length, size))
        return OKV_ERENDEZVOUS;
    out->place = place;
    out->key = rendezvous->key;
    out->from = (off_t)(start + rendezvous->address);
    out->left = rendezvous->length;
    return 0;
}

/* The key has not changed: what was read is what was advertised by it. */
static bool is_still(const struct okv_local_rendezvous *rendezvous)
{
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&rendezvous->place->key, memory_order_relaxed) == rendezvous->key;
}

static void fail(struct okv_local_rendezvous *rendezvous, int status)
{
    rendezvous->left = 0;
    rendezvous->status = status;
}

/* pread, because a page that the client took out again is read as zeros and not made anew. Returns
 * how many bytes it copied. */
static uint32_t copy_piece(const struct okv_local_conn *conn,
                           struct okv_local_rendezvous *rendezvous, uint32_t most)
{
    uint32_t length = rendezvous->left < most ? rendezvous->left : most;
    ssize_t n = pread(conn->values, rendezvous->to, length, rendezvous->from);

    if (n < 0 && errno == EINTR)
        return 0;
    if (n <= 0 || !is_still(rendezvous)) {
        fail(rendezvous, OKV_ERENDEZVOUS);
        return 0;
    }
    rendezvous->to += n;
    rendezvous->from += n;
    rendezvous->left -= (uint32_t)n;
    return (uint32_t)n;
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
    if (conn->rendezvous_count == OKV_RENDEZVOUS_MAX)
        return OKV_EAGAIN;
    if (conn->rendezvous_count == 0)
        TAILQ_INSERT_TAIL(&endpoint->rendezvous, conn, in_rendezvous);
    unsigned at = (conn->rendezvous_first + conn->rendezvous_count++) % OKV_RENDEZVOUS_MAX;
    struct okv_local_rendezvous *added = &conn->rendezvous[at];
    *added = (struct okv_local_rendezvous){.cookie = rendezvous->cookie,
                                           .to = (uint8_t *)conn->region.base + rendezvous->offset};
    added->status = find_buffer(conn, rendezvous, added);
    base->acknowledged++;
    okv_local_announce(endpoint);
    return 0;
}

/* Reports the connection's oldest rendezvous read and removes it. The connection is not listed. */
static void report_oldest(struct okv_local_conn *conn, struct okv_event *event)
{
    const struct okv_local_rendezvous *oldest = &conn->rendezvous[conn->rendezvous_first];

    *event = (struct okv_event){
        .type = OKV_EVENT_RENDEZVOUS_DONE,
        .status = oldest->status,
        .conn = &conn->base,
        .cookie = oldest->cookie,
    };
    conn->rendezvous_first = (conn->rendezvous_first + 1) % OKV_RENDEZVOUS_MAX;
    conn->rendezvous_count--;
}

int okv_local_run_rendezvous(struct okv_local_endpoint *endpoint, struct okv_event *events, int max)
{
    const struct okv_local_conn *last = TAILQ_LAST(&endpoint->rendezvous, okv_local_conn_list);
    struct okv_local_conn *conn = NULL;
    uint32_t room = OKV_LOCAL_RENDEZVOUS_PIECE;
    int n = 0;

    while (last && conn != last && n < max && room > 0) {
        conn = TAILQ_FIRST(&endpoint->rendezvous);
        struct okv_local_rendezvous *oldest = &conn->rendezvous[conn->rendezvous_first];
        TAILQ_REMOVE(&endpoint->rendezvous, conn, in_rendezvous);
        if (oldest->left > 0 && conn->state != OKV_LOCAL_OPEN)
            fail(oldest, OKV_EDISCONNECTED);
        if (oldest->left > 0)
            room -= copy_piece(conn, oldest, room);
        if (oldest->left == 0)
            report_oldest(conn, &events[n++]);
        if (conn->rendezvous_count > 0)
            TAILQ_INSERT_TAIL(&endpoint->rendezvous, conn, in_rendezvous);
    }
    return n;
}

int okv_local_end_rendezvous(struct okv_local_conn *conn, struct okv_event *events, int max)
{
    struct okv_local_endpoint *endpoint = okv_local_endpoint(conn->base.endpoint);
    int n = 0;

    if (conn->rendezvous_count == 0)
        return 0;
    TAILQ_REMOVE(&endpoint->rendezvous, conn, in_rendezvous);
    while (n < max && conn->rendezvous_count > 0) {
        struct okv_local_rendezvous *oldest = &conn->rendezvous[conn->rendezvous_first];
        if (oldest->left > 0)
            fail(oldest, OKV_EDISCONNECTED);
        report_oldest(conn, &events[n++]);
    }
    if (conn->rendezvous_count > 0)
        TAILQ_INSERT_TAIL(&endpoint->rendezvous, conn, in_rendezvous);
    return n;
}
