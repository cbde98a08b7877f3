/* Beginning a log with a snapshot from elsewhere. Callers use wal.h. */
#ifndef OKV_SERVER_WAL_RECOVERY_IMPORT_H
#define OKV_SERVER_WAL_RECOVERY_IMPORT_H

#include "server/wal/file.h"
#include "shared/base/diag.h"

/* Copies the file at `path` into a directory without a log, as OKV_WAL_PART, and syncs it; looks at
 * none of its bytes. OKV_EEXISTS: there is a log; OKV_EIO, OKV_EPERM, OKV_ENOMEM. On failure
 * OKV_WAL_PART may be there. */
int okv_wal_restore(struct okv_files *files, const char *path, struct okv_diag *diag);

#endif
