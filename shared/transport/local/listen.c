/*
 * Listening of the local transport: the region's seals, and the socket in the
 * file system.
 *
 * A server holds PATH.lock (flock) while it listens on PATH. So two servers never
 * take over the same path at once, and a socket whose lock is free belongs to
 * nobody. The lock file is removed with the socket; one that a killed server left
 * is used again.
 */
#include "shared/transport/local/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "shared/transport/local/accept.h"
#include "shared/transport/local/local.h"
#include "shared/transport/local/packet.h"
#include "shared/transport/local/safe_close.h"

#define HELLO_NS UINT64_C(3000000000) /* until a client without a hello is dropped */
#define LOCK_SUFFIX ".lock"
#define LOCK_ATTEMPTS 10

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

struct lock_path {
    char text[sizeof((struct okv_uri *)0)->path + sizeof LOCK_SUFFIX];
};

static struct lock_path lock_path(const char *path)
{
    struct lock_path lock;

    snprintf(lock.text, sizeof lock.text, "%s" LOCK_SUFFIX, path);
    return lock;
}

/* Clients must not write the region, and its shrinking must not kill them with SIGBUS. */
static int seal_region(const struct okv_region *region, struct okv_diag *diag)
{
    struct stat file;

    if (fstat(region->fd, &file))
        return okv_diag_set(diag, OKV_EINVAL, "the region has no memfd: %s", strerror(errno));
    if (region->length == 0 || (uint64_t)file.st_size < region->length)
        return okv_diag_set(diag, OKV_EINVAL, "the region's memfd is smaller than the region");
    int seals = fcntl(region->fd, F_GET_SEALS);
    if (seals >= 0 && (seals & SEALS) == SEALS)
        return 0;
    if (fcntl(region->fd, F_ADD_SEALS, SEALS) == 0)
        return 0;
    if (errno == EINVAL)
        return okv_diag_set(
            diag, OKV_EUNSUPPORTED,
            "the region's memory cannot be sealed against writing by clients: the local "
            "transport needs Linux 5.1 or later");
    return okv_diag_set(diag, OKV_EPERM,
                        "the region's memfd cannot be sealed (%s): it must be made with "
                        "MFD_ALLOW_SEALING",
                        strerror(errno));
}

/* A descriptor for reading only. With the one for writing a client could have the kernel allocate
 * all of the region. Without permission to write nobody but the owner can open it for writing. */
static int share_region(const struct okv_region *region, int *out, struct okv_diag *diag)
{
    char path[32];

    snprintf(path, sizeof path, "/proc/self/fd/%d", region->fd);
    *out = -1;
    if (fchmod(region->fd, 0400) == 0)
        *out = open(path, O_RDONLY | O_CLOEXEC);
    if (*out >= 0)
        return 0;
    return okv_diag_set(diag, OKV_EPERM,
                        "the region's memfd cannot be opened for reading only (%s): raise the "
                        "limit on open files (ulimit -n), or mount /proc",
                        strerror(errno));
}

static void unshare_regions(struct okv_local_listener *listener)
{
    while (listener->region_count > 0)
        close(listener->shared[--listener->region_count]);
}

static int share_regions(struct okv_local_listener *listener, const struct okv_region *regions,
                         unsigned count, struct okv_diag *diag)
{
    int status = 0;

    for (unsigned i = 0; status == 0 && i < count; i++) {
        status = seal_region(&regions[i], diag);
        if (status == 0)
            status = share_region(&regions[i], &listener->shared[i], diag);
        if (status == 0)
            listener->regions[listener->region_count++] = regions[i];
    }
    if (status)
        unshare_regions(listener);
    return status;
}

static int path_failed(struct okv_diag *diag, const char *path, int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
        return okv_diag_set(diag, OKV_EADDRESS,
                            "the directory of %s does not exist: create it, or choose another path",
                            path);
    case EACCES:
    case EPERM:
    case EROFS:
        return okv_diag_set(
            diag, OKV_EPERM,
            "no permission to create %s (%s): choose a path in a directory that this "
            "user may write, for example in $XDG_RUNTIME_DIR",
            path, strerror(error));
    case ELOOP:
        return okv_diag_set(diag, OKV_EADDRESS,
                            "%s is a symbolic link: remove it, or choose another path", path);
    default:
        return okv_diag_set(diag, okv_error_from_errno(error), "cannot create %s: %s", path,
                            strerror(error));
    }
}

static int in_use(struct okv_diag *diag, const char *path)
{
    return okv_diag_set(
        diag, OKV_EAGAIN,
        "another server already listens on local://%s: stop it, or choose another path", path);
}

/* Locks PATH.lock. A server that ends may remove the file between our open and our flock; a lock
 * on a file without a name excludes nobody. */
static int acquire_lock(const char *path, int *out, struct okv_diag *diag)
{
    struct lock_path lock = lock_path(path);
    struct stat ours, named;

    for (int attempt = 0; attempt < LOCK_ATTEMPTS; attempt++) {
        int fd = open(lock.text, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
        if (fd < 0)
            return path_failed(diag, lock.text, errno);
        if (flock(fd, LOCK_EX | LOCK_NB)) {
            int error = errno;
            close(fd);
            return error == EWOULDBLOCK ? in_use(diag, path) : path_failed(diag, lock.text, error);
        }
        if (fstat(fd, &ours) == 0 && lstat(lock.text, &named) == 0 && ours.st_dev == named.st_dev &&
            ours.st_ino == named.st_ino) {
            *out = fd;
            return 0;
        }
        close(fd);
    }
    return in_use(diag, path);
}

static void release_lock(const char *path, int fd)
{
    struct lock_path lock = lock_path(path);

    unlink(lock.text); /* before the lock is free: see acquire_lock */
    close(fd);
}

/* Removes the socket of a server that is gone. The caller holds the lock. */
static int clear_path(const struct sockaddr_un *address, struct okv_diag *diag)
{
    const struct timespec takeover = {.tv_nsec = OKV_LOCAL_TAKEOVER_NS};
    const char *path = address->sun_path;
    struct stat file;
    int sock, error = 0;

    if (lstat(path, &file))
        return errno == ENOENT ? 0 : path_failed(diag, path, errno);
    if (!S_ISSOCK(file.st_mode))
        return okv_diag_set(diag, OKV_EADDRESS,
                            "%s exists and is not a socket: choose another path, or remove it",
                            path);
    sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sock < 0)
        return path_failed(diag, path, errno);
    if (connect(sock, (const struct sockaddr *)address, sizeof *address))
        error = errno;
    okv_local_socket_close(sock);
    if (error == EPROTOTYPE)
        return okv_diag_set(diag, OKV_EADDRESS,
                            "%s is the socket of another program: choose another path", path);
    if (error != ECONNREFUSED)
        return error == 0 || error == EAGAIN ? in_use(diag, path) : path_failed(diag, path, error);
    if (unlink(path))
        return path_failed(diag, path, errno);
    nanosleep(&takeover, NULL);
    return 0;
}

static int open_socket(struct okv_local_listener *listener, int *out, struct okv_diag *diag)
{
    const char *path = listener->uri.path;
    mode_t mode = listener->uri.mode;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat file;
    int sock, status;

    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    status = clear_path(&address, diag);
    if (status)
        return status;
    sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sock < 0)
        return path_failed(diag, path, errno);
    okv_local_refuse_descriptors(sock); /* its clients' sockets inherit it */
    if (bind(sock, (const struct sockaddr *)&address, sizeof address)) {
        status = path_failed(diag, path, errno);
        goto close_socket;
    }
    if (lstat(path, &file) || (mode && fchmodat(AT_FDCWD, path, mode, AT_SYMLINK_NOFOLLOW)) ||
        listen(sock, OKV_PENDING_MAX)) {
        status = path_failed(diag, path, errno);
        goto remove_path;
    }
    *out = sock;
    listener->device = file.st_dev;
    listener->inode = file.st_ino;
    return 0;
remove_path:
    unlink(path);
close_socket:
    close(sock);
    return status;
}

static void remove_socket_path(struct okv_local_listener *listener)
{
    struct stat file;

    if (lstat(listener->uri.path, &file) == 0 && file.st_dev == listener->device &&
        file.st_ino == listener->inode)
        unlink(listener->uri.path);
}

int okv_local_listen(const struct okv_uri *uri, const struct okv_region *regions, unsigned count,
                     struct okv_listener **out, struct okv_diag *diag)
{
    struct okv_local_listener *listener;
    int sock, status;

    listener = calloc(1, sizeof *listener);
    if (!listener)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for a listener");
    listener->base.ops = &okv_transport_local;
    listener->uri = *uri;
    snprintf(listener->base.where, sizeof listener->base.where, "local://%s", uri->path);
    snprintf(listener->base.how, sizeof listener->base.how, "shared memory, socket %s", uri->path);

    status = share_regions(listener, regions, count, diag);
    if (status)
        goto free_listener;
    status = acquire_lock(uri->path, &listener->lock, diag);
    if (status)
        goto unshare_regions;
    status = open_socket(listener, &sock, diag);
    if (status)
        goto release_lock;
    status = okv_pending_open(&listener->pending, sock, HELLO_NS, &okv_local_pending_ops, diag);
    if (status)
        goto remove_path;
    listener->base.fd = listener->pending.epoll;
    listener->base.pending = &listener->pending;
    *out = &listener->base;
    return 0;
remove_path:
    remove_socket_path(listener);
release_lock:
    release_lock(uri->path, listener->lock);
unshare_regions:
    unshare_regions(listener);
free_listener:
    free(listener);
    return status;
}

void okv_local_unlisten(struct okv_listener *base)
{
    struct okv_local_listener *listener = okv_local_listener(base);

    remove_socket_path(listener);
    okv_pending_close(&listener->pending);
    release_lock(listener->uri.path, listener->lock);
    unshare_regions(listener);
    free(listener);
}
