/* Reading a snapshot at a start. Callers use wal.h. */
#ifndef OKV_SERVER_WAL_RECOVERY_SNAPSHOT_H
#define OKV_SERVER_WAL_RECOVERY_SNAPSHOT_H

#include "server/wal/wal.h"

/* Sets wal->loaded to the header of the snapshot of this number, or of the one that is restored.
 * OKV_ECORRUPT, OKV_EVERSION, OKV_EIO, OKV_ENOMEM. */
int okv_wal_load_header(struct okv_wal *wal, uint64_t number, struct okv_diag *diag);
/* Fills an empty table with what wal->loaded has, with a thread for each processor, 17 at most.
 * OKV_ECORRUPT; OKV_EFULL, OKV_EVALUESIZE: the limits are lower; OKV_EINVAL: its buckets have
 * another size; OKV_EIO, OKV_ENOMEM. */
int okv_wal_load(struct okv_wal *wal, struct okv_wal_found *found, struct okv_diag *diag);
/* Has the server remember what the record says of a client. Any thread. OKV_ENOMEM. */
int okv_wal_recover_client(const struct okv_wal *wal, const struct okv_wal_record *record);
/* Says that an item found no room. Returns `rc`. */
int okv_wal_does_not_fit(int rc, struct okv_diag *diag);

#endif
