#include "server/wal/recovery/import.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/wal/listing.h"
#include "shared/base/error.h"

#define PIECE ((size_t)1 << 20)

static int check_empty(struct okv_files *files, struct okv_diag *diag)
{
    bool is_empty;
    int rc = okv_wal_is_empty(files, &is_empty, diag);

    if (rc || is_empty)
        return rc;
    return okv_diag_set(diag, OKV_EEXISTS,
                        "it has a log or a snapshot, and --restore begins a database that has "
                        "none: start without --restore, or move this directory away");
}

/* Reads up to PIECE bytes; less only at the end. */
static int read_piece(int fd, char *bytes, size_t *got)
{
    *got = 0;
    while (*got < PIECE) {
        ssize_t some = read(fd, bytes + *got, PIECE - *got);
        if (some < 0 && errno == EINTR)
            continue;
        if (some <= 0)
            return some < 0 ? -errno : 0;
        *got += (size_t)some;
    }
    return 0;
}

static int copy(struct okv_files *files, int fd, const char *path, struct okv_file *file,
                char *bytes, struct okv_diag *diag)
{
    uint64_t offset = 0;
    size_t got = PIECE;
    int rc = 0;

    while (rc == 0 && got == PIECE) {
        rc = read_piece(fd, bytes, &got);
        if (rc)
            return okv_diag_set(diag, okv_error_from_errno(-rc), "cannot read %s: %s", path,
                                strerror(-rc));
        struct iovec vector = {bytes, got};
        rc = files->ops->write(file, &vector, 1, offset);
        offset += got;
    }
    if (rc == 0)
        rc = files->ops->sync(file);
    return rc ? okv_diag_set(diag, okv_error_from_errno(-rc), "cannot copy %s here: %s", path,
                             strerror(-rc))
              : 0;
}

int okv_wal_restore(struct okv_files *files, const char *path, struct okv_diag *diag)
{
    struct okv_file *file;
    int rc = check_empty(files, diag);

    if (rc)
        return rc;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return okv_diag_set(diag, okv_error_from_errno(errno), "cannot open %s: %s", path,
                            strerror(errno));
    char *bytes = malloc(PIECE);
    if (!bytes) {
        rc = OKV_ENOMEM;
        goto close_source;
    }
    files->ops->remove(files, OKV_WAL_PART); /* of an attempt that was cut short */
    rc = files->ops->create(files, OKV_WAL_PART, &file);
    if (rc) {
        okv_diag_set(diag, okv_error_from_errno(-rc), "cannot create a file: %s", strerror(-rc));
        rc = okv_error_from_errno(-rc);
        goto free_bytes;
    }
    rc = copy(files, fd, path, file, bytes, diag);
    files->ops->close(file);
free_bytes:
    free(bytes);
close_source:
    close(fd);
    return rc;
}
