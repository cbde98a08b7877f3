/* What the log's thread does in a log that has copies. It holds the batch lock for writing. */
#ifndef OKV_SERVER_WAL_COPIES_HOLD_H
#define OKV_SERVER_WAL_COPIES_HOLD_H

#include <stdbool.h>

struct okv_wal;

/* Whether no change may be made: another copy leads, or changes are drained. */
bool okv_wal_copies_must_hold(struct okv_wal *wal);
/* While that is so: writes frames that came, cuts them off again, and applies what is published. If
 * the log is to stop, only what is there. Nothing is staged. */
void okv_wal_copies_hold(struct okv_wal *wal);
/* Whether store and files have all that is here. Else a stop leaves them as a crash would. */
bool okv_wal_copies_is_whole(struct okv_wal *wal);
/* Ends the batch in wal->writing: passes its frame on, writes it, and waits until it is published;
 * without a record, until a lease says that its answers are true. Returns 0 then; else it is to be
 * dropped, as this copy leads no more: OKV_EREADONLY; OKV_ENOMEM. */
int okv_wal_copies_commit(struct okv_wal *wal);
/* Its images are published. okv_wal_copies_tell() is to follow. */
void okv_wal_copies_note_applied(struct okv_wal *wal);
/* Wakes the cluster's thread, which reads the new state of the log. */
void okv_wal_copies_tell(struct okv_wal *wal);

#endif
