/* Blob files: each has one long value, in the directory of the log. */
#ifndef OKV_SERVER_WAL_BLOB_FILES_H
#define OKV_SERVER_WAL_BLOB_FILES_H

#include "server/wal/file.h"
#include "server/wal/format.h"

/* Writes a file and makes it durable, but not its name. Fails like okv_file_ops.create and write;
 * then there is no file, or the next start removes it. */
int okv_blob_file_write(struct okv_files *files, uint64_t number, const uint8_t *bytes,
                        uint64_t length, struct okv_diag *why);
/* Reads a file. The caller frees *out. OKV_ECORRUPT: it is missing, or its contents are not what
 * was written; OKV_EIO, OKV_EPERM, OKV_ENOMEM. */
int okv_blob_file_read(struct okv_files *files, const struct okv_wal_long *at, uint8_t **out,
                       struct okv_diag *diag);
/* Removes a file. Best effort: the next start removes what is left. */
void okv_blob_file_remove(struct okv_files *files, uint64_t number);

/* ---- offline ---- */

/* Checks a file. OKV_ECORRUPT: it is not what was written, or cannot be read; OKV_ENOMEM. */
int okv_blob_file_check(struct okv_files *files, const struct okv_wal_long *at,
                        struct okv_diag *diag);
/* Copies a file to another directory and makes it durable, but not its name. One that exists there
 * is that copy. OKV_ECORRUPT: as above; OKV_EIO, OKV_EDISKFULL, OKV_EPERM: it cannot be written;
 * OKV_ENOMEM. */
int okv_blob_file_copy(struct okv_files *from, struct okv_files *to, const struct okv_wal_long *at,
                       struct okv_diag *diag);

#endif
