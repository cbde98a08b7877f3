/* The server's rendezvous reads: copies of an advertised buffer into the region. */
#include "shared/transport/local/rendezvous.h"

#include <errno.h>
#include <unistd.h>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/transport/local/conn.h"

/* The client may change its table at any time. */
static int find_buffer(struct okv_local_conn *conn, unsigned slot)
{
    struct okv_rendezvous_read *read = &conn->rendezvous.slots[slot];
    uint32_t index = read->key % (1u << OKV_LOCAL_INDEX_BITS);

    if (read->key == 0 || index >= OKV_LOCAL_ADVERTS)
        return OKV_ERENDEZVOUS;
    struct okv_local_advert_slot *advert = &conn->ring.page->adverts[index];
    if (atomic_load_explicit(&advert->key, memory_order_acquire) != read->key)
        return OKV_ERENDEZVOUS;
    uint32_t size = atomic_load_explicit(&advert->size, memory_order_relaxed);
    uint64_t start =
        (uint64_t)atomic_load_explicit(&advert->page, memory_order_relaxed) * OKV_LOCAL_PAGE;
    if (!okv_range_inside(start, size, OKV_LOCAL_VALUES_BYTES) ||
        !okv_range_inside(read->address, read->left, size))
        return OKV_ERENDEZVOUS;
    conn->advert_slots[slot] = advert;
    read->address += start;
    return 0;
}

/* The key has not changed: what was read is what was advertised by it. */
static bool is_still(const struct okv_local_advert_slot *advert, uint32_t key)
{
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&advert->key, memory_order_relaxed) == key;
}

static void fail(struct okv_rendezvous_read *read, int status)
{
    read->left = 0;
    read->status = status;
}

/* pread, because a page that the client took out again is read as zeros and not made anew. Returns
 * how many bytes it copied. */
static uint32_t copy_piece(struct okv_local_conn *conn, uint32_t most)
{
    unsigned slot = conn->rendezvous.first;
    struct okv_rendezvous_read *read = &conn->rendezvous.slots[slot];
    uint32_t length = read->left < most ? read->left : most;
    uint8_t *to = (uint8_t *)conn->region.base + read->offset;
    ssize_t n = pread(conn->values, to, length, (off_t)read->address);

    if (n < 0 && errno == EINTR)
        return 0;
    if (n <= 0 || !is_still(conn->advert_slots[slot], read->key)) {
        fail(read, OKV_ERENDEZVOUS);
        return 0;
    }
    okv_rendezvous_advance(read, (uint32_t)n);
    return (uint32_t)n;
}

int okv_local_rendezvous(struct okv_conn *base, const struct okv_rendezvous *rendezvous)
{
    struct okv_local_conn *conn = okv_local_conn(base);
    struct okv_local_endpoint *endpoint = okv_local_endpoint(base->endpoint);

    /* A client's connection has a region of length 0, so this refuses clients too. */
    int status = okv_rendezvous_check(&conn->rendezvous, rendezvous, conn->region.length,
                                      conn->state == OKV_LOCAL_OPEN);
    if (status)
        return status;
    if (conn->rendezvous.count == 0)
        TAILQ_INSERT_TAIL(&endpoint->rendezvous, conn, in_rendezvous);
    unsigned slot = okv_rendezvous_begin(&conn->rendezvous, rendezvous);
    status = find_buffer(conn, slot);
    if (status)
        fail(&conn->rendezvous.slots[slot], status);
    base->acknowledged++;
    okv_local_announce(endpoint);
    return 0;
}

int okv_local_run_rendezvous(struct okv_local_endpoint *endpoint, struct okv_event *events, int max)
{
    const struct okv_local_conn *last = TAILQ_LAST(&endpoint->rendezvous, okv_local_conn_list);
    struct okv_local_conn *conn = NULL;
    uint32_t room = OKV_LOCAL_RENDEZVOUS_PIECE;
    int n = 0;

    while (last && conn != last && n < max && room > 0) {
        conn = TAILQ_FIRST(&endpoint->rendezvous);
        const struct okv_rendezvous_read *oldest = &conn->rendezvous.slots[conn->rendezvous.first];
        bool is_open = conn->state == OKV_LOCAL_OPEN;
        TAILQ_REMOVE(&endpoint->rendezvous, conn, in_rendezvous);
        if (oldest->left > 0 && is_open)
            room -= copy_piece(conn, room);
        if (oldest->left == 0 || !is_open)
            okv_rendezvous_report_oldest(&conn->rendezvous, &conn->base, &events[n++]);
        if (conn->rendezvous.count > 0)
            TAILQ_INSERT_TAIL(&endpoint->rendezvous, conn, in_rendezvous);
    }
    return n;
}

int okv_local_end_rendezvous(struct okv_local_conn *conn, struct okv_event *events, int max)
{
    struct okv_local_endpoint *endpoint = okv_local_endpoint(conn->base.endpoint);
    int n = 0;

    if (conn->rendezvous.count == 0)
        return 0;
    TAILQ_REMOVE(&endpoint->rendezvous, conn, in_rendezvous);
    while (n < max && conn->rendezvous.count > 0)
        okv_rendezvous_report_oldest(&conn->rendezvous, &conn->base, &events[n++]);
    if (conn->rendezvous.count > 0)
        TAILQ_INSERT_TAIL(&endpoint->rendezvous, conn, in_rendezvous);
    return n;
}
