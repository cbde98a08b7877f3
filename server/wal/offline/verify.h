/*
 * Reading all files that a start reads, without a table: what is whole in them, and what is not.
 * Where a start stops at the first damage, this goes on behind it, at the next frame that is whole.
 */
#ifndef OKV_SERVER_WAL_OFFLINE_VERIFY_H
#define OKV_SERVER_WAL_OFFLINE_VERIFY_H

#include "server/wal/file.h"
#include "server/wal/format.h"
#include "shared/base/diag.h"

/* What there is. Damaged frames are not counted. */
struct okv_wal_survey {
    uint64_t snapshot;            /* its number; 0: there is none */
    struct okv_wal_header header; /* of the snapshot; bucket_count 0: it is damaged */
    struct okv_wal_header base;   /* of the snapshot or of the first segment that has one */
    bool has_base;
    bool is_ended;            /* the snapshot has its end, which says how many items it has */
    uint64_t expected, items; /* of the snapshot: said by the end, found */
    uint64_t segments, frames, records; /* of the log */
    uint64_t bytes;                     /* of frames, of snapshot and log */
    uint64_t position;                  /* behind the last frame of the log */
    uint64_t wall_ms;                   /* of the last frame; 0: there is none */
    uint64_t cut;                       /* bytes of an incomplete end, which a start leaves out */
    uint64_t damages;
};

/* Whom to tell of damage, on the calling thread. */
struct okv_wal_report {
    /* `text` says what is damaged, and where. Bytes `from` to `to` - 1 of file `name` cannot be
     * used; `to` == `from`: none in particular. `name` may be "". They are valid during the call.
     */
    void (*damaged)(void *user, const char *name, uint64_t from, uint64_t to, const char *text);
    void *user;
};

/* Calls `frame`, which may be NULL, with each frame that a start would take, whose bytes it may
 * change; it returns 0 to go on. Returns 0 if all was read, damaged or not; OKV_EVERSION: a file is
 * of another version of the server; OKV_EIO, OKV_ENOMEM, or what `frame` returned. That a table has
 * room is not checked, nor that a snapshot has a key once. */
int okv_wal_walk(struct okv_files *files, const struct okv_wal_report *report,
                 int (*frame)(void *user, bool is_of_snapshot, const struct okv_wal_frame *frame,
                              uint8_t *bytes, struct okv_diag *diag),
                 void *user, struct okv_wal_survey *out, struct okv_diag *diag);

#endif
