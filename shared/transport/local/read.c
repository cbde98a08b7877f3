#include "shared/transport/local/read.h"

#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/ordering.h"
#include "shared/transport/local/conn.h"

#define LINE OKV_READ_BEGINNING
/* Bytes prefetched before the first line tells how many matter: what a CPU fetches at once. */
#define PREFETCH_MAX 512u

static bool is_valid(const struct okv_conn *conn, const struct okv_read *read)
{
    const struct okv_local_memory *memory = (const struct okv_local_memory *)read->memory;

    return memory && okv_read_is_valid(read, conn->remote_length, memory->base, memory->length);
}

int okv_local_post_read(struct okv_conn *base, const struct okv_read *reads, unsigned count)
{
    struct okv_local_conn *conn = okv_local_conn(base);

    if (conn->state != OKV_LOCAL_OPEN || conn->hung_up)
        return OKV_EDISCONNECTED;
    for (unsigned i = 0; i < count; i++) {
        if (!is_valid(base, &reads[i]))
            return OKV_EINVAL;
    }
    if (count > base->max_reads - conn->read_count)
        return OKV_EAGAIN;
    for (unsigned i = 0; i < count; i++) {
        /* The server may store into these bytes meanwhile. A checksum tells, as after a READ of a
         * device. */
        memcpy(reads[i].destination, conn->map + reads[i].offset, reads[i].length);
        conn->reads[(conn->read_first + conn->read_count++) % OKV_LOCAL_MAX_READS] =
            (struct okv_local_done){reads[i].cookie, 0};
    }
    okv_snapshot_fence(); /* a later READ sees at least what these saw */
    base->acknowledged += count;
    if (count > 0)
        okv_local_announce(okv_local_endpoint(base->endpoint));
    return 0;
}

/* Copies the lines that matter. The first line tells their number, and the prefetch of the others
 * runs meanwhile: a get waits for the last line that it needs, not for the last of the page. */
static void copy_used(uint8_t *to, const uint8_t *from, uint32_t length, okv_used_bytes *used_bytes)
{
    uint32_t prefetched = length < PREFETCH_MAX ? length : PREFETCH_MAX;

    for (uint32_t i = LINE; i < prefetched; i += LINE)
        __builtin_prefetch(from + i);
    memcpy(to, from, LINE);
    uint32_t end = used_bytes(to);
    if (end > length)
        end = length;
    for (uint32_t i = LINE; i < end; i += LINE)
        memcpy(to + i, from + i, LINE);
}

/* True when a poll has nothing to do that must come before this READ. */
static bool is_quiet(const struct okv_local_conn *conn)
{
    return conn->state == OKV_LOCAL_OPEN && !conn->hung_up && conn->read_count == 0 &&
           !conn->ring_full && !conn->must_notify && okv_local_ring_is_quiet(&conn->ring);
}

bool okv_local_read_now(struct okv_conn *base, const struct okv_read *read,
                        okv_used_bytes *used_bytes)
{
    struct okv_local_conn *conn = okv_local_conn(base);

    if (!is_quiet(conn) || read->length % LINE || !is_valid(base, read))
        return false;
    copy_used(read->destination, conn->map + read->offset, read->length, used_bytes);
    okv_snapshot_fence();
    if (!okv_local_is_alive(conn, okv_clock_steps()))
        return false;
    base->acknowledged++;
    return true;
}

int okv_local_report_reads(struct okv_local_conn *conn, struct okv_event *events, int max)
{
    int n = 0;

    while (n < max && conn->read_count > 0) {
        const struct okv_local_done *done = &conn->reads[conn->read_first];
        events[n++] = (struct okv_event){
            .type = OKV_EVENT_READ,
            .status = done->status,
            .conn = &conn->base,
            .cookie = done->cookie,
        };
        conn->read_first = (conn->read_first + 1) % OKV_LOCAL_MAX_READS;
        conn->read_count--;
    }
    return n;
}
