#include "shared/base/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/error.h"

#define SHOWN_MAX 96
#define NOT_REGULAR EMEDIUMTYPE /* no file system has it */

int okv_regular_file_open(int directory, const char *path, int flags)
{
    struct stat file;
    int fd = openat(directory, path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);

    if (fd < 0) {
        if (errno == ENXIO) /* a FIFO without a reader, or a socket */
            errno = NOT_REGULAR;
        return -1;
    }
    if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode))
        return fd;
    close(fd);
    errno = NOT_REGULAR;
    return -1;
}

const char *okv_regular_file_error(int error)
{
    return error == NOT_REGULAR ? "it is not a regular file" : strerror(error);
}

const char *okv_file_shown(const char *path)
{
    size_t length = strlen(path);

    return length > SHOWN_MAX ? path + length - SHOWN_MAX : path;
}

/* ---- files of this user ---- */

/* The code for a file that cannot be opened. One that is not there is a wrong argument. */
static int code_of(int errnum)
{
    switch (errnum) {
    case EACCES:
    case EPERM:
        return OKV_EPERM;
    case ENOMEM:
        return OKV_ENOMEM;
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
    case ELOOP:
        return OKV_EINVAL;
    default:
        return OKV_EIO;
    }
}

/* Root may give a secret to a group of this process by permission 040, as Kubernetes does when it
 * mounts one (PostgreSQL has the same rule for its key of TLS). */
static mode_t refused_modes(enum okv_file_trust trust, const struct stat *file)
{
    if (trust == OKV_FILE_OTHERS_READ)
        return 022;
    return file->st_uid == 0 && geteuid() != 0 ? 037 : 077;
}

/* 0 when only this user, or root, can change the file and, if it holds secrets, read it, and it is
 * not too long. */
static int check(const char *shown, enum okv_file_trust trust, const struct stat *file,
                 struct okv_diag *diag)
{
    static const struct {
        const char *what, *chmod;
    } rules[] = {
        [OKV_FILE_OTHERS_READ] = {"may be changed by others", "go-w"},
        [OKV_FILE_OTHERS_NEVER] = {"holds secrets and is open to others", "600"},
    };

    if (!S_ISREG(file->st_mode))
        return okv_diag_set(diag, OKV_EINVAL, "%s is not a regular file: name one", shown);
    if (file->st_size > OKV_TRUSTED_FILE_MAX)
        return okv_diag_set(diag, OKV_EINVAL, "%s has more than %d bytes: name the right file",
                            shown, OKV_TRUSTED_FILE_MAX);
    if (file->st_uid != geteuid() && file->st_uid != 0)
        return okv_diag_set(diag, OKV_EPERM, "%s belongs to another user, uid %u: chown %u %s",
                            shown, (unsigned)file->st_uid, (unsigned)geteuid(), shown);
    if (file->st_mode & refused_modes(trust, file))
        return okv_diag_set(diag, OKV_EPERM, "%s %s (mode %04o): chmod %s %s", shown,
                            rules[trust].what, (unsigned)(file->st_mode & 07777),
                            rules[trust].chmod, shown);
    return 0;
}

static int open_failed(const char *shown, int errnum, struct okv_diag *diag)
{
    return okv_diag_set(diag, code_of(errnum),
                        "%s cannot be opened: %s: name a file that this user can read", shown,
                        strerror(errnum));
}

/* Opens the file of an O_PATH descriptor for reading: the path may lead elsewhere by now. */
static int open_found(const char *shown, int found, struct okv_diag *diag)
{
    static const char descriptors[] = "/proc/thread-self/fd"; /* a thread may have its own */
    char path[sizeof descriptors + 16];

    snprintf(path, sizeof path, "%s/%d", descriptors, found);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0)
        return fd;
    int errnum = errno;
    if (access(descriptors, F_OK))
        return okv_diag_set(diag, OKV_EIO, "%s cannot be opened safely without %s: mount /proc",
                            shown, descriptors);
    return open_failed(shown, errnum, diag);
}

int okv_trusted_file_open(const char *path, enum okv_file_trust trust, struct okv_diag *diag)
{
    const char *shown = okv_file_shown(path);
    struct stat file;

    /* To open for reading what a link leads to may block, or have a device do something. */
    int found = open(path, O_PATH | O_CLOEXEC);
    if (found < 0)
        return open_failed(shown, errno, diag);
    int rc = fstat(found, &file)
                 ? okv_diag_set(diag, OKV_EIO, "%s cannot be examined: %s", shown, strerror(errno))
                 : check(shown, trust, &file, diag);
    if (rc == 0)
        rc = open_found(shown, found, diag);
    close(found);
    return rc;
}
