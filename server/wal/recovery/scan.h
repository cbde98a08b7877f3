/*
 * Reads the files of a log in order: the newest snapshot, and the segments that continue it. The
 * one reader for recovery, checks and salvage.
 *
 * Recovery stops at the first damage. A scan with a report tells it and continues after it, at the
 * next valid frame.
 */
#ifndef OKV_SERVER_WAL_RECOVERY_SCAN_H
#define OKV_SERVER_WAL_RECOVERY_SCAN_H

#include "server/wal/listing.h"
#include "server/wal/recovery/reader.h"

/* Where damage is reported, on the calling thread. */
struct okv_wal_damage_report {
    /* `text` says what is damaged, and where. Bytes `from` to `to` - 1 of file `name` cannot be
     * used; `to` == `from`: none in particular. `name` may be "". They are valid during the call.
     */
    void (*damaged)(void *user, const char *name, uint64_t from, uint64_t to, const char *text);
    void *user;
};

struct okv_wal_scan {
    struct okv_files *files;
    const struct okv_wal_damage_report *report; /* NULL: damage is an error */
    struct okv_wal_listing listing;
    struct okv_wal_reader reader;           /* of the file that is read */
    char name[OKV_WAL_NAME_SIZE];           /* of that file */
    struct okv_wal_header header;           /* of that file; number 0: it is damaged */
    bool is_snapshot;                       /* that file is */
    bool is_damaged;                        /* that file is, as far as it was read */
    bool has_base, has_position, has_epoch; /* what follows is known */
    struct okv_wal_header base;             /* of the first valid file: of which database all are */
    uint64_t position;                      /* after the last frame of the log */
    uint64_t epoch;                         /* of that frame; in a snapshot, of the last one read */
    uint64_t next;                          /* number of the next segment; 0: there is none */
    uint64_t limit;                         /* from this position on, the next segment counts */
    uint64_t size;                          /* bytes of the file, with a report */
    uint64_t cut;               /* bytes of an incomplete frame at the end of the last file */
    uint64_t segments, damages; /* so far */
};

/* Lists the files. `files` and `report` are borrowed until okv_wal_scan_end(), which follows in any
 * case. OKV_ECORRUPT, OKV_EIO, OKV_ENOMEM. */
int okv_wal_scan_begin(struct okv_wal_scan *scan, struct okv_files *files,
                       const struct okv_wal_damage_report *report, struct okv_diag *diag);
/* Opens the snapshot: scan->listing.snapshot, or if `import` is given, the incomplete file that was
 * copied from there. OKV_WAL_NONE: nothing of it can be used. OKV_ECORRUPT, OKV_EVERSION, OKV_EIO,
 * OKV_ENOMEM. */
int okv_wal_scan_snapshot(struct okv_wal_scan *scan, const char *import, struct okv_diag *diag);
/* Opens the next segment. OKV_WAL_NONE: there is no further one. Fails likewise. */
int okv_wal_scan_segment(struct okv_wal_scan *scan, struct okv_diag *diag);
/* Reads the next frame of the file into scan->reader.bytes. OKV_WAL_NONE: there is no further one.
 * OKV_ECORRUPT, OKV_EIO, OKV_ENOMEM. */
int okv_wal_scan_frame(struct okv_wal_scan *scan, struct okv_wal_frame *frame,
                       struct okv_diag *diag);
/* After the last frame of a snapshot: whether its end was there, and said how many items it has. */
int okv_wal_scan_snapshot_end(struct okv_wal_scan *scan, bool is_ended, uint64_t items,
                              uint64_t expected, struct okv_diag *diag);
/* Reports damage as described above. Without a report, sets *diag and returns OKV_ECORRUPT. */
int okv_wal_scan_damaged(struct okv_wal_scan *scan, uint64_t from, uint64_t to,
                         const struct okv_diag *why, struct okv_diag *diag);
void okv_wal_scan_end(struct okv_wal_scan *scan);

#endif
