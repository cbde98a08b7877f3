/* The server's rendezvous reads: copies of an advertised buffer into the region. */
#include "shared/transport/local/local.h"

#include <errno.h>
#include <unistd.h>

#include "shared/base/bytes.h"
#include "shared/base/error.h"

/* What a place of the client's table says. The client may change it at any time. */
struct buffer {
    struct okv_local_place *place;
    uint32_t key, size;
    off_t offset; /* in the memory */
};

static int find_buffer(const struct okv_local_conn *conn, uint32_t key, struct buffer *out)
{
    uint32_t index = key % (1u << OKV_LOCAL_INDEX_BITS);

    if (key == 0 || index >= OKV_LOCAL_PLACES)
        return OKV_ERENDEZVOUS;
    struct okv_local_place *place = &conn->ring.page->places[index];
    if (atomic_load_explicit(&place->key, memory_order_acquire) != key)
        return OKV_ERENDEZVOUS;
    uint32_t size = atomic_load_explicit(&place->size, memory_order_relaxed);
    uint64_t start =
        (uint64_t)atomic_load_explicit(&place->page, memory_order_relaxed) * OKV_LOCAL_PAGE;
    if (!okv_range_inside(start, size, OKV_LOCAL_VALUES_BYTES))
        return OKV_ERENDEZVOUS;
    *out = (struct buffer){place, key, size,
                           (off_t)(okv_local_ring_mapped(conn->ring.capacity) + start)};
    return 0;
}

/* The key has not changed: what was read is what was advertised by it. */
static bool is_still(const struct buffer *buffer)
{
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&buffer->place->key, memory_order_relaxed) == buffer->key;
}

/* pread, because a page that the client took out again is read as zeros and not made anew. */
static int copy_advertised(const struct okv_local_conn *conn,
                           const struct okv_rendezvous *rendezvous, uint8_t *to)
{
    struct buffer buffer;
    uint32_t done = 0;
    int status = find_buffer(conn, rendezvous->key, &buffer);

    if (status)
        return status;
    if (!okv_range_inside(rendezvous->address, rendezvous->length, buffer.size))
        return OKV_ERENDEZVOUS;
    while (done < rendezvous->length) {
        ssize_t n = pread(conn->memory, to + done, rendezvous->length - done,
                          buffer.offset + (off_t)(rendezvous->address + done));
        if (n == 0 || (n < 0 && errno != EINTR))
            return OKV_ERENDEZVOUS;
        done += n > 0 ? (uint32_t)n : 0;
    }
    return is_still(&buffer) ? 0 : OKV_ERENDEZVOUS;
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
    uint8_t *to = (uint8_t *)conn->region.base + rendezvous->offset;
    if (conn->done_count == OKV_RENDEZVOUS_MAX)
        return OKV_EAGAIN;
    if (conn->done_count == 0) {
        conn->next_done = NULL;
        *endpoint->done_tail = conn;
        endpoint->done_tail = &conn->next_done;
    }
    conn->done[(conn->done_first + conn->done_count++) % OKV_RENDEZVOUS_MAX] =
        (struct okv_local_done){rendezvous->cookie, copy_advertised(conn, rendezvous, to)};
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
