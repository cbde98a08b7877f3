/* What the directory of a copy says about itself (server/wal/copies/mark.h). Nothing, of a database
 * in memory only. */
#ifndef OKV_SERVER_COPIES_MARKING_H
#define OKV_SERVER_COPIES_MARKING_H

#include "server/copies/state.h"

/* After the recovery: the incarnation of the log that a start has found. One that may lack what it
 * acknowledged is another. Fails like okv_wal_mark_write(). */
int okv_marking_open(struct okv_copy *copy, struct okv_diag *diag);
/* Before the cluster is created, of which the log becomes a copy. Fails likewise. */
int okv_marking_create(struct okv_copy *copy, uint64_t cluster_id, struct okv_diag *diag);
/* Before the copy begins, of a cluster that is known: the directory is its copy. OKV_EEXISTS: its
 * log has items that are not the cluster's. Fails likewise. */
int okv_marking_begin(struct okv_copy *copy, struct okv_diag *diag);
/* The log is given up, and the next incarnation begins; false: the directory cannot say so. */
bool okv_marking_give_up(struct okv_copy *copy, uint64_t incarnation);
/* It has loaded a snapshot; false: the directory cannot say so. */
bool okv_marking_note_whole(struct okv_copy *copy);
/* Notes the highest epoch that was seen: one that is lower is not of this cluster's etcd. */
void okv_marking_note_epoch(struct okv_copy *copy);
/* The highest one of all starts; 0: none. */
uint64_t okv_marking_epoch(const struct okv_copy *copy);

#endif
