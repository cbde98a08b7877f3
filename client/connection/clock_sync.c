/*
 * The server's clock, which expiries are stated on, as far as it is known here.
 *
 * A sample, from the welcome or from the status in the region, says one thing: when it
 * arrived, the server's clock had at least its value. It may be old: the status is
 * written some ten times a second, it took its time on the way, and a server that was
 * stopped does not write it at all. So `sample - our clock` is a lower bound of how far
 * the server is ahead of us. Two clocks of hosts that run drift apart, by less than
 * 200 ppm: a bound loses that much as it ages. Our clock is read in whole milliseconds, twice
 * for an estimate: a bound loses what that may leave out. The best of the last few bounds counts.
 * Older ones do not: a host that was paused may have a clock that stood still meanwhile,
 * and then what was once a bound is none.
 *
 * A sample that is no higher than the one before it tells of a server that was stopped,
 * or of a status that was not written since. It is passed over, the bounds stay, and our
 * own clock goes on for the server's.
 *
 * Our estimate is therefore not later than the server's clock. An item may be seen a
 * little past its expiry, but none is missing before it, unless the server's clock stood
 * still: then until CLOCK_BOUNDS samples came.
 *
 * The best bound is lost when CLOCK_BOUNDS worse ones came after it, and the estimate
 * falls. What was told is not taken back for that: an item that a get called gone must
 * not come back in a scan. The estimate waits where it was, and is followed back only by
 * so much that the server's clock must have stood still.
 */
#include "client/connection/clock_sync.h"

#include "client/engine/read_batch.h"
#include "client/engine/read_blocking.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

#define DRIFT_ONE_IN 5000 /* 200 ppm */
#define SAMPLE_AGE_MS 5000
/* A sample is late by the 100 ms between two statuses, and by what its READ took. */
#define STOOD_STILL_MS 1000
/* Expiries have 48 bits; what is beyond is no clock. */
#define CLOCK_MAX_MS (UINT64_C(1) << 48)

/* What a bound of this age has lost: the drift, rounded up, and the part of a millisecond by which
 * our clock was ahead of what it showed when the sample came. */
static int64_t lost_ms(uint64_t age_ms)
{
    return (int64_t)(age_ms / DRIFT_ONE_IN) + 2;
}

/* The best of the bounds, each as it is worth at `now_ms` of our clock. */
static int64_t offset_at(const struct clock_sync *clock, uint64_t now_ms)
{
    int64_t best = INT64_MIN;

    for (unsigned i = 0; i < CLOCK_BOUNDS && i < clock->taken; i++) {
        const struct clock_bound *bound = &clock->bounds[i];
        int64_t offset = bound->offset_ms - lost_ms(now_ms - bound->at_ms);
        if (offset > best)
            best = offset;
    }
    return best;
}

void clock_sample(okv *handle, uint64_t clock_ms)
{
    struct clock_sync *clock = &handle->clock;
    uint64_t now = okv_clock_boot_ms();
    uint64_t sample = clock_ms < CLOCK_MAX_MS ? clock_ms : CLOCK_MAX_MS;

    clock->sampled_at_ms = now;
    if (clock->taken > 0 && sample <= clock->latest_ms)
        return;
    clock->latest_ms = sample;
    clock->bounds[clock->taken++ % CLOCK_BOUNDS] = (struct clock_bound){
        .offset_ms = (int64_t)sample - (int64_t)now,
        .at_ms = now,
    };
}

uint64_t clock_now_ms(okv *handle)
{
    struct clock_sync *clock = &handle->clock;
    uint64_t now = okv_clock_boot_ms();
    int64_t signed_estimate = (int64_t)now + offset_at(clock, now);
    uint64_t estimate = signed_estimate > 0 ? (uint64_t)signed_estimate : 0; /* it has just begun */

    if (estimate >= clock->told_ms || clock->told_ms - estimate > STOOD_STILL_MS)
        clock->told_ms = estimate;
    return clock->told_ms;
}

int64_t clock_ttl_ms(okv *handle, uint64_t expiry_ms)
{
    if (expiry_ms == 0)
        return OKV_TTL_NONE;
    uint64_t now = clock_now_ms(handle);
    return expiry_ms > now ? (int64_t)(expiry_ms - now) : 0;
}

void clock_status_soon(okv *handle)
{
    struct okv_read *read = handle->clock.reading ? NULL
                                                  : reads_next(handle, READ_STATUS_COOKIE,
                                                               sizeof(struct okv_wire_status));

    if (!read)
        return;
    read->offset = OKV_STATUS_OFFSET;
    read->destination = handle->status;
    read->memory = handle->memory;
    handle->clock.reading = true;
    handle->counters.status_reads++;
}

void clock_refresh_soon(okv *handle)
{
    if (okv_clock_boot_ms() - handle->clock.sampled_at_ms > SAMPLE_AGE_MS)
        clock_status_soon(handle);
}

static int status_take(okv *handle, const uint8_t *bytes)
{
    struct okv_table_status status;
    int rc = okv_status_decode(bytes, handle->table.boot_id, &status);

    if (rc)
        return rc;
    clock_sample(handle, status.clock_ms);
    handle->bucket_count = status.bucket_count;
    return 0;
}

/* One that was torn is as good as none: whoever needs another asks again. */
void clock_status_done(okv *handle)
{
    handle->clock.reading = false;
    status_take(handle, handle->status);
}

int clock_refresh(okv *handle)
{
    int rc = OKV_ECORRUPT;

    for (int attempt = 0; attempt < 16 && rc == OKV_ECORRUPT; attempt++) {
        rc = read_blocking(handle, OKV_STATUS_OFFSET, handle->staging, handle->memory,
                           sizeof(struct okv_wire_status));
        if (rc)
            return rc;
        handle->counters.status_reads++;
        rc = status_take(handle, handle->staging);
    }
    return rc;
}
