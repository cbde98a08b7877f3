/*
 * Checks all files that a start reads, without a store: what is valid in them, and what is damaged.
 * Where a start stops at the first damage, this continues after it.
 */
#ifndef OKV_SERVER_WAL_OFFLINE_VERIFY_H
#define OKV_SERVER_WAL_OFFLINE_VERIFY_H

#include "server/wal/recovery/scan.h"

/* What is there. Damaged frames are not counted. */
struct okv_wal_survey {
    uint64_t snapshot;            /* its number; 0: there is none */
    struct okv_wal_header header; /* of the snapshot; bucket_count 0: it is damaged */
    struct okv_wal_header base;   /* of the first file whose header is valid */
    bool has_base;
    bool is_ended;            /* the snapshot has its end, which says how many items it has */
    uint64_t expected, items; /* of the snapshot: according to its end; found */
    uint64_t segments, frames, records; /* of the log */
    uint64_t bytes;                     /* of frames, of snapshot and log */
    uint64_t position;                  /* after the last frame of the log */
    uint64_t wall_ms;                   /* of the last frame; 0: there is none */
    uint64_t cut;                       /* bytes of an incomplete end, which a start leaves out */
    uint64_t damages;
};

/* Calls `frame`, which may be NULL, with each frame that a start would accept, whose bytes it may
 * change; it returns 0 to continue. Returns 0 if all was read, damaged or not; OKV_EVERSION: a file
 * is of another version of the server; OKV_EIO, OKV_ENOMEM, or what `frame` returned. Not checked:
 * whether a table has room, and whether a snapshot has a key once. */
int okv_wal_verify(struct okv_files *files, const struct okv_wal_damage_report *report,
                   int (*frame)(void *user, bool is_of_snapshot, const struct okv_wal_frame *frame,
                                uint8_t *bytes, struct okv_diag *diag),
                   void *user, struct okv_wal_survey *out, struct okv_diag *diag);

#endif
