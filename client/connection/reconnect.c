/* The transitions of the link. None blocks: link_fd() and link_wake_ns() tell when to call
 * link_advance() again. */
#include "client/connection/reconnect.h"

#include <string.h>

#include "client/connection/clock_sync.h"
#include "client/connection/connect.h"
#include "client/connection/identity.h"
#include "client/connection/keepalive.h"
#include "client/connection/lease.h"
#include "client/connection/lease_wait.h"
#include "client/connection/report.h"
#include "client/connection/resend.h"
#include "client/connection/servers.h"
#include "client/engine/engine_ops.h"
#include "client/engine/event_fd.h"
#include "client/engine/failure.h"
#include "client/engine/log_event.h"
#include "client/engine/read_batch.h"
#include "client/engine/request_slots.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/random.h"

#define MS UINT64_C(1000000)
/* The backoff between attempts: docs/connections.md section 4. */
#define BACKOFF_FIRST_NS (20 * MS)
#define BACKOFF_MAX_NS (500 * MS)
/* The same with several servers, after all have been asked: one may have become the primary. */
#define BACKOFF_ROUND_NS (100 * MS)
/* The same after a denial: a client without access must not keep the server busy. */
#define BACKOFF_DENIED_NS (10000 * MS)
/* A connection that lived this long resets the count of attempts. */
#define STEADY_NS (500 * MS)

void link_drop(okv *handle)
{
    struct link *link = &handle->link;

    event_fd_set(handle, -1);
    handle->transport->connect_cancel(link->connecting);
    link->connecting = NULL;
    link->reading = false;
    resend_detach(handle);
    if (handle->conn)
        handle->transport->conn_destroy(handle->conn);
    handle->conn = NULL;
    handle->closed = false;
    handle->lost = false;
}

/* ---- reconnecting ---- */

static void link_back_off(okv *handle, uint64_t longest_ns)
{
    struct link *link = &handle->link;
    uint64_t pause = BACKOFF_FIRST_NS;

    for (unsigned i = 1; i < link->attempts && pause < longest_ns; i++)
        pause *= 2;
    if (pause > longest_ns)
        pause = longest_ns;
    link->state = LINK_BACKOFF;
    link->deadline_ns = okv_clock_ns();
    if (link->attempts > 0) /* half of the pause, plus a random part of the other half */
        link->deadline_ns +=
            pause / 2 + (okv_random_next(&link->random) >> 32) * (pause / 2) / UINT32_MAX;
}

void link_go_on(okv *handle, int rc)
{
    struct link *link = &handle->link;

    if (!servers_next(handle, rc)) {
        link->state = LINK_BACKOFF;
        link->deadline_ns = okv_clock_ns();
    } else if (rc == OKV_EDENIED) {
        link_back_off(handle, BACKOFF_DENIED_NS);
    } else {
        link_back_off(handle, servers_are_many(link) ? BACKOFF_ROUND_NS : BACKOFF_MAX_NS);
    }
}

/* Failures that end reconnecting: docs/connections.md section 4. */
static bool is_final(const struct link *link, int rc)
{
    switch (rc) {
    case OKV_EVERSION:
    case OKV_EPROTO:
    case OKV_EUNSUPPORTED:
        return !servers_are_many(link);
    case OKV_ELOST:
        return true;
    default: /* a lack of memory or descriptors may pass */
        return false;
    }
}

void link_up(okv *handle)
{
    struct link *link = &handle->link;
    const struct okv_welcome *table = &link->table;
    bool same_table = table->boot_id == handle->table.boot_id;
    /* The seed is random, and only a durable database keeps it from one start to the next. */
    bool same_database = table->hash_seed == handle->table.hash_seed;
    /* A server that remembers our writes grants the same slots and message size. With others, a
     * request in a higher slot or a longer message could not be resent. */
    bool resumed = same_database && table->resumed && table->credits == handle->table.credits &&
                   table->slot_size == handle->table.slot_size;

    if (!same_table) {
        handle->clock = (struct clock_sync){.reading = false};
        report_forget(handle);
    }
    handle->table = *table;
    handle->bucket_count = table->bucket_count;
    handle->ops->table_learn(handle, same_table);
    clock_sample(handle, table->clock_ms);
    lease_link_up(handle);
    memcpy(handle->how, handle->conn->how, sizeof handle->how);
    handle->is_one_sided = handle->conn->is_one_sided;
    handle->why.text[0] = '\0';
    link->refusal = 0;
    link->state = LINK_UP;
    link->up_since_ns = okv_clock_ns();
    link->attempts++;
    handle->counters.reconnects++;
    address_keep(handle);
    servers_found(handle);
    keepalive_start(handle);
    report_link_up(handle);
    log_event(handle, OKV_LEVEL_NOTICE, "connected by ",
              handle->how[0] ? handle->how : handle->transport->name);
    resend_resume(handle, resumed, same_table);
    lease_ping(handle);
}

static void attempt_failed(okv *handle, int rc, const struct okv_diag *why)
{
    link_drop(handle);
    handle->link.attempts++;
    handle->link.refusal = rc;
    if (handle->link.is_turned_away ||
        (is_final(&handle->link, rc) && !identity_is_doubtful(handle))) {
        engine_fail(handle, rc, why->text[0] ? why->text : okv_error_text(rc));
        return;
    }
    okv_diag_set(&handle->why, 0, "not connected: %s",
                 why->text[0] ? why->text : okv_error_text(rc));
    if ((handle->link.attempts & (handle->link.attempts - 1)) == 0)
        log_event(handle, OKV_LEVEL_WARNING, "", handle->why.text);
    link_go_on(handle, rc);
}

/* Starts an attempt or runs its next step. */
static bool attempt_advance(okv *handle)
{
    enum link_state before = handle->link.state;
    struct okv_diag why = {.text = ""};
    int rc = before == LINK_BACKOFF ? attempt_start(handle, &why) : attempt_step(handle, &why);

    if (rc == OKV_EAGAIN || (rc == 0 && before == LINK_BACKOFF))
        return handle->link.state != before;
    if (rc == 0)
        link_up(handle);
    else
        attempt_failed(handle, rc, &why);
    return true;
}

static bool draining_advance(okv *handle)
{
    struct link *link = &handle->link;

    if (request_is_owed(handle) && okv_clock_ns() < link->deadline_ns)
        return false;
    engine_lost(handle, link->cause, handle->why.text);
    return true;
}

static bool closing_advance(okv *handle)
{
    struct link *link = &handle->link;

    if (!handle->closed && okv_clock_ns() < link->deadline_ns)
        return false;
    link_drop(handle);
    if (okv_clock_ns() - link->up_since_ns >= STEADY_NS)
        link->attempts = 0;
    address_prefer(link);
    servers_next(handle, 0);
    link_back_off(handle, BACKOFF_MAX_NS);
    return true;
}

static bool link_advance_once(okv *handle)
{
    switch (handle->link.state) {
    case LINK_UP:
        return false;
    case LINK_DRAINING:
        return draining_advance(handle);
    case LINK_CLOSING:
        return closing_advance(handle);
    case LINK_BACKOFF:
        return okv_clock_ns() >= handle->link.deadline_ns && attempt_advance(handle);
    case LINK_CONNECTING:
    case LINK_SUPERBLOCK:
    case LINK_DIRECTORY:
        break;
    }
    return attempt_advance(handle);
}

bool link_advance(okv *handle)
{
    bool advanced = false;

    while (!handle->failure && !handle->link.opening && link_advance_once(handle))
        advanced = true;
    handle->event_fd.stale |= advanced;
    return advanced;
}

void link_read_done(okv *handle, uint64_t cookie, int status)
{
    if (cookie == READ_ATTEMPT_COOKIE) {
        attempt_read_done(handle, status);
    } else if (cookie == READ_STATUS_COOKIE) {
        handle->reads--;
        status_read_done(handle);
    }
}

/* ---- waiting ---- */

uint64_t link_wake_ns(const okv *handle)
{
    const struct link *link = &handle->link;

    if (link->state == LINK_UP && lease_wake_ns(handle) < keepalive_wake_ns(handle))
        return lease_wake_ns(handle);
    if (link->state == LINK_UP)
        return keepalive_wake_ns(handle);
    if (link->state == LINK_CONNECTING && link->connecting &&
        link->connecting->wake_ns < link->deadline_ns)
        return link->connecting->wake_ns;
    return link->deadline_ns;
}

int link_fd(const okv *handle)
{
    if (handle->conn)
        return handle->conn->endpoint->fd;
    return handle->link.connecting ? handle->link.connecting->fd : -1;
}
