/* Makes the changes of a frame that is published in the store of a copy. */
#ifndef OKV_SERVER_WAL_COPIES_APPLY_H
#define OKV_SERVER_WAL_COPIES_APPLY_H

struct okv_store_work;
struct okv_wal;
struct okv_wal_tail_frame;

/* No other change is under way. *records: how many it has. OKV_EFULL, OKV_EVALUESIZE: the store is
 * too small; OKV_ENOMEM. */
int okv_wal_apply_frame(struct okv_wal *wal, struct okv_store_work *work,
                        const struct okv_wal_tail_frame *frame, unsigned *records);

#endif
