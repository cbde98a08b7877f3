/* A new log, on which a server can start, of what is whole in a damaged one. */
#ifndef OKV_SERVER_WAL_OFFLINE_SALVAGE_H
#define OKV_SERVER_WAL_OFFLINE_SALVAGE_H

#include "server/wal/offline/verify.h"

/* What versions are raised by: so that no version of a change that is lost comes again. */
#define OKV_WAL_SALVAGE_RAISE (UINT64_C(1) << 32)

struct okv_wal_salvaged {
    uint64_t buckets; /* of the snapshot, that are lost or in part */
};

/*
 * Writes to `to`, which has no files of a log, the frames of `from` that are whole: those of the
 * snapshot as a snapshot, those of the log as one segment. It is another database then: with an id
 * of its own, and versions that are higher. `bucket_size` is that of the server, for a snapshot
 * whose header is damaged.
 *
 * Before the last step a start refuses what is there. Returns 0 whether or not all was whole.
 * OKV_ECORRUPT: no header is whole, and a snapshot needs one; OKV_ENUMBER: versions have no room
 * above; OKV_EVERSION, OKV_EIO, OKV_ENOMEM.
 */
int okv_wal_salvage(struct okv_files *from, struct okv_files *to, uint32_t bucket_size,
                    const struct okv_wal_report *report, struct okv_wal_survey *survey,
                    struct okv_wal_salvaged *out, struct okv_diag *diag);

#endif
