/*
 * The server's clock, which expiries are stated on, as far as it is known here.
 *
 * A sample, from the welcome or from the status in the region, says one thing: when it
 * arrived, the server's clock had at least its value. It may be old: the status is
 * written some ten times a second, it took its time on the way, and a server that was
 * stopped does not write it at all. So `sample - our clock` is a lower bound of how far
 * the server is ahead of us, and the largest such bound is the best one. Two clocks of
 * hosts drift apart, by less than 200 ppm: a bound loses that much as it ages.
 *
 * Our estimate is therefore never later than the server's clock. An item may be seen a
 * little past its expiry, but none is missing before it; and when the server is stopped,
 * our own clock goes on for it.
 */
#include "client/handle.h"

#include "shared/clock.h"
#include "shared/error.h"

#define DRIFT_ONE_IN 5000 /* 200 ppm */
#define SAMPLE_AGE_MS 5000
/* Expiries have 48 bits; what is beyond is no clock. */
#define CLOCK_MAX_MS (UINT64_C(1) << 48)

/* The bound that is kept, as it is worth at `now_ms` of our clock. */
static int64_t offset_at(const struct clock_sync *clock, uint64_t now_ms)
{
    return clock->offset_ms - (int64_t)((now_ms - clock->offset_at_ms) / DRIFT_ONE_IN);
}

void clock_sample(okv *handle, uint64_t clock_ms)
{
    struct clock_sync *clock = &handle->clock;
    uint64_t now = okv_clock_boot_ms();
    int64_t offset = (int64_t)(clock_ms < CLOCK_MAX_MS ? clock_ms : CLOCK_MAX_MS) - (int64_t)now;

    if (clock->sampled_at_ms == 0 || offset >= offset_at(clock, now)) {
        clock->offset_ms = offset;
        clock->offset_at_ms = now;
    }
    clock->sampled_at_ms = now;
}

uint64_t clock_now_ms(const okv *handle)
{
    uint64_t now = okv_clock_boot_ms();

    return now + (uint64_t)offset_at(&handle->clock, now);
}

int64_t clock_ttl_ms(const okv *handle, uint64_t expiry_ms)
{
    if (expiry_ms == 0)
        return OKV_TTL_NONE;
    uint64_t now = clock_now_ms(handle);
    return expiry_ms > now ? (int64_t)(expiry_ms - now) : 0;
}

void clock_status_soon(okv *handle)
{
    struct okv_read read = {
        .offset = OKV_STATUS_OFFSET,
        .destination = handle->status,
        .memory = handle->memory,
        .length = sizeof(struct okv_wire_status),
        .cookie = READ_STATUS_COOKIE,
    };

    if (handle->clock.reading || reads_add_other(handle, &read))
        return;
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
        rc = raw_read(handle, OKV_STATUS_OFFSET, handle->staging, handle->memory,
                      sizeof(struct okv_wire_status));
        if (rc)
            return rc;
        handle->counters.status_reads++;
        rc = status_take(handle, handle->staging);
    }
    return rc;
}
