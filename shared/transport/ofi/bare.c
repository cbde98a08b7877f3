/*
 * Bare READs, the floor under those of post.c: fi_read() and fi_cq_read() on an endpoint that has
 * nothing else to do, not even a descriptor to wait for. It is made at the first call, and lies
 * beside the connection: the server serves it as it serves the connection.
 */
#include "shared/transport/ofi/bare.h"

#include <sched.h>
#include <stdlib.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/transport/ofi/fabric.h"

/* Polls without a completion between two yields. */
#define BARE_SPINS 64

struct ofi_bare {
    struct ofi_fabric fabric;
    struct ofi_end end;
    fi_addr_t server;
};

/* One call. */
struct bare_run {
    const struct ofi_bare *bare;
    const struct ofi_conn *conn;
    struct okv_bare_reads *reads;
    struct ofi_slab slab;    /* [depth], their destinations */
    struct bare_slot *slots; /* [depth]; libfabric has pointers to their contexts */
    struct bare_slot *free;
    uint64_t began_ns, ended_ns;
    uint32_t posted, done;
};

struct bare_slot {
    struct fi_context2 context;
    uint8_t *destination;
    uint32_t index; /* of its READ */
    struct bare_slot *next_free;
};

/* ---- the endpoint ---- */

void okv_ofi_bare_close(struct ofi_bare *bare)
{
    if (!bare)
        return;
    okv_ofi_end_close(&bare->end);
    if (bare->fabric.domain)
        fi_close(&bare->fabric.domain->fid);
    if (bare->fabric.fabric)
        fi_close(&bare->fabric.fabric->fid);
    if (bare->fabric.info)
        fi_freeinfo(bare->fabric.info);
    free(bare);
}

/* A fabric of its own: progress on it is none of the connection's. */
static int open_endpoint(struct ofi_bare *bare, const struct ofi_fabric *like)
{
    struct ofi_fabric *fabric = &bare->fabric;
    struct fi_cq_attr queue = {.format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE};

    fabric->info = fi_dupinfo(like->info);
    if (!fabric->info)
        return -FI_ENOMEM;
    int rc = fi_fabric(fabric->info->fabric_attr, &fabric->fabric, NULL);
    if (rc == 0)
        rc = fi_domain(fabric->fabric, fabric->info, &fabric->domain, NULL);
    return rc ? rc : okv_ofi_end_open(fabric, 1, &queue, &bare->end);
}

static int find_server(struct ofi_bare *bare, const struct ofi_conn *conn)
{
    uint8_t name[OFI_NAME_MAX];
    size_t length = sizeof name;
    int rc = fi_av_lookup(ofi_endpoint_of(conn)->av, conn->peer, name, &length);

    if (rc == 0 && fi_av_insert(bare->end.av, name, 1, &bare->server, 0, NULL) != 1)
        rc = -FI_EADDRNOTAVAIL;
    return rc;
}

/* ---- READs ---- */

/* Posts one READ for each free slot. A provider without room gets the rest after the next poll. */
static int post(struct bare_run *run)
{
    struct okv_bare_reads *reads = run->reads;
    uint64_t now = okv_clock_ns();

    if (run->posted == 0)
        run->began_ns = now;
    while (run->free && run->posted < reads->count) {
        struct bare_slot *slot = run->free;
        ssize_t rc =
            fi_read(run->bare->end.ep, slot->destination, reads->length, run->slab.region.desc,
                    run->bare->server, run->conn->remote_address + reads->offsets[run->posted],
                    run->conn->remote_key, &slot->context);
        if (rc == -FI_EAGAIN)
            return 0;
        if (rc)
            return OKV_EDISCONNECTED;
        run->free = slot->next_free;
        slot->index = run->posted++;
        reads->latencies_ns[slot->index] = now;
    }
    return 0;
}

/* NULL for what is none of ours: a peer may bring that about. */
static struct bare_slot *slot_of(const struct bare_run *run, void *context)
{
    struct bare_slot *slot = context;

    return slot >= run->slots && slot < run->slots + run->reads->depth ? slot : NULL;
}

/* Takes completions, and posts as many READs. Returns their number, or a negative code. */
static int poll_once(struct bare_run *run)
{
    struct fi_cq_msg_entry done[OFI_POLL_BATCH];
    ssize_t n = fi_cq_read(run->bare->end.cq, done, OFI_POLL_BATCH);

    if (n == -FI_EAGAIN || n == 0)
        return run->posted < run->reads->count && run->free ? post(run) : 0;
    if (n < 0)
        return OKV_EDISCONNECTED;
    run->ended_ns = okv_clock_ns();
    for (ssize_t i = 0; i < n; i++) {
        struct bare_slot *slot = slot_of(run, done[i].op_context);
        if (!slot)
            continue;
        uint64_t *latency = &run->reads->latencies_ns[slot->index];
        *latency = run->ended_ns - *latency;
        slot->next_free = run->free;
        run->free = slot;
        run->done++;
    }
    int rc = post(run);
    return rc ? rc : (int)n;
}

static int perform(struct bare_run *run)
{
    uint32_t spins = 0; /* since one ended */

    run->ended_ns = okv_clock_ns();
    int rc = post(run);

    while (rc == 0 && run->done < run->reads->count) {
        int n = poll_once(run);
        rc = n < 0 ? n : 0;
        spins = n > 0 ? 0 : spins + 1;
        if (rc || spins % BARE_SPINS != BARE_SPINS - 1)
            continue;
        sched_yield();
        if (okv_clock_ns() > run->ended_ns + run->reads->timeout_ns)
            rc = OKV_ETIMEDOUT;
    }
    run->reads->total_ns = run->ended_ns - run->began_ns;
    return rc;
}

/* When it fails, READs may be under way: the endpoint has to be closed before the slots are freed.
 */
static int prepare(struct bare_run *run)
{
    const struct okv_bare_reads *reads = run->reads;

    run->slots = calloc(reads->depth, sizeof *run->slots);
    if (!run->slots)
        return OKV_ENOMEM;
    int rc = okv_ofi_slab_create(&run->bare->fabric, reads->depth, reads->length, FI_READ,
                                 &run->slab, NULL);
    if (rc) {
        free(run->slots);
        return rc;
    }
    for (uint32_t i = 0; i < reads->depth; i++) {
        run->slots[i].destination = okv_slab_slot(&run->slab.memory, i);
        run->slots[i].next_free = run->free;
        run->free = &run->slots[i];
    }
    return 0;
}

static int read_all(struct ofi_conn *conn, struct okv_bare_reads *reads)
{
    struct bare_run run = {.bare = conn->bare, .conn = conn, .reads = reads};
    int rc = prepare(&run);

    if (rc)
        return rc;
    rc = perform(&run);
    if (rc && conn->bare->end.ep) {
        bool is_closed = fi_close(&conn->bare->end.ep->fid) == 0;
        conn->bare->end.ep = NULL;
        if (!is_closed)
            return rc; /* the provider may still write to them */
    }
    okv_ofi_slab_destroy(&run.slab);
    free(run.slots);
    return rc;
}

/* The first READ connects, as that of a connection does. */
static int connect_bare(struct ofi_conn *conn, uint64_t timeout_ns)
{
    static const uint64_t offset = 0;
    uint64_t latency;
    struct okv_bare_reads first = {.offsets = &offset,
                                   .length = sizeof(uint64_t),
                                   .count = 1,
                                   .depth = 1,
                                   .timeout_ns = timeout_ns,
                                   .latencies_ns = &latency};

    conn->bare = calloc(1, sizeof *conn->bare);
    if (!conn->bare)
        return OKV_ENOMEM;
    int rc = open_endpoint(conn->bare, ofi_endpoint_of(conn)->fabric);
    if (rc == 0)
        rc = find_server(conn->bare, conn);
    return rc ? okv_ofi_error(rc) : read_all(conn, &first);
}

int okv_ofi_bare_read(struct okv_conn *conn, struct okv_bare_reads *reads)
{
    struct ofi_conn *c = (struct ofi_conn *)conn;
    int rc = 0;

    if (c->state != OFI_CONN_OPEN)
        return OKV_EDISCONNECTED;
    for (uint32_t i = 0; i < reads->count; i++) {
        if (reads->length > conn->remote_length ||
            reads->offsets[i] > conn->remote_length - reads->length)
            return OKV_EINVAL;
    }
    if (!c->bare)
        rc = connect_bare(c, reads->timeout_ns);
    if (rc == 0)
        rc = read_all(c, reads);
    if (rc) {
        okv_ofi_bare_close(c->bare);
        c->bare = NULL;
    }
    return rc;
}
