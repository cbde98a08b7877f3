#include "server/wal/recovery/recover.h"

#include "server/store/pending.h"
#include "server/store/store.h"
#include "server/wal/append.h"
#include "server/wal/copies/replay.h"
#include "server/wal/recovery/import.h"
#include "server/wal/recovery/log.h"
#include "server/wal/recovery/scan.h"
#include "server/wal/recovery/snapshot.h"
#include "server/wal/state.h"

/* A segment after the snapshot has the snapshot's number. */
static int read_snapshot_header(struct okv_wal *wal, struct okv_wal_scan *scan,
                                struct okv_diag *diag)
{
    int rc = okv_wal_scan_snapshot(scan, wal->imported, diag);

    wal->snapshot_header = wal->segment = scan->header;
    wal->segment.bucket_count = wal->segment.bucket_size = 0;
    return rc;
}

static int read_headers(struct okv_wal *wal, struct okv_wal_scan *scan, bool *is_there,
                        struct okv_diag *diag)
{
    int rc = okv_wal_scan_begin(scan, wal->files, NULL, diag);

    if (rc)
        return rc;
    if (wal->imported || scan->listing.snapshot) {
        rc = read_snapshot_header(wal, scan, diag);
    } else if (scan->next) {
        rc = okv_wal_scan_segment(scan, diag);
        wal->segment = scan->header;
    }
    *is_there = rc == 0 && wal->segment.number;
    wal->segment.number = wal->imported ? wal->segment.number - 1 : scan->listing.last;
    return rc;
}

int okv_wal_discover(struct okv_wal *wal, bool *is_there, struct okv_diag *diag)
{
    struct okv_wal_scan scan;
    int rc = wal->imported ? okv_wal_import(wal->files, wal->imported, diag) : 0;

    if (rc)
        return rc;
    rc = read_headers(wal, &scan, is_there, diag);
    okv_wal_scan_end(&scan);
    return rc;
}

static int read_all(struct okv_wal *wal, struct okv_wal_found *found, struct okv_diag *diag)
{
    int rc = 0;

    if (wal->snapshot_header.number)
        rc = okv_wal_recover_snapshot(wal, found, diag);
    wal->blobs_tried = atomic_load(&wal->blobs.logged); /* these are no log */
    return rc ? rc : okv_wal_recover_log(wal, found, diag);
}

int okv_wal_recover(struct okv_wal *wal, const struct okv_wal_recovery *recovery,
                    struct okv_wal_found *found, struct okv_diag *diag)
{
    struct okv_store_log log;

    *found = (struct okv_wal_found){0};
    wal->store = recovery->store;
    if (recovery->clients)
        wal->clients_given = *recovery->clients;
    wal->clients = recovery->clients ? &wal->clients_given : NULL;
    wal->progress = recovery->progress;
    wal->progress_user = recovery->user;
    okv_wal_note_segment(wal, &wal->segment);
    if (wal->copies)
        okv_wal_copies_replay_begin(wal);
    okv_wal_store_log(wal, &log); /* of what has to be evicted: with the first batch */
    int rc = okv_store_pending_begin(wal->store, &log);
    if (rc)
        return rc;
    okv_store_pending_set_direct(wal->store, true);
    rc = read_all(wal, found, diag);
    okv_store_pending_end(wal->store);
    wal->progress = NULL;
    found->items = atomic_load(&wal->store->totals.items);
    return rc;
}
