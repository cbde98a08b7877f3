/* Files that hold secrets: only those that nobody else can read or change. */
#include <errno.h>
#include <sodium.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "shared/base/regular_file.h"
#include "shared/identity/user_key.h"

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
    const char *shown = okv_file_shown(path);
    int fd = okv_trusted_file_open(path, OKV_FILE_OTHERS_NEVER, diag);
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
