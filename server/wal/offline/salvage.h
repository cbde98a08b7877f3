/* Makes a new log, on which a server can start, from what is intact in a damaged one. */
#ifndef OKV_SERVER_WAL_OFFLINE_SALVAGE_H
#define OKV_SERVER_WAL_OFFLINE_SALVAGE_H

#include "server/wal/offline/verify.h"

/* Versions are raised by this much, so that no version of a lost change comes again: more than
 * starts after crashes raise them between two snapshots. */
#define OKV_WAL_SALVAGE_RAISE (UINT64_C(1) << 40)

struct okv_wal_salvaged {
    uint64_t buckets; /* of the snapshot, lost in whole or in part; 0 without its header */
};

/*
 * Writes the intact frames of `from` to `to`, which has no files of a log: those of the snapshot as
 * a snapshot, those of the log as one segment. The segment begins with those of a snapshot whose
 * header is damaged. The result is another database: with an id of its own, and higher versions.
 * `bucket_size` is the server's, for a snapshot without a header.
 *
 * Before the last step a start refuses what is in `to`. Returns 0 whether or not all was intact.
 * OKV_ENUMBER: versions cannot be raised any further; OKV_EVERSION, OKV_EIO, OKV_EDISKFULL,
 * OKV_ENOMEM.
 */
int okv_wal_salvage(struct okv_files *from, struct okv_files *to, uint32_t bucket_size,
                    const struct okv_wal_damage_report *report, struct okv_wal_survey *survey,
                    struct okv_wal_salvaged *out, struct okv_diag *diag);

#endif
