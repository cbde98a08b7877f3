/* The state of a log that has copies. For the files of server/wal/. */
#ifndef OKV_SERVER_WAL_COPIES_STATE_H
#define OKV_SERVER_WAL_COPIES_STATE_H

#include <stdatomic.h>

#include "server/wal/copies/copies.h"
#include "server/wal/copies/tail.h"

#define OKV_WAL_NO_CUT UINT64_MAX

/* Of a snapshot. */
struct okv_wal_piece {
    STAILQ_ENTRY(okv_wal_piece) next;
    uint8_t *bytes;
    size_t length;
    uint64_t end; /* 0: more follow */
    uint64_t epoch;
};

/* Under the log's lock, except `refusal`. */
struct okv_wal_copies {
    struct okv_wal_copies_params params;
    uint64_t keep;                /* as for okv_wal_copies_create() */
    struct okv_wal_epochs epochs; /* of a start */
    struct okv_wal_tail tail;
    uint64_t first;     /* where changes may begin: the end of the first frame of this epoch */
    uint64_t batch_end; /* of this copy's last batch; 0: it was cut off */
    uint64_t written;   /* to the files, up to here */
    uint64_t durable;   /* and synced, as far as that counts */
    uint64_t published; /* surely committed */
    uint64_t applied;   /* in the store */
    uint64_t cut;       /* the files have frames from here on that do not count */
    uint64_t cut_epoch; /* of the last frame before */
    uint64_t pinned;    /* frames from here on are kept; UINT64_MAX: none */
    struct {
        bool is_active;
        bool must_clear;         /* items of before are still there */
        unsigned turn;           /* number of the snapshot */
        unsigned pieces;         /* loaded */
        uint64_t begin, version; /* the interval of positions that was told last */
        bool has_interval;
        bool is_whole;     /* in the store; the files still lack it */
        uint64_t snapshot; /* number of the one that the files get; 0: none was begun */
        STAILQ_HEAD(, okv_wal_piece) waiting;
    } load;
    uint64_t clock_ms; /* of the frame that was applied last */
    bool leads;
    bool drains, is_drained;
    bool takes_changes; /* the batch is open */
    bool has_no_room;   /* in the store; or a snapshot could not be loaded */
    bool holds;         /* the log's thread makes all changes, with the lock of the snapshot; for
                           that thread */
    atomic_int refusal; /* of changes: a code, or 0 */
};

#endif
