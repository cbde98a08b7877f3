#include "server/wal/blob/files.h"

#include <inttypes.h>
#include <stdlib.h>

#include "server/wal/background.h"
#include "server/wal/listing.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"

int okv_blob_file_write(struct okv_files *files, uint64_t number, const uint8_t *bytes,
                        uint64_t length, struct okv_diag *why)
{
    const struct iovec vector = {(void *)bytes, length};
    char name[OKV_WAL_NAME_SIZE];
    struct okv_background output = {.files = files};

    okv_wal_name(OKV_WAL_BLOB, number, name);
    int rc = files->ops->create(files, name, &output.file, why);
    if (rc)
        return rc;
    rc = okv_background_write(&output, &vector, why);
    if (rc == 0)
        rc = files->ops->sync(output.file, why);
    files->ops->close(output.file);
    if (rc)
        okv_blob_file_remove(files, number);
    return rc;
}

void okv_blob_file_remove(struct okv_files *files, uint64_t number)
{
    char name[OKV_WAL_NAME_SIZE];

    okv_wal_name(OKV_WAL_BLOB, number, name);
    files->ops->remove(files, name, NULL);
}

static int read_file(struct okv_files *files, const char *name, const struct okv_wal_long *at,
                     uint8_t *bytes, struct okv_diag *diag)
{
    struct okv_file *file;
    struct okv_diag why;
    uint64_t size = 0;
    size_t got = 0;
    int rc = files->ops->open(files, name, &file, &why);

    if (rc == 0) {
        rc = files->ops->size(file, &size, &why);
        if (rc == 0)
            rc = files->ops->read(file, bytes, at->length, 0, &got, &why);
        files->ops->close(file);
    }
    if (rc)
        return okv_diag_set(diag, rc == OKV_ENOTFOUND ? OKV_ECORRUPT : rc, "cannot read %s: %s",
                            name, why.text);
    if (size != at->length || got != at->length ||
        okv_hash_checksum(bytes, at->length, 0) != at->checksum)
        return okv_diag_set(diag, OKV_ECORRUPT, "%s is damaged: it is not what was written", name);
    return 0;
}

int okv_blob_file_read(struct okv_files *files, const struct okv_wal_long *at, uint8_t **out,
                       struct okv_diag *diag)
{
    char name[OKV_WAL_NAME_SIZE];
    uint8_t *bytes = malloc(at->length);

    okv_wal_name(OKV_WAL_BLOB, at->number, name);
    if (!bytes)
        return okv_diag_set(diag, OKV_ENOMEM, "cannot read %s: no memory for %" PRIu64 " bytes",
                            name, at->length);
    int rc = read_file(files, name, at, bytes, diag);
    if (rc)
        free(bytes);
    else
        *out = bytes;
    return rc;
}

/* An unreadable value counts as corrupt. */
static int read_or_lose(struct okv_files *files, const struct okv_wal_long *at, uint8_t **out,
                        struct okv_diag *diag)
{
    int rc = okv_blob_file_read(files, at, out, diag);

    return rc == OKV_EIO ? OKV_ECORRUPT : rc;
}

int okv_blob_file_check(struct okv_files *files, const struct okv_wal_long *at,
                        struct okv_diag *diag)
{
    uint8_t *bytes;
    int rc = read_or_lose(files, at, &bytes, diag);

    if (rc == 0)
        free(bytes);
    return rc;
}

int okv_blob_file_copy(struct okv_files *from, struct okv_files *to, const struct okv_wal_long *at,
                       struct okv_diag *diag)
{
    struct okv_diag why;
    uint8_t *bytes;
    int rc = read_or_lose(from, at, &bytes, diag);

    if (rc)
        return rc;
    rc = okv_blob_file_write(to, at->number, bytes, at->length, &why);
    free(bytes);
    if (rc == OKV_EEXISTS) /* another record refers to it */
        return 0;
    return rc ? okv_diag_set(diag, rc, "cannot write a long value: %s", why.text) : 0;
}
