/* Cuts off the end of a log, which other copies do not have. */
#ifndef OKV_SERVER_WAL_RECOVERY_TRUNCATE_H
#define OKV_SERVER_WAL_RECOVERY_TRUNCATE_H

#include <stdint.h>

struct okv_diag;
struct okv_wal;

/* Between okv_wal_open() and okv_wal_recover(): begins a segment at `position` or before, whose
 * last frame ends there. What the log had from there on does not count any more when that segment
 * has its name. A frame of the last segment begins or ends there, or OKV_EINVAL: committed frames,
 * which are all of earlier segments, are never cut off. Otherwise fails like okv_wal_recover() and
 * okv_wal_start(). */
int okv_wal_truncate(struct okv_wal *wal, uint64_t position, struct okv_diag *diag);

#endif
