/* Files that hold secrets: only those that nobody else can read or change. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "shared/identity/user_key.h"

#define SHOWN_MAX 96
#define OTHERS 077 /* permissions of group and others */

const char *okv_secret_file_shown(const char *path)
{
    size_t length = strlen(path);

    return length > SHOWN_MAX ? path + length - SHOWN_MAX : path;
}

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

/* 0 when only this user, or root, can read and change the file. */
static int check(const char *shown, const struct stat *file, struct okv_diag *diag)
{
    if (!S_ISREG(file->st_mode))
        return okv_diag_set(diag, OKV_EINVAL, "%s is not a regular file: name one", shown);
    if (file->st_uid != geteuid() && file->st_uid != 0)
        return okv_diag_set(diag, OKV_EPERM,
                            "%s holds secrets and belongs to another user, uid %u: chown %u %s",
                            shown, (unsigned)file->st_uid, (unsigned)geteuid(), shown);
    if (file->st_mode & OTHERS)
        return okv_diag_set(diag, OKV_EPERM,
                            "%s holds secrets and is open to others (mode %04o): chmod 600 %s",
                            shown, (unsigned)(file->st_mode & 07777), shown);
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

int okv_secret_file_open(const char *path, struct okv_diag *diag)
{
    const char *shown = okv_secret_file_shown(path);
    struct stat file;

    /* To open for reading what a link leads to may block, or have a device do something. */
    int found = open(path, O_PATH | O_CLOEXEC);
    if (found < 0)
        return open_failed(shown, errno, diag);
    int rc = fstat(found, &file)
                 ? okv_diag_set(diag, OKV_EIO, "%s cannot be examined: %s", shown, strerror(errno))
                 : check(shown, &file, diag);
    if (rc == 0)
        rc = open_found(shown, found, diag);
    close(found);
    return rc;
}

/* Reads up to `size` bytes; returns how many, or -1. */
static ssize_t read_all(int fd, char *text, size_t size)
{
    size_t length = 0;

    while (length < size) {
        ssize_t some = read(fd, text + length, size - length);
        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0)
            return -1;
        if (some == 0)
            break;
        length += (size_t)some;
    }
    return (ssize_t)length;
}

int okv_secret_file_read(const char *path, size_t limit, char **text, size_t *length,
                         struct okv_diag *diag)
{
    const char *shown = okv_secret_file_shown(path);
    int fd = okv_secret_file_open(path, diag);
    int rc = 0;

    if (fd < 0)
        return fd;
    char *buffer = sodium_malloc(limit + 1);
    if (!buffer) {
        rc = okv_diag_set(diag, OKV_ENOMEM, "%s cannot be read: %s", shown, strerror(ENOMEM));
        goto close;
    }
    ssize_t got = read_all(fd, buffer, limit + 1);
    if (got < 0)
        rc = okv_diag_set(diag, OKV_EIO, "%s cannot be read: %s", shown, strerror(errno));
    else if ((size_t)got > limit)
        rc = okv_diag_set(diag, OKV_EINVAL, "%s has more than %zu bytes: name the right file",
                          shown, limit);
    if (rc) {
        sodium_free(buffer);
        goto close;
    }
    *text = buffer;
    *length = (size_t)got;
close:
    close(fd);
    return rc;
}
