#include "server/core/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/core/door.h"
#include "shared/base/error.h"

/* Both clocks are truncated to whole milliseconds, so their difference varies by this. */
#define WALL_ROUNDING_MS 1

void okv_server_wake(struct okv_server *server, unsigned worker)
{
    eventfd_write(server->worker_signals[worker].fd, 1);
}

void okv_server_wake_all(void *user)
{
    struct okv_server *server = user;

    for (unsigned i = 0; i < server->config.workers; i++)
        okv_server_wake(server, i);
}

void okv_server_end_unwanted(struct okv_server *server, unsigned worker, unsigned kind)
{
    atomic_store(&server->worker_signals[worker].has_unwanted[kind], true);
    okv_server_wake(server, worker);
}

void okv_server_ask_reload(struct okv_server *server)
{
    atomic_store(&server->reload_is_asked, true);
    eventfd_write(server->acceptor_fd, 1);
}

void okv_server_ask_end(struct okv_server *server)
{
    atomic_store(&server->end_is_asked, true);
    kill(getpid(), OKV_SERVER_END_SIGNAL);
}

void okv_server_fail(struct okv_server *server, unsigned listener, int code)
{
    struct okv_door *door = &server->doors[listener];
    int none = 0;

    if (atomic_load(&door->state) == OKV_DOOR_OPEN &&
        atomic_compare_exchange_strong(&door->failure, &none, code))
        eventfd_write(server->acceptor_fd, 1);
}

const char *okv_door_why(const struct okv_door *door)
{
    int failure = atomic_load(&door->failure);

    switch (failure) {
    case OKV_ENODEVICE:
        return "its device is gone";
    case OKV_EADDRESS:
        return "its address has moved to another device";
    default:
        return okv_error_text(failure);
    }
}

void okv_door_describe(struct okv_server *server, unsigned listener, struct okv_door_text *out)
{
    const struct okv_door *door = &server->doors[listener];

    pthread_mutex_lock(&server->doors_lock);
    const struct okv_listener *open = server->listeners[listener];
    snprintf(out->where, sizeof out->where, "%s", open ? open->where : door->where);
    if (open)
        snprintf(out->how, sizeof out->how, "%s", open->how);
    else
        snprintf(out->how, sizeof out->how, "closed: %s", okv_door_why(door));
    pthread_mutex_unlock(&server->doors_lock);
}

void okv_server_log_shortage(struct okv_server *server, struct okv_entrance *entrance,
                             const char *where)
{
    int errnum = okv_entrance_news(entrance);
    char text[OKV_LOG_TEXT_MAX];

    if (errnum == 0)
        return;
    snprintf(text, sizeof text,
             "%s: no client can be accepted (%s): they wait until others leave; see ulimit -n",
             where, strerror(errnum));
    okv_log_line(&server->log, OKV_LOG_WARNING, "listener", okv_clock_ns(), text);
}

/* Between two readings of the server's clock that are the same, so that both clocks are read at one
 * time. */
static int64_t read_wall_offset_ms(const struct okv_server *server)
{
    uint64_t clock_ms, wall_ms;

    do {
        clock_ms = okv_server_clock_ms(server);
        wall_ms = okv_clock_wall_ms();
    } while (okv_server_clock_ms(server) != clock_ms);
    return (int64_t)wall_ms - (int64_t)clock_ms;
}

int64_t okv_server_wall_offset_ms(struct okv_server *server)
{
    int64_t before = atomic_load(&server->wall_offset_ms);
    int64_t now = read_wall_offset_ms(server);

    /* Another worker may set it meanwhile. */
    while (llabs(now - before) > WALL_ROUNDING_MS)
        if (atomic_compare_exchange_weak(&server->wall_offset_ms, &before, now))
            return now;
    return before;
}
