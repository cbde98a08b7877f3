/* Recovery: a start reads the newest snapshot, and then the log that continues it. */
#ifndef OKV_SERVER_WAL_RECOVERY_RECOVER_H
#define OKV_SERVER_WAL_RECOVERY_RECOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "server/wal/wal.h"

struct okv_diag;
struct okv_store;
struct okv_wal;
struct okv_wal_record;

/* What recovery is given. `store` is borrowed until okv_wal_close(), `clients` is copied. */
struct okv_wal_recovery {
    struct okv_store *store;               /* empty, without readers */
    const struct okv_wal_clients *clients; /* or NULL */
    /* After each frame: bytes of frames so far. By one thread at a time. NULL: nothing. */
    void (*progress)(void *user, uint64_t bytes);
    void *user;
};

/* What recovery found. */
struct okv_wal_found {
    uint64_t snapshot, snapshot_items; /* number; 0: there is none */
    uint64_t snapshot_wall_ms;         /* of its moment */
    uint64_t items;                    /* in the end */
    uint64_t segments, frames, records, bytes;
    bool is_cut;                /* the last batch was incomplete */
    bool is_unclean;            /* answered changes may be lost; a log alone raised its versions */
    uint64_t clock_ms, wall_ms; /* of the last frame; 0: there is none */
};

/* Makes in the store all changes that are in snapshot and log. An incomplete frame at the end is
 * left out. OKV_ECORRUPT: there is damage elsewhere; OKV_EFULL, OKV_EVALUESIZE: the store is too
 * small; OKV_EINVAL: the snapshot has buckets of another size; OKV_EIO, OKV_ENOMEM. */
int okv_wal_recover(struct okv_wal *wal, const struct okv_wal_recovery *recovery,
                    struct okv_wal_found *found, struct okv_diag *diag);

/* For okv_wal_open(): imports a snapshot if it is to, and reads the header of the snapshot, or of
 * the first segment. Sets wal->snapshot_header, and wal->segment to what all segments share, its
 * number to that of the last; 0: there is none. OKV_ECORRUPT, OKV_EVERSION, OKV_EEXISTS, OKV_EIO,
 * OKV_ENOMEM. */
int okv_wal_discover(struct okv_wal *wal, bool *is_there, struct okv_diag *diag);

#endif
