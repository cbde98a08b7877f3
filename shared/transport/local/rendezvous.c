/*
 * A client's advertised buffers, and the server's rendezvous reads of them.
 *
 * A client writes a copy of its memory into the values and describes it in a slot before the rings
 * (ring.h). The server copies from there into the region.
 */
#include "shared/transport/local/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/transport/local/conn.h"

#define PAGES_MAX ((uint32_t)(OKV_LOCAL_VALUES_BYTES / OKV_LOCAL_PAGE))

struct advert {
    struct okv_advert base;
    struct okv_local_conn *conn;
};

/* Buffers that one connection may have at a time: one for each credit. */
static unsigned slot_count(const struct okv_local_conn *conn)
{
    uint32_t credits = okv_local_endpoint(conn->base.endpoint)->limits.credits;

    return credits < OKV_LOCAL_ADVERTS ? credits : OKV_LOCAL_ADVERTS;
}

static uint32_t pages_of(size_t length)
{
    return (uint32_t)((length + OKV_LOCAL_PAGE - 1) / OKV_LOCAL_PAGE);
}

/* A buffer that has one of these pages, or NULL. */
static const struct okv_local_key *find_owner(const struct okv_local_conn *conn, uint32_t page,
                                              uint32_t pages)
{
    for (unsigned i = 0; i < slot_count(conn); i++) {
        const struct okv_local_key *key = &conn->keys[i];
        if (key->pages > 0 && page < key->page + key->pages && key->page < page + pages)
            return key;
    }
    return NULL;
}

/* Finds the first room of `pages` pages: at the beginning, or after a buffer. */
static int find_pages(const struct okv_local_conn *conn, uint32_t pages, uint32_t *out)
{
    const struct okv_local_key *owner;
    uint32_t page = 0;

    while ((owner = find_owner(conn, page, pages)))
        page = owner->page + owner->pages;
    if (page + pages > PAGES_MAX)
        return OKV_EAGAIN;
    *out = page;
    return 0;
}

/* Reserves the lowest free slot, and room in the values. */
static int reserve(struct okv_local_conn *conn, uint32_t pages, uint32_t *index)
{
    unsigned count = slot_count(conn), i;
    uint32_t page;

    if (!conn->keys)
        conn->keys = calloc(count, sizeof *conn->keys);
    if (!conn->keys)
        return OKV_ENOMEM;
    for (i = 0; i < count && conn->keys[i].pages > 0; i++)
        continue;
    if (i == count)
        return OKV_EAGAIN;
    int status = find_pages(conn, pages, &page);
    if (status)
        return status;
    conn->keys[i] = (struct okv_local_key){conn->keys[i].uses + 1u, page, pages};
    if (conn->keys[i].uses == 0) /* key 0 names no buffer */
        conn->keys[i].uses = 1;
    *index = i;
    return 0;
}

static off_t offset_of(uint32_t page)
{
    return (off_t)page * OKV_LOCAL_PAGE;
}

/* Frees slot and room. The key is cleared first: see okv_local_advert_slot. */
static void release(struct okv_local_conn *conn, uint32_t index)
{
    struct okv_local_key *key = &conn->keys[index];

    atomic_store_explicit(&conn->ring.page->adverts[index].key, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    fallocate(conn->values, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset_of(key->page),
              offset_of(key->pages));
    key->pages = 0;
}

static int copy(const struct okv_local_conn *conn, uint32_t page, const uint8_t *bytes,
                size_t length)
{
    const off_t offset = offset_of(page);
    size_t done = 0;

    while (done < length) {
        ssize_t n = pwrite(conn->values, bytes + done, length - done, offset + (off_t)done);
        if (n < 0 && errno != EINTR)
            return okv_local_error(errno);
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static void publish(struct okv_local_conn *conn, uint32_t index, size_t length, uint32_t key)
{
    struct okv_local_advert_slot *slot = &conn->ring.page->adverts[index];

    atomic_store_explicit(&slot->size, (uint32_t)length, memory_order_relaxed);
    atomic_store_explicit(&slot->page, conn->keys[index].page, memory_order_relaxed);
    atomic_store_explicit(&slot->key, key, memory_order_release);
}

int okv_local_advertise(struct okv_conn *base, const void *bytes, size_t length,
                        struct okv_advert **out)
{
    struct okv_local_conn *conn = okv_local_conn(base);
    struct advert *advert;
    uint32_t index;
    int status;

    if (!okv_local_endpoint(base->endpoint)->client || length == 0 ||
        length > OKV_LOCAL_VALUES_BYTES)
        return OKV_EINVAL;
    if (conn->state != OKV_LOCAL_OPEN || conn->hung_up)
        return OKV_EDISCONNECTED;
    advert = calloc(1, sizeof *advert);
    if (!advert)
        return OKV_ENOMEM;
    advert->conn = conn;
    status = reserve(conn, pages_of(length), &index);
    if (status)
        goto free_advert;
    status = copy(conn, conn->keys[index].page, bytes, length);
    if (status)
        goto release_slot;
    advert->base.key = (uint32_t)conn->keys[index].uses << OKV_LOCAL_INDEX_BITS | index;
    publish(conn, index, length, advert->base.key);
    *out = &advert->base;
    return 0;
release_slot:
    release(conn, index);
free_advert:
    free(advert);
    return status;
}

void okv_local_withdraw(struct okv_advert *base, bool is_read)
{
    struct advert *advert = (struct advert *)base;

    (void)is_read; /* nothing serves two values */
    if (!advert)
        return;
    release(advert->conn, base->key % (1u << OKV_LOCAL_INDEX_BITS));
    free(advert);
}

/* ---- the server ---- */

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
    ssize_t n = pread(conn->values, read->to, length, (off_t)read->address);

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
    unsigned slot = okv_rendezvous_begin(&conn->rendezvous, rendezvous, conn->region.base);
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
