/* Begins a log with a snapshot from elsewhere. */
#ifndef OKV_SERVER_WAL_RECOVERY_IMPORT_H
#define OKV_SERVER_WAL_RECOVERY_IMPORT_H

#include "server/wal/file.h"

/* Copies the regular file at `path`, which has the header of a snapshot, into a directory without a
 * log, as OKV_WAL_PART, and syncs it; does not check the rest of its contents. OKV_EEXISTS: there
 * is a log; OKV_ECORRUPT, OKV_EVERSION: of the header; otherwise fails like okv_file_ops. On
 * failure OKV_WAL_PART may be there. */
int okv_wal_import(struct okv_files *files, const char *path, struct okv_diag *diag);

#endif
