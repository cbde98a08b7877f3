/* What the log's thread does in a log that has copies. It holds the batch lock for writing. */
#ifndef OKV_SERVER_WAL_COPIES_HOLD_H
#define OKV_SERVER_WAL_COPIES_HOLD_H

#include <stdbool.h>

struct okv_wal;

/* Whether no change may be made: another copy leads, or changes are drained. */
bool okv_wal_copies_must_hold(struct okv_wal *wal);
/* While that is so, and the log is not to stop: writes frames that came, cuts them off again, and
 * applies what is published. Nothing is staged. */
void okv_wal_copies_hold(struct okv_wal *wal);
/* Ends the batch in wal->writing: passes its frame on, writes it, and waits until it is published.
 * Returns 0 when it is; else it is to be dropped, as this copy leads no more: OKV_EREADONLY;
 * OKV_ENOMEM. */
int okv_wal_copies_commit(struct okv_wal *wal);

#endif
