#include "server/core/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);

    if (length < 2 || length >= sizeof address.sun_path || !strchr("/@", path[0]))
        return -1;
    memcpy(address.sun_path, path, length);
    if (path[0] == '@') /* an abstract name */
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    if (connect(fd, (const struct sockaddr *)&address, size) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Half of the time after which the manager takes the server for dead, as sd_watchdog_enabled(3)
 * recommends. */
static uint64_t watchdog_ns(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");

    if (!usec || (pid && strtoll(pid, NULL, 10) != getpid()))
        return 0;
    unsigned long long us = strtoull(usec, NULL, 10);
    return us < UINT64_MAX / 1000 ? us * 1000 / 2 : 0;
}

void okv_notify_init(struct okv_notify *notify)
{
    const char *path = getenv("NOTIFY_SOCKET");

    *notify = (struct okv_notify){.fd = path ? connect_to(path) : -1};
    if (notify->fd >= 0)
        notify->watchdog_ns = watchdog_ns();
}

void okv_notify_fini(struct okv_notify *notify)
{
    if (notify->fd >= 0)
        close(notify->fd);
    notify->fd = -1;
}

void okv_notify_send(const struct okv_notify *notify, const char *lines)
{
    if (notify->fd >= 0)
        send(notify->fd, lines, strlen(lines), MSG_DONTWAIT | MSG_NOSIGNAL);
}
