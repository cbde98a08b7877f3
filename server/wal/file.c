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

#define LOCK_NAME "lock"

struct okv_file {
    int fd;
};

static struct okv_directory *directory_of(struct okv_files *files)
{
    return (struct okv_directory *)files;
}

static int open_file(struct okv_files *files, const char *name, int flags, struct okv_file **out)
{
    struct okv_file *file = malloc(sizeof *file);

    if (!file)
        return -ENOMEM;
    file->fd = openat(directory_of(files)->fd, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file->fd < 0) {
        int error = errno;
        free(file);
        return -error;
    }
    *out = file;
    return 0;
}

static int file_create(struct okv_files *files, const char *name, struct okv_file **out)
{
    return open_file(files, name, O_WRONLY | O_CREAT | O_EXCL, out);
}

static int file_reopen(struct okv_files *files, const char *name, struct okv_file **out)
{
    return open_file(files, name, O_WRONLY, out);
}

static int file_open(struct okv_files *files, const char *name, struct okv_file **out)
{
    return open_file(files, name, O_RDONLY, out);
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

static int file_write(struct okv_file *file, struct iovec *vectors, unsigned count, uint64_t offset)
{
    while ((count = advance(&vectors, count, 0)) > 0) {
        int some = count < IOV_MAX ? (int)count : IOV_MAX;
        ssize_t written = pwritev(file->fd, vectors, some, (off_t)offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written < 0 ? -errno : -EIO;
        count = advance(&vectors, count, (size_t)written);
        offset += (uint64_t)written;
    }
    return 0;
}

static int file_reserve(struct okv_file *file, uint64_t offset, uint64_t length)
{
    while (fallocate(file->fd, FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)length))
        if (errno != EINTR)
            return errno == EOPNOTSUPP || errno == ENOSYS ? 0 : -errno;
    return 0;
}

/* The kernel gives back what is behind the end although the size stays. */
static int file_trim(struct okv_files *files, const char *name, uint64_t end)
{
    struct okv_file *file = NULL;
    struct stat status;
    int rc = open_file(files, name, O_WRONLY, &file);

    if (rc)
        return rc;
    if (fstat(file->fd, &status))
        rc = -errno;
    else if (ftruncate(file->fd, (uint64_t)status.st_size < end ? status.st_size : (off_t)end))
        rc = -errno;
    file_close(file);
    return rc;
}

static int file_sync(struct okv_file *file)
{
    struct stat status;

    if (fdatasync(file->fd) || fstat(file->fd, &status))
        return -errno;
    return status.st_nlink > 0 ? 0 : -ENOENT;
}

static int file_write_out(struct okv_file *file, uint64_t offset, uint64_t length)
{
    const unsigned flags = SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;

    if (sync_file_range(file->fd, (off_t)offset, (off_t)length, flags) == 0)
        return 0;
    return errno == ENOSYS || errno == EINVAL ? 0 : -errno;
}

static int file_read(struct okv_file *file, void *buffer, size_t length, uint64_t offset,
                     size_t *got)
{
    *got = 0;
    while (*got < length) {
        ssize_t some =
            pread(file->fd, (char *)buffer + *got, length - *got, (off_t)(offset + *got));
        if (some < 0 && errno == EINTR)
            continue;
        if (some <= 0)
            return some < 0 ? -errno : 0;
        *got += (size_t)some;
    }
    return 0;
}

static int file_size(struct okv_file *file, uint64_t *out)
{
    struct stat status;

    if (fstat(file->fd, &status))
        return -errno;
    *out = (uint64_t)status.st_size;
    return 0;
}

static int file_rename(struct okv_files *files, const char *from, const char *to)
{
    int directory = directory_of(files)->fd;

    return renameat(directory, from, directory, to) ? -errno : 0;
}

static int file_remove(struct okv_files *files, const char *name)
{
    return unlinkat(directory_of(files)->fd, name, 0) ? -errno : 0;
}

static int sync_names(struct okv_files *files)
{
    return fsync(directory_of(files)->fd) ? -errno : 0;
}

static int list(struct okv_files *files, int (*each)(const char *name, void *user), void *user)
{
    int fd = openat(directory_of(files)->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *names = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    int rc = 0;

    if (!names) {
        rc = -errno;
        if (fd >= 0)
            close(fd);
        return rc;
    }
    for (errno = 0; rc == 0 && (entry = readdir(names)); errno = 0)
        rc = each(entry->d_name, user);
    if (rc == 0)
        rc = -errno;
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

/* Whoever may change names in it could plant a log, or take one away. */
static int check_owner(const char *path)
{
    struct stat directory;

    if (stat(path, &directory))
        return -errno;
    bool is_ours = directory.st_uid == geteuid() || directory.st_uid == 0;
    return is_ours && !(directory.st_mode & S_IWOTH) ? 0 : -EPERM;
}

/* Who made it may have died before its name was durable. */
int okv_directory_make(const char *path)
{
    char parent[PATH_MAX];
    int fd, rc = 0;

    if (mkdir(path, 0700) && errno != EEXIST)
        return -errno;
    rc = check_owner(path);
    if (rc)
        return rc;
    if (strlen(path) + 4 > sizeof parent)
        return -ENAMETOOLONG;
    strcpy(parent, path);
    strcat(parent, "/..");
    fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fsync(fd))
        rc = -errno;
    close(fd);
    return rc;
}

/* `how` is LOCK_EX or LOCK_SH. */
static int lock_directory(int directory, int flags, int how)
{
    int fd = openat(directory, LOCK_NAME, flags | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return -errno;
    if (flock(fd, how | LOCK_NB)) {
        int error = errno;
        close(fd);
        return error == EWOULDBLOCK ? -EBUSY : -error;
    }
    return fd;
}

int okv_directory_open(struct okv_directory *directory, const char *path)
{
    int rc = okv_directory_make(path);

    if (rc)
        return rc;
    directory->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (directory->fd < 0)
        return -errno;
    directory->lock = lock_directory(directory->fd, O_RDWR | O_CREAT, LOCK_EX);
    if (directory->lock < 0) {
        close(directory->fd);
        return directory->lock;
    }
    directory->files.ops = &ops;
    return 0;
}

int okv_directory_open_shared(struct okv_directory *directory, const char *path)
{
    directory->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory->fd < 0)
        return -errno;
    directory->lock = lock_directory(directory->fd, O_RDONLY, LOCK_SH);
    /* A copy may be without one, and no server has used it then. */
    if (directory->lock < 0 && directory->lock != -ENOENT) {
        close(directory->fd);
        return directory->lock;
    }
    directory->files.ops = &ops;
    return 0;
}

void okv_directory_close(struct okv_directory *directory)
{
    close(directory->fd);
    if (directory->lock >= 0)
        close(directory->lock);
}
