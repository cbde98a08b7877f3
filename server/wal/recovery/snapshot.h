/* Recovers the items of a snapshot. */
#ifndef OKV_SERVER_WAL_RECOVERY_SNAPSHOT_H
#define OKV_SERVER_WAL_RECOVERY_SNAPSHOT_H

#include "server/wal/recovery/recover.h"

struct okv_store_recovered;

/* Fills the empty table of wal->store from the snapshot of wal->snapshot_header, with a thread for
 * each processor, 17 at most. Fails like okv_wal_recover(). */
int okv_wal_recover_snapshot(struct okv_wal *wal, struct okv_wal_found *found,
                             struct okv_diag *diag);
/* Makes the server remember what the record says of a client. Any thread. OKV_ENOMEM. */
int okv_wal_recover_client(const struct okv_wal *wal, const struct okv_wal_record *record);
/* Sets the sentence that an item found no room. Returns `rc`. */
int okv_wal_does_not_fit(int rc, struct okv_diag *diag);

/* What a PUT or a DELETE makes of an item. It points into the record. */
struct okv_store_recovered okv_wal_item_of(const struct okv_wal_record *record);

#endif
