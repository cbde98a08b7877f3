/*
 * A server holds PATH.lock (flock) while it listens on PATH. So two servers never take over the
 * same path at once, and a socket whose lock is free belongs to nobody. The lock file is removed
 * with the socket; one that a killed server left is used again.
 */
#include "shared/transport/local/socket_path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "shared/base/regular_file.h"
#include "shared/transport/local/local.h"
#include "shared/transport/local/safe_close.h"

#define LOCK_SUFFIX ".lock"
#define LOCK_ATTEMPTS 10

struct lock_path {
    char text[sizeof((struct okv_uri *)0)->path + sizeof LOCK_SUFFIX];
};

static struct lock_path lock_path(const char *path)
{
    struct lock_path lock;

    snprintf(lock.text, sizeof lock.text, "%s" LOCK_SUFFIX, path);
    return lock;
}

/* Whether the path leads to this file itself. */
static bool leads_to(const char *path, dev_t device, ino_t inode)
{
    struct stat file;

    return lstat(path, &file) == 0 && file.st_dev == device && file.st_ino == inode;
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
                            okv_regular_file_error(error));
    }
}

static int in_use(struct okv_diag *diag, const char *path)
{
    return okv_diag_set(diag, OKV_EAGAIN,
                        "another server already listens on %s: stop it, or choose another path",
                        path);
}

/* Locks PATH.lock. A server that ends may remove the file between our open and our flock; a lock
 * on a file without a name excludes nobody. */
static int acquire_lock(const char *path, int *out, struct okv_diag *diag)
{
    struct lock_path lock = lock_path(path);
    struct stat ours;

    for (int attempt = 0; attempt < LOCK_ATTEMPTS; attempt++) {
        int fd = okv_regular_file_open(AT_FDCWD, lock.text, O_RDWR | O_CREAT | O_NOFOLLOW);
        if (fd < 0)
            return path_failed(diag, lock.text, errno);
        if (flock(fd, LOCK_EX | LOCK_NB)) {
            int error = errno;
            close(fd);
            return error == EWOULDBLOCK ? in_use(diag, path) : path_failed(diag, lock.text, error);
        }
        if (fstat(fd, &ours) == 0 && leads_to(lock.text, ours.st_dev, ours.st_ino)) {
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
    struct stat ours;

    if (fstat(fd, &ours) == 0 && leads_to(lock.text, ours.st_dev, ours.st_ino))
        unlink(lock.text); /* before the lock is free: see acquire_lock */
    close(fd);
}

/* Removes the socket of a server that is gone. The caller holds the lock. */
static int clear_path(const struct sockaddr_un *address, int type, struct okv_diag *diag)
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
    sock = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
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

static int bind_and_listen(struct okv_socket_path *out, const struct sockaddr_un *address,
                           mode_t mode, int sock, int backlog, struct okv_diag *diag)
{
    const char *path = address->sun_path;
    struct stat file;

    if (bind(sock, (const struct sockaddr *)address, sizeof *address) || lstat(path, &file))
        return path_failed(diag, path, errno);
    out->device = file.st_dev;
    out->inode = file.st_ino;
    if ((!mode || fchmodat(AT_FDCWD, path, mode, AT_SYMLINK_NOFOLLOW) == 0) &&
        listen(sock, backlog) == 0)
        return 0;
    int rc = path_failed(diag, path, errno);
    if (leads_to(path, out->device, out->inode))
        unlink(path);
    return rc;
}

int okv_socket_path_listen(struct okv_socket_path *out, const struct okv_uri *uri, int sock,
                           int backlog, struct okv_diag *diag)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t size = sizeof(int);
    int type = 0, rc = acquire_lock(uri->path, &out->lock, diag);

    if (rc)
        return rc;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", uri->path);
    getsockopt(sock, SOL_SOCKET, SO_TYPE, &type, &size);
    rc = clear_path(&address, type, diag);
    if (rc == 0)
        rc = bind_and_listen(out, &address, uri->mode, sock, backlog, diag);
    if (rc)
        release_lock(uri->path, out->lock);
    else
        out->path = uri->path;
    return rc;
}

void okv_socket_path_remove(struct okv_socket_path *socket)
{
    if (!socket->path)
        return;
    if (leads_to(socket->path, socket->device, socket->inode))
        unlink(socket->path);
    release_lock(socket->path, socket->lock);
    socket->path = NULL;
}
