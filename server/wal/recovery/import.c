#include "server/wal/recovery/import.h"

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/wal/listing.h"
#include "server/wal/recovery/validate.h"
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

/* Before anything is written: the file may be something else, and large. */
static int check_header(int fd, const char *path, uint8_t *bytes, struct okv_diag *diag)
{
    struct okv_wal_reader reader = {.name = path, .bytes = bytes};
    struct okv_wal_header header;
    struct okv_diag why;
    int rc = okv_source_read(fd, bytes, OKV_WAL_HEADER_SIZE, 0, &reader.header_length, &why);

    if (rc)
        return okv_diag_set(diag, rc, "cannot read %s: %s", path, why.text);
    return okv_wal_check_header(&reader, true, 0, &header, diag);
}

static int copy(struct okv_files *files, int fd, const char *path, struct okv_file *file,
                uint8_t *bytes, struct okv_diag *diag)
{
    struct okv_diag why;
    uint64_t offset = 0;
    size_t got = PIECE;
    int rc = 0;

    while (rc == 0 && got == PIECE) {
        rc = okv_source_read(fd, bytes, PIECE, offset, &got, &why);
        if (rc)
            return okv_diag_set(diag, rc, "cannot read %s: %s", path, why.text);
        struct iovec vector = {bytes, got};
        rc = files->ops->write(file, &vector, 1, offset, &why);
        offset += got;
    }
    if (rc == 0)
        rc = files->ops->sync(file, &why);
    return rc ? okv_diag_set(diag, rc, "cannot copy %s here: %s", path, why.text) : 0;
}

int okv_wal_import(struct okv_files *files, const char *path, struct okv_diag *diag)
{
    struct okv_diag why;
    struct okv_file *file;
    int rc = check_empty(files, diag);

    if (rc)
        return rc;
    int fd = okv_source_open(path, &why);
    if (fd < 0)
        return okv_diag_set(diag, fd, "cannot open %s: %s", path, why.text);
    uint8_t *bytes = malloc(PIECE);
    rc = bytes ? check_header(fd, path, bytes, diag) : OKV_ENOMEM;
    if (rc)
        goto free_bytes;
    files->ops->remove(files, OKV_WAL_PART, NULL); /* of an attempt that was interrupted */
    rc = files->ops->create(files, OKV_WAL_PART, &file, &why);
    if (rc) {
        okv_diag_set(diag, rc, "cannot create a file: %s", why.text);
        goto free_bytes;
    }
    rc = copy(files, fd, path, file, bytes, diag);
    files->ops->close(file);
free_bytes:
    free(bytes);
    close(fd);
    return rc;
}
