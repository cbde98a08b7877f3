/* A snapshot of what is published, sent piece by piece to a copy that has no log to continue. */
#ifndef OKV_SERVER_COPIES_SNAPSHOT_H
#define OKV_SERVER_COPIES_SNAPSHOT_H

#include "server/copies/state.h"

/* OKV_ACTION_SNAPSHOT. */
void okv_snapshot_begin_sending(struct okv_copy_link *link);
/* Sends the next pieces, as far as the copy keeps up, and says which frames are to be kept. */
void okv_snapshot_continue_sending(struct okv_copy_link *link);
/* The copy has loaded a piece. */
void okv_snapshot_note_loaded(struct okv_copy_link *link);
/* The link is lost. */
void okv_snapshot_end_sending(struct okv_copy_link *link);

#endif
