#include "server/net/doors.h"

#include <stdio.h>
#include <sys/eventfd.h>

#include "server/core/door.h"
#include "server/core/log.h"
#include "server/net/listening.h"
#include "server/worker/worker.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/thread.h"

#define RETRY_NS UINT64_C(1000000000)

static unsigned index_of(const struct okv_door *door)
{
    return (unsigned)(door - door->server->doors);
}

static void wake_workers(struct okv_server *server)
{
    for (unsigned i = 0; i < server->config.workers; i++)
        okv_server_wake(server, i);
}

/* Other threads read what a listener says of itself. */
static void replace_listener(struct okv_door *door, struct okv_listener *listener)
{
    struct okv_server *server = door->server;

    pthread_mutex_lock(&server->doors_lock);
    server->listeners[index_of(door)] = listener;
    pthread_mutex_unlock(&server->doors_lock);
}

/* ---- closing ---- */

static void begin_to_close(struct okv_door *door)
{
    struct okv_server *server = door->server;
    struct okv_listener *listener = server->listeners[index_of(door)];

    snprintf(door->where, sizeof door->where, "%s", listener->where);
    okv_log_say(&server->log, OKV_LOG_WARNING, "listener",
                "%s: %s: its clients are disconnected, and it opens again as soon as it can",
                door->where, okv_door_why(door));
    OKV_STATS_ADD(&server->stats, listener_failures, 1);
    OKV_STATS_ADD(&server->stats, listeners_closed, 1);
    atomic_store(&door->held, server->config.workers);
    atomic_store(&door->state, OKV_DOOR_CLOSING);
    wake_workers(server);
}

/* An address that moves may still lead to the device that it leaves. A door that failed as soon as
 * it was open waits for the rest of its second. */
static void finish_closing(struct okv_door *door)
{
    door->last = door->server->listeners[index_of(door)];
    replace_listener(door, NULL);
    door->has_complained = false;
    if (atomic_load(&door->failure) == OKV_EADDRESS)
        door->retry_ns = okv_clock_ns() + RETRY_NS;
    atomic_store(&door->state, OKV_DOOR_CLOSED);
}

/* Forgetting a registration takes as long as making it. */
static void unlisten_last(struct okv_door *door)
{
    if (door->last)
        door->last->ops->unlisten(door->last);
    door->last = NULL;
}

/* ---- opening ---- */

static void destroy_endpoints(struct okv_door *door, unsigned count)
{
    while (count-- > 0)
        door->endpoints[count]->ops->endpoint_destroy(door->endpoints[count]);
}

static int make_endpoints(struct okv_door *door, struct okv_listener *listener)
{
    struct okv_server *server = door->server;

    for (unsigned i = 0; i < server->config.workers; i++) {
        int rc = okv_worker_make_endpoint(server, index_of(door), listener, &door->endpoints[i],
                                          &door->why);
        if (rc) {
            destroy_endpoints(door, i);
            return rc;
        }
    }
    return 0;
}

static void *open_door(void *user)
{
    struct okv_door *door = user;
    struct okv_listener *listener = NULL;
    struct okv_server *server = door->server;
    const struct okv_uri *uri = &server->config.listen[index_of(door)];

    door->next = NULL;
    unlisten_last(door);
    if (atomic_load(&server->stopping)) {
        atomic_store(&door->has_opened, true);
        return NULL;
    }
    if (okv_server_listen_now(server, uri, &listener, &door->why) == 0) {
        if (make_endpoints(door, listener) == 0)
            door->next = listener;
        else
            listener->ops->unlisten(listener);
    }
    atomic_store(&door->has_opened, true);
    eventfd_write(server->acceptor_fd, 1);
    return NULL;
}

static void begin_to_open(struct okv_door *door)
{
    atomic_store(&door->has_opened, false);
    door->why.text[0] = '\0';
    door->retry_ns = okv_clock_ns() + RETRY_NS;
    if (okv_thread_start(&door->opener, open_door, door, &door->why) == 0)
        atomic_store(&door->state, OKV_DOOR_OPENING);
}

/* The thread is done, or will be soon. */
static void finish_opening(struct okv_door *door)
{
    struct okv_server *server = door->server;

    pthread_join(door->opener, NULL);
    if (!door->next) {
        if (!door->has_complained)
            okv_log_say(&server->log, OKV_LOG_WARNING, "listener",
                        "%s stays closed, and is tried every second: %s", door->where,
                        door->why.text);
        door->has_complained = true;
        atomic_store(&door->state, OKV_DOOR_CLOSED);
        return;
    }
    okv_server_set_patience(door->next, &server->config);
    replace_listener(door, door->next);
    okv_log_say(&server->log, OKV_LOG_NOTICE, "listener", "%s is open again: %s", door->next->where,
                door->next->how);
    OKV_STATS_SUBTRACT(&server->stats, listeners_closed, 1);
    atomic_store(&door->failure, 0);
    atomic_fetch_add(&door->openings, 1);
    atomic_store(&door->state, OKV_DOOR_OPEN);
    wake_workers(server);
}

/* ---- all of them ---- */

static void mind(struct okv_door *door)
{
    switch (atomic_load(&door->state)) {
    case OKV_DOOR_OPEN:
        if (atomic_load(&door->failure))
            begin_to_close(door);
        break;
    case OKV_DOOR_CLOSING:
        if (atomic_load(&door->held) == 0)
            finish_closing(door);
        break;
    case OKV_DOOR_CLOSED:
        if (okv_clock_ns() >= door->retry_ns && !atomic_load(&door->server->stopping))
            begin_to_open(door);
        break;
    default:
        if (atomic_load(&door->has_opened))
            finish_opening(door);
        break;
    }
}

void okv_doors_mind(struct okv_server *server)
{
    for (unsigned i = 0; i < server->listener_count; i++) {
        server->doors[i].server = server;
        mind(&server->doors[i]);
    }
}

int okv_doors_wait_ms(const struct okv_server *server)
{
    int wait_ms = -1;

    for (unsigned i = 0; i < server->listener_count; i++) {
        const struct okv_door *door = &server->doors[i];
        if (atomic_load(&door->state) != OKV_DOOR_CLOSED || atomic_load(&server->stopping))
            continue;
        wait_ms = okv_clock_sooner_ms(wait_ms, okv_clock_ms_until(door->retry_ns));
    }
    return wait_ms;
}

void okv_doors_settle(struct okv_server *server)
{
    for (unsigned i = 0; i < server->listener_count; i++) {
        if (atomic_load(&server->doors[i].state) == OKV_DOOR_OPENING)
            finish_opening(&server->doors[i]);
        unlisten_last(&server->doors[i]);
    }
}
