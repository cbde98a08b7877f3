/*
 * The server's clock states expiries; this file estimates it from samples.
 *
 * A sample comes from the welcome or from the status in the region. It says: when it arrived, the
 * server's clock had at least this value. A sample may be old: the status is written ten times a
 * second, its READ takes time, and a stopped server does not write it. So `sample - our clock` is a
 * lower bound of the distance between the clocks. Running clocks drift apart by less than 200 ppm,
 * so a bound loses that much as it ages. Our clock has whole milliseconds and is read twice for an
 * estimate, so a bound loses the rounding too. The best of the latest few bounds counts. Older
 * bounds do not: the clock of a host that was paused may have stood still, and then an old bound is
 * wrong.
 *
 * A sample no higher than the one before it comes from a stopped server or from a status that was
 * not written since. It is ignored: the bounds stay, and our own clock runs on in the server's
 * place.
 *
 * So the estimate is never ahead of the server's clock. A reader may see an item a little past its
 * expiry, but no item is missing early, unless the server's clock stood still: then until
 * CLOCK_BOUNDS samples have come.
 *
 * The best bound is lost when CLOCK_BOUNDS worse ones follow it, and the estimate falls. An item
 * that was gone for a get must not come back in a scan, so clock_now_ms() does not follow at once:
 * it waits until the estimate has caught up. A larger fall means that the server's clock stood
 * still, and then it follows.
 */
#include "client/connection/clock_sync.h"

#include "client/connection/lease.h"
#include "client/engine/read_batch.h"
#include "client/engine/read_blocking.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

#define DRIFT_ONE_IN 5000 /* 200 ppm */
#define SAMPLE_AGE_MS 5000
/* More than the age of a sample: 100 ms between two statuses, and the time of its READ. */
#define STOOD_STILL_MS 1000
/* Expiries have 48 bits: no clock is higher. */
#define CLOCK_MAX_MS (UINT64_C(1) << 48)

/* The loss of a bound of this age: the drift, rounded up, and the fraction of a millisecond that
 * our clock did not show when the sample came. */
static int64_t lost_ms(uint64_t age_ms)
{
    return (int64_t)(age_ms / DRIFT_ONE_IN) + 2;
}

/* The best bound at `now_ms` of our clock. */
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
    uint64_t estimate = signed_estimate > 0 ? (uint64_t)signed_estimate : 0; /* a clock near 0 */

    if (estimate >= clock->told_ms || clock->told_ms - estimate > STOOD_STILL_MS)
        clock->told_ms = estimate;
    return clock->told_ms;
}

int64_t clock_ttl_ms(okv *handle, uint64_t expiry_ms)
{
    if (expiry_ms == 0)
        return OKV_TTL_NONE;
    uint64_t now = clock_now_ms(handle);
    int64_t left_ms = expiry_ms > now ? (int64_t)(expiry_ms - now) : 0;
    return left_ms < OKV_TTL_MAX_MS ? left_ms : OKV_TTL_MAX_MS;
}

void status_refresh_soon(okv *handle)
{
    struct okv_read *read;

    if (handle->clock.reading)
        return;
    read = reads_add(handle, READ_STATUS_COOKIE, READ_STATUS, sizeof(struct okv_wire_status));
    if (!read)
        return;
    handle->lease.is_due = false;
    read->offset = OKV_STATUS_OFFSET;
    read->destination = handle->status;
    read->memory = handle->memory;
    handle->clock.reading = true;
}

void status_refresh_if_old(okv *handle)
{
    if (okv_clock_boot_ms() - handle->clock.sampled_at_ms > SAMPLE_AGE_MS)
        status_refresh_soon(handle);
}

static int status_apply(okv *handle, const uint8_t *bytes)
{
    struct okv_table_status status;
    int rc = okv_status_decode(bytes, handle->table.boot_id, &status);

    if (rc)
        return rc;
    clock_sample(handle, status.clock_ms);
    handle->bucket_count = status.bucket_count;
    return lease_status(handle, &status.lease);
}

/* A torn status is ignored: the next refresh READs it again. */
void status_read_done(okv *handle)
{
    handle->clock.reading = false;
    status_apply(handle, handle->status);
    lease_settle(handle);
}

int status_read_blocking(okv *handle)
{
    int rc = OKV_ECORRUPT;

    for (int attempt = 0; attempt < 16 && rc == OKV_ECORRUPT; attempt++) {
        rc = read_blocking(handle, READ_STATUS, OKV_STATUS_OFFSET, handle->staging, handle->memory,
                           sizeof(struct okv_wire_status));
        if (rc)
            return rc;
        rc = status_apply(handle, handle->staging);
    }
    return rc;
}
