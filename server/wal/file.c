#include "server/wal/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "shared/base/regular_file.h"

#define LOCK_NAME "lock"

struct okv_file {
    int fd;
};

static struct okv_directory *directory_of(struct okv_files *files)
{
    return (struct okv_directory *)files;
}

int okv_file_failed(int error, struct okv_diag *why)
{
    int rc = okv_error_from_errno(error);

    if (error == ENOSPC || error == EDQUOT)
        rc = OKV_EDISKFULL;
    else if (error == ENOENT)
        rc = OKV_ENOTFOUND;
    else if (error == EEXIST)
        rc = OKV_EEXISTS;
    else if (rc != OKV_EPERM && rc != OKV_ENOMEM)
        rc = OKV_EIO;
    return okv_diag_set(why, rc, "%s", okv_regular_file_error(error));
}

static int open_file(struct okv_files *files, const char *name, int flags, struct okv_file **out,
                     struct okv_diag *why)
{
    struct okv_file *file = malloc(sizeof *file);

    if (!file)
        return okv_file_failed(ENOMEM, why);
    file->fd = okv_regular_file_open(directory_of(files)->fd, name, flags | O_NOFOLLOW);
    if (file->fd < 0) {
        int rc = okv_file_failed(errno, why);
        free(file);
        return rc;
    }
    *out = file;
    return 0;
}

static int file_create(struct okv_files *files, const char *name, struct okv_file **out,
                       struct okv_diag *why)
{
    return open_file(files, name, O_WRONLY | O_CREAT | O_EXCL, out, why);
}

static int file_reopen(struct okv_files *files, const char *name, struct okv_file **out,
                       struct okv_diag *why)
{
    return open_file(files, name, O_WRONLY, out, why);
}

static int file_open(struct okv_files *files, const char *name, struct okv_file **out,
                     struct okv_diag *why)
{
    return open_file(files, name, O_RDONLY, out, why);
}

static void file_close(struct okv_file *file)
{
    close(file->fd);
    free(file);
}

/* Takes `written` bytes off the vectors; returns those that are left. */
static unsigned advance(struct iovec **vectors, unsigned count, size_t written)
{
    for (; count > 0 && written >= (*vectors)->iov_len; count--, (*vectors)++)
        written -= (*vectors)->iov_len;
    if (count > 0) {
        (*vectors)->iov_base = (char *)(*vectors)->iov_base + written;
        (*vectors)->iov_len -= written;
    }
    return count;
}

static int file_write(struct okv_file *file, struct iovec *vectors, unsigned count, uint64_t offset,
                      struct okv_diag *why)
{
    while ((count = advance(&vectors, count, 0)) > 0) {
        int some = count < IOV_MAX ? (int)count : IOV_MAX;
        ssize_t written = pwritev(file->fd, vectors, some, (off_t)offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return okv_file_failed(written < 0 ? errno : EIO, why);
        count = advance(&vectors, count, (size_t)written);
        offset += (uint64_t)written;
    }
    return 0;
}

static int file_reserve(struct okv_file *file, uint64_t offset, uint64_t length,
                        struct okv_diag *why)
{
    while (fallocate(file->fd, FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)length))
        if (errno != EINTR)
            return errno == EOPNOTSUPP || errno == ENOSYS ? 0 : okv_file_failed(errno, why);
    return 0;
}

/* Truncation also releases what is reserved after the end, even if the size stays. */
static int file_trim(struct okv_files *files, const char *name, uint64_t end, struct okv_diag *why)
{
    struct okv_file *file = NULL;
    struct stat status;
    int rc = open_file(files, name, O_WRONLY, &file, why);

    if (rc)
        return rc;
    if (fstat(file->fd, &status))
        rc = okv_file_failed(errno, why);
    else if (ftruncate(file->fd, (uint64_t)status.st_size < end ? status.st_size : (off_t)end))
        rc = okv_file_failed(errno, why);
    file_close(file);
    return rc;
}

static int file_sync(struct okv_file *file, struct okv_diag *why)
{
    struct stat status;

    if (fdatasync(file->fd) || fstat(file->fd, &status))
        return okv_file_failed(errno, why);
    return status.st_nlink > 0 ? 0 : okv_file_failed(ENOENT, why);
}

static int file_write_out(struct okv_file *file, uint64_t offset, uint64_t length,
                          struct okv_diag *why)
{
    const unsigned flags = SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;

    if (sync_file_range(file->fd, (off_t)offset, (off_t)length, flags) == 0)
        return 0;
    return errno == ENOSYS || errno == EINVAL ? 0 : okv_file_failed(errno, why);
}

static int file_read(struct okv_file *file, void *buffer, size_t length, uint64_t offset,
                     size_t *got, struct okv_diag *why)
{
    return okv_source_read(file->fd, buffer, length, offset, got, why);
}

static int file_size(struct okv_file *file, uint64_t *out, struct okv_diag *why)
{
    struct stat status;

    if (fstat(file->fd, &status))
        return okv_file_failed(errno, why);
    *out = (uint64_t)status.st_size;
    return 0;
}

static int file_rename(struct okv_files *files, const char *from, const char *to,
                       struct okv_diag *why)
{
    int directory = directory_of(files)->fd;

    return renameat(directory, from, directory, to) ? okv_file_failed(errno, why) : 0;
}

static int file_remove(struct okv_files *files, const char *name, struct okv_diag *why)
{
    return unlinkat(directory_of(files)->fd, name, 0) ? okv_file_failed(errno, why) : 0;
}

static int sync_names(struct okv_files *files, struct okv_diag *why)
{
    return fsync(directory_of(files)->fd) ? okv_file_failed(errno, why) : 0;
}

static int list(struct okv_files *files, int (*each)(const char *name, void *user), void *user,
                struct okv_diag *why)
{
    int fd = openat(directory_of(files)->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *names = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    int rc = 0;

    if (!names) {
        rc = okv_file_failed(errno, why);
        if (fd >= 0)
            close(fd);
        return rc;
    }
    for (errno = 0; rc == 0 && (entry = readdir(names)); errno = 0)
        rc = each(entry->d_name, user);
    if (rc == 0 && errno)
        rc = okv_file_failed(errno, why);
    closedir(names);
    return rc;
}

static const struct okv_file_ops ops = {
    .create = file_create,
    .reopen = file_reopen,
    .open = file_open,
    .close = file_close,
    .write = file_write,
    .reserve = file_reserve,
    .trim = file_trim,
    .sync = file_sync,
    .write_out = file_write_out,
    .read = file_read,
    .size = file_size,
    .rename = file_rename,
    .remove = file_remove,
    .sync_names = sync_names,
    .list = list,
};

/* Anyone who may change names in it could plant a log, or remove one. */
static int check_owner(const char *path, struct okv_diag *why)
{
    struct stat directory;

    if (stat(path, &directory))
        return okv_file_failed(errno, why);
    bool is_ours = directory.st_uid == geteuid() || directory.st_uid == 0;
    if (!is_ours || (directory.st_mode & S_IWOTH))
        return okv_diag_set(why, OKV_EPERM,
                            "it belongs to another user, or everybody may write it: others could "
                            "change what is in it");
    return 0;
}

/* A process that made it may have died before its name was durable. */
int okv_directory_make(const char *path, struct okv_diag *why)
{
    char parent[PATH_MAX];
    int rc = 0;

    if (mkdir(path, 0700) && errno != EEXIST)
        return okv_file_failed(errno, why);
    rc = check_owner(path, why);
    if (rc)
        return rc;
    if ((size_t)snprintf(parent, sizeof parent, "%s/..", path) >= sizeof parent)
        return okv_file_failed(ENAMETOOLONG, why);
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return okv_file_failed(errno, why);
    if (fsync(fd))
        rc = okv_file_failed(errno, why);
    close(fd);
    return rc;
}

/* `how` is LOCK_EX or LOCK_SH. */
static int lock_directory(struct okv_directory *directory, int flags, int how, struct okv_diag *why)
{
    directory->lock = okv_regular_file_open(directory->fd, LOCK_NAME, flags | O_NOFOLLOW);
    if (directory->lock < 0)
        return okv_file_failed(errno, why);
    if (flock(directory->lock, how | LOCK_NB) == 0)
        return 0;
    int rc = errno == EWOULDBLOCK ? okv_diag_set(why, OKV_EAGAIN, "%s", strerror(EBUSY))
                                  : okv_file_failed(errno, why);
    close(directory->lock);
    return rc;
}

int okv_directory_open(struct okv_directory *directory, const char *path, struct okv_diag *why)
{
    int rc = okv_directory_make(path, why);

    if (rc)
        return rc;
    directory->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (directory->fd < 0)
        return okv_file_failed(errno, why);
    rc = lock_directory(directory, O_RDWR | O_CREAT, LOCK_EX, why);
    if (rc)
        close(directory->fd);
    directory->files.ops = &ops;
    return rc;
}

int okv_directory_open_shared(struct okv_directory *directory, const char *path,
                              struct okv_diag *why)
{
    directory->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory->fd < 0)
        return okv_file_failed(errno, why);
    int rc = lock_directory(directory, O_RDONLY, LOCK_SH, why);
    directory->files.ops = &ops;
    if (rc == OKV_ENOTFOUND) /* a copy may be without one, and no server has used it then */
        return 0;
    if (rc)
        close(directory->fd);
    return rc;
}

void okv_directory_close(struct okv_directory *directory)
{
    close(directory->fd);
    if (directory->lock >= 0)
        close(directory->lock);
}

int okv_source_open(const char *path, struct okv_diag *why)
{
    int fd = okv_regular_file_open(AT_FDCWD, path, O_RDONLY);

    return fd < 0 ? okv_file_failed(errno, why) : fd;
}

int okv_source_read(int fd, void *buffer, size_t length, uint64_t offset, size_t *got,
                    struct okv_diag *why)
{
    *got = 0;
    while (*got < length) {
        ssize_t some = pread(fd, (char *)buffer + *got, length - *got, (off_t)(offset + *got));
        if (some < 0 && errno == EINTR)
            continue;
        if (some <= 0)
            return some < 0 ? okv_file_failed(errno, why) : 0;
        *got += (size_t)some;
    }
    return 0;
}
