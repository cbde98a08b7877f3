/*
 * libfabric tells one descriptor of an endpoint, that of its queue. The others are found from what
 * they are for, never by when they came, because another thread may open descriptors meanwhile:
 *
 *   sockets of TCP     have the address of the endpoint, or are connected to that of the peer's
 *   epoll sets         watch one of these, or are watched, as the kernel lists in /proc/self/fdinfo
 *   pairs of sockets   wake the thread that waits in such a set: it watches one end, and the other
 *                      has the next inode number
 *
 * The provider net has one more such set in its fabric. It watches one end of a pair and nothing
 * else, and what it keeps with that, which the kernel lists too, is an address in the fabric.
 */
#include "shared/transport/ofi/descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define ADDRESS_TEXT 100
#define FABRIC_SIZE 4096 /* more than what a provider keeps in one */

enum kind { TCP_SOCKET, UNIX_SOCKET, EPOLL_SET };

/* One without close-on-exec. */
struct candidate {
    int fd;
    enum kind kind;
    ino_t inode;
    bool is_found;
};

struct candidates {
    struct candidate *list;
    size_t count, size;
};

/* ---- which there are ---- */

static bool is_epoll_set(int fd)
{
    static const char kind[] = "anon_inode:[eventpoll]";
    char path[32], target[sizeof kind];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, target, sizeof target);
    return length == sizeof kind - 1 && memcmp(target, kind, (size_t)length) == 0;
}

static bool is_candidate(int fd, struct candidate *out)
{
    int flags = fcntl(fd, F_GETFD), family = 0;
    socklen_t size = sizeof family;
    struct stat status;

    if (flags < 0 || flags & FD_CLOEXEC || fstat(fd, &status))
        return false;
    *out = (struct candidate){.fd = fd, .kind = EPOLL_SET, .inode = status.st_ino};
    if (!S_ISSOCK(status.st_mode))
        return is_epoll_set(fd);
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size))
        return false;
    out->kind = family == AF_UNIX ? UNIX_SOCKET : TCP_SOCKET;
    return family == AF_UNIX || family == AF_INET || family == AF_INET6;
}

static void add(struct candidates *all, const struct candidate *candidate)
{
    if (all->count == all->size) {
        size_t size = all->size ? 2 * all->size : 16;
        struct candidate *list = reallocarray(all->list, size, sizeof *list);
        if (!list)
            return;
        all->list = list;
        all->size = size;
    }
    all->list[all->count++] = *candidate;
}

static int compare(const void *one, const void *other)
{
    const struct candidate *a = one, *b = other;

    return (a->fd > b->fd) - (a->fd < b->fd);
}

static struct candidate *candidate_of(const struct candidates *all, int fd)
{
    const struct candidate key = {.fd = fd};

    return all->count ? bsearch(&key, all->list, all->count, sizeof key, compare) : NULL;
}

static void collect(struct candidates *all)
{
    DIR *names = opendir("/proc/self/fd");
    const struct dirent *entry;
    struct candidate candidate;

    while (names && (entry = readdir(names)))
        if (entry->d_name[0] != '.' && is_candidate(atoi(entry->d_name), &candidate))
            add(all, &candidate);
    if (names)
        closedir(names);
    if (all->count)
        qsort(all->list, all->count, sizeof *all->list, compare);
}

/* ---- which are libfabric's ---- */

typedef int get_name(int fd, struct sockaddr *address, socklen_t *length);

static bool has_address(int fd, get_name *get, const char *wanted)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    char text[ADDRESS_TEXT];

    if (get(fd, (struct sockaddr *)&address, &length))
        return false;
    okv_address_text((const struct sockaddr *)&address, text, sizeof text);
    return strcmp(text, wanted) == 0;
}

/* "" when the provider's addresses are of another kind. */
static void tell_addresses(const struct ofi_conn *conn, char ours[ADDRESS_TEXT],
                           char theirs[ADDRESS_TEXT])
{
    const struct ofi_endpoint *ep = (const struct ofi_endpoint *)conn->base.endpoint;
    uint32_t format = ep->fabric->info->addr_format;
    struct sockaddr_storage address = {0};
    size_t length = sizeof address;

    ours[0] = theirs[0] = '\0';
    if ((format != FI_SOCKADDR_IN && format != FI_SOCKADDR_IN6) ||
        ep->name_length > sizeof address || fi_av_lookup(ep->av, conn->peer, &address, &length))
        return;
    okv_address_text((const struct sockaddr *)&address, theirs, ADDRESS_TEXT);
    address = (struct sockaddr_storage){0};
    memcpy(&address, ep->name, ep->name_length);
    okv_address_text((const struct sockaddr *)&address, ours, ADDRESS_TEXT);
}

static void find_first(struct candidates *all, const struct ofi_conn *conn)
{
    const struct ofi_endpoint *ep = (const struct ofi_endpoint *)conn->base.endpoint;
    char ours[ADDRESS_TEXT], theirs[ADDRESS_TEXT];
    int queue = -1;

    fi_control(&ep->cq->fid, FI_GETWAIT, &queue);
    tell_addresses(conn, ours, theirs);
    for (size_t i = 0; i < all->count; i++) {
        struct candidate *one = &all->list[i];
        one->is_found = one->fd == queue ||
                        (one->kind == TCP_SOCKET && (has_address(one->fd, getsockname, ours) ||
                                                     has_address(one->fd, getpeername, theirs)));
    }
}

/* Whether one of the two is found by this. */
static bool find_both(struct candidate *one, struct candidate *other)
{
    bool is_new = one->is_found != other->is_found;

    one->is_found = other->is_found = one->is_found || other->is_found;
    return is_new;
}

static bool is_in_fabric(unsigned long long address, const struct fid_fabric *fabric)
{
    return address - (uintptr_t)fabric < FABRIC_SIZE;
}

static bool find_watched(const struct candidates *all, struct candidate *set,
                         const struct fid_fabric *fabric)
{
    struct candidate *watched = NULL;
    unsigned long long kept = 0;
    char path[32], line[256];
    bool is_new = false;
    size_t count = 0;
    int fd;

    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", set->fd);
    FILE *info = fopen(path, "re");
    while (info && fgets(line, sizeof line, info)) {
        if (sscanf(line, "tfd: %d events: %*x data: %llx", &fd, &kept) != 2)
            continue;
        count++;
        watched = candidate_of(all, fd);
        is_new |= watched && find_both(set, watched);
    }
    if (info)
        fclose(info);
    if (count == 1 && watched && watched->kind == UNIX_SOCKET && is_in_fabric(kept, fabric)) {
        is_new |= !watched->is_found;
        set->is_found = watched->is_found = true;
    }
    return is_new;
}

static bool find_next(const struct candidates *all, const struct fid_fabric *fabric)
{
    bool is_new = false;

    for (size_t i = 0; i < all->count; i++)
        if (all->list[i].kind == EPOLL_SET)
            is_new |= find_watched(all, &all->list[i], fabric);
    return is_new;
}

/* The other end of a pair, which nothing watches. */
static bool is_partner(const struct candidates *all, const struct candidate *one)
{
    for (size_t i = 0; one->kind == UNIX_SOCKET && i < all->count; i++) {
        const struct candidate *other = &all->list[i];
        if (other->kind == UNIX_SOCKET && other->is_found && other->inode + 1 == one->inode)
            return true;
    }
    return false;
}

void okv_ofi_descriptors_close_on_exec(const struct ofi_conn *conn)
{
    const struct ofi_endpoint *ep = (const struct ofi_endpoint *)conn->base.endpoint;
    struct candidates all = {.list = NULL};

    collect(&all);
    find_first(&all, conn);
    while (find_next(&all, ep->fabric->fabric))
        continue;
    for (size_t i = 0; i < all.count; i++)
        if (all.list[i].is_found || is_partner(&all, &all.list[i]))
            fcntl(all.list[i].fd, F_SETFD, FD_CLOEXEC);
    free(all.list);
}
