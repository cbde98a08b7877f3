#include "client/connection/lease.h"

#include "client/connection/lease_clock.h"
#include "client/connection/notice.h"
#include "client/connection/servers.h"
#include "client/engine/failure.h"
#include "client/engine/log_event.h"
#include "client/engine/operation.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* A bound of the server's clock gets worse by 30 ms meanwhile. */
#define SAMPLE_AGE_NS UINT64_C(20000000000)

/* Until the next status or sample. READs of the status are due from the middle on. */
static void set_deadline(struct lease *lease, const struct lease_time *now)
{
    uint64_t deadline = lease_deadline_ns(&lease->clock, lease->valid_until_us, now);

    lease->deadline_ns = deadline;
    lease->refresh_ns = now->boot_ns;
    if (deadline > now->boot_ns) {
        lease->refresh_ns += (deadline - now->boot_ns) / 2;
        lease->watched_ns = 0; /* it was renewed */
    }
    lease->is_due = false;
}

void lease_link_up(okv *handle)
{
    const struct okv_welcome *table = &handle->table;
    struct lease *lease = &handle->lease;
    struct lease_time now = lease_time_now();

    *lease = (struct lease){.is_checked = table->features & OKV_FEATURE_LEASE,
                            .again_ns = UINT64_MAX,
                            .valid_until_us = table->valid_until_us};
    if (!lease->is_checked)
        return;
    lease_clock_sample(&lease->clock, &handle->link.said_hello, table->lease_clock_us, &now);
    set_deadline(lease, &now);
}

bool lease_is_wanted(const okv *handle)
{
    const struct link *link = &handle->link;

    return handle->lease.is_checked && servers_are_many(link) && !link->observes;
}

/* A quarter of its length after its end. The handle has watched for half of that, or it was this
 * process that stood still. */
uint64_t lease_overdue_ns(const okv *handle)
{
    const struct lease *lease = &handle->lease;
    uint64_t term_ns = handle->table.lease_ms * UINT64_C(1000000);
    uint64_t at = lease->deadline_ns + term_ns / 4, watched = lease->watched_ns + term_ns / 8;

    return at > watched ? at : watched;
}

void lease_look_later(okv *handle)
{
    struct lease *lease = &handle->lease;
    uint64_t now = okv_clock_boot_ns(), at = lease->deadline_ns;

    if (!lease_is_wanted(handle) || handle->free.count == handle->slot_count)
        return;
    if (now >= at) /* it may be renewed at any time */
        at = now + LEASE_AGAIN_NS;
    at = okv_clock_ns() + (at > now ? at - now : 0);
    if (at < lease->again_ns)
        lease->again_ns = at;
}

uint64_t lease_left_ms(const okv *handle)
{
    const struct lease *lease = &handle->lease;
    uint64_t now = lease->is_checked && link_is_up(handle) ? okv_clock_boot_ns() : UINT64_MAX;

    return now < lease->deadline_ns ? (lease->deadline_ns - now) / 1000000 : 0;
}

void lease_ping(okv *handle)
{
    struct lease *lease = &handle->lease;
    uint8_t *room =
        lease->is_checked && link_is_up(handle) ? notice_room(handle, &lease->ping, 0) : NULL;

    if (!room)
        return;
    lease->pinged = lease_time_now();
    notice_post(handle, &lease->ping, room, OKV_OP_PING, NULL, 0);
}

/* A lease ends at most its length after the server's clock. If ours says otherwise, it stood still
 * with its host. */
static void check_clock(okv *handle, uint64_t valid_until_us, const struct lease_time *now)
{
    struct lease *lease = &handle->lease;
    uint64_t longest_us = handle->table.lease_ms * UINT64_C(1000);
    uint64_t upper_us = lease_clock_upper_us(&lease->clock, now);

    if (valid_until_us < longest_us || valid_until_us - longest_us <= upper_us)
        return;
    lease->clock.taken = 0;
    log_event(handle, OKV_LEVEL_WARNING, "", "the clock of this host stood still");
}

int lease_status(okv *handle, const struct okv_table_lease *status)
{
    struct lease *lease = &handle->lease;
    struct lease_time now = lease_time_now();

    if (!lease->is_checked)
        return 0;
    if (status->epoch != handle->table.epoch) {
        engine_lost(handle, OKV_EDISCONNECTED, "the server is of another epoch than it was");
        return OKV_EDISCONNECTED;
    }
    if (status->valid_until_us == 0 && lease_is_wanted(handle)) {
        engine_lost(handle, OKV_EDISCONNECTED, "the server is no longer the primary");
        return OKV_EDISCONNECTED;
    }
    check_clock(handle, status->valid_until_us, &now);
    lease->valid_until_us = status->valid_until_us;
    set_deadline(lease, &now);
    if (lease->clock.taken == 0 || now.boot_ns - lease->pinged.boot_ns >= SAMPLE_AGE_NS)
        lease_ping(handle);
    return 0;
}

void lease_settle(okv *handle)
{
    struct lease *lease = &handle->lease;
    bool is_waited_for = false;

    for (uint32_t i = 0; lease->is_checked && i < handle->slot_count; i++) {
        struct operation *operation = &handle->operations[i];
        if (operation->step != STEP_LEASE)
            continue;
        if (operation->lookup.seen_ns < lease->deadline_ns)
            operation_end(handle, operation, operation->result.status);
        else
            is_waited_for = true;
    }
    lease->again_ns = is_waited_for ? okv_clock_ns() + LEASE_AGAIN_NS : UINT64_MAX;
    lease_look_later(handle);
}

bool lease_reply(okv *handle, const struct okv_reply_message *reply)
{
    struct lease *lease = &handle->lease;
    struct lease_time now = lease_time_now();

    if (reply->value_length != sizeof(struct okv_wire_number) ||
        !notice_reply(handle, &lease->ping, OKV_OP_PING, reply))
        return false;
    lease_clock_sample(&lease->clock, &lease->pinged, okv_get_u64(reply->value), &now);
    set_deadline(lease, &now);
    lease_settle(handle);
    return true;
}
