/* The state of a log. For the files of server/wal/. */
#ifndef OKV_SERVER_WAL_STATE_H
#define OKV_SERVER_WAL_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/store/state.h"
#include "server/wal/blob/blobs.h"
#include "server/wal/file.h"
#include "server/wal/format.h"
#include "server/wal/histogram.h"
#include "server/wal/preallocate.h"
#include "server/wal/snapshot/saver.h"
#include "server/wal/wal.h"
#include "shared/base/diag.h"

/* Records, after space for the header of their frame. */
struct okv_wal_batch {
    uint8_t *bytes;
    uint64_t used, capacity;
    uint64_t reserved; /* bytes for records of one caller that are still to come */
    bool is_held;      /* the caller reserved them in this batch, and makes all changes */
    unsigned records;  /* of changes, without evictions, which nobody waits for */
    uint64_t since_ns; /* of the first */
    bool lacks_reply;  /* the record of a reply found no memory */
};

struct okv_wal {
    struct okv_files *files;
    struct okv_store *store;
    const struct okv_wal_clients *clients; /* as in okv_wal_recovery: the next one, or NULL */
    struct okv_wal_clients clients_given;
    struct okv_store_work work;            /* of the log's thread */
    struct okv_wal_header segment;         /* that is written */
    struct okv_wal_header snapshot_header; /* of the snapshot found at the start; number 0: none */
    uint64_t self_contained; /* number of that snapshot; 0 if it refers to blob files */
    const char *imported;    /* path that the snapshot was copied from, until it has its name;
                                borrowed; NULL: none */
    struct okv_file *file;
    struct okv_wal_space space; /* of the file */
    uint64_t position;          /* of the next frame */
    uint64_t durable;           /* the log is, below this position */
    uint64_t epoch;             /* of the last frame */
    uint64_t durable_epoch;     /* of the last one below `durable` */
    uint64_t oldest_ns;         /* of the records that are not; 0: all are */
    uint64_t raise;             /* of versions, that a segment has yet to say; 0: none */
    struct okv_snapshot snapshot;
    struct okv_blobs blobs;
    double snapshot_ratio;       /* as in okv_wal_params */
    uint64_t sync_within_ns;     /* likewise */
    uint64_t snapshot_begun;     /* position at which the last one began */
    uint64_t snapshot_tried;     /* or was tried */
    uint64_t blobs_tried;        /* blobs.logged then */
    atomic_uint_fast64_t length; /* bytes of the log that a start reads */

    struct okv_wal_histogram batches, syncs; /* records of each, ns of each, since the start */

    pthread_rwlock_t batch_lock;           /* read: a change is made; write: the batch is closed */
    struct okv_wal_copies *copies;         /* on other servers; NULL: there are none */
    atomic_bool is_held;                   /* no change yet: the thread has not begun */
    bool is_direct;                        /* changes are published at once */
    atomic_bool is_throttled;              /* so much is staged that changes wait */
    uint64_t batch;                        /* number of the open one; under batch_lock */
    atomic_uint_fast64_t done;             /* number of the last one that ended */
    atomic_uint_fast64_t publish_seq;      /* odd while a batch is being published */
    atomic_int failure;                    /* 0, or why the log failed */
    atomic_uint_fast64_t unknown;          /* number of the last batch that was dropped; 0: none */
    bool is_stopped;                       /* and the batch is closed permanently */
    atomic_uint_fast64_t waits_since_ns;   /* of the oldest change that waits for the disk, while
                                              the log's thread writes; 0: it does not */
    atomic_uint_fast64_t step_ns;          /* where there are copies: when the log's thread began
                                              what it does; 0: it waits */
    struct okv_wal_batch writing;          /* of the log's thread */
    atomic_uint_fast64_t written_unsynced; /* bytes of records taken so far that are not durable */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t wanted;
    bool is_wanted;     /* a batch is to be ended */
    uint64_t requested; /* number of a self-contained snapshot that somebody waits for; 0: none */
    uint64_t scheduled; /* of the segment that was begun, or is about to be */
    bool has_to_stop;
    uint64_t awaited;        /* number of the last batch that an answer waits for */
    uint64_t unknown_before; /* bit i: the batch `unknown` - 1 - i was dropped, too */
    struct okv_wal_batch staged;
    uint64_t reserve_wanted; /* bytes that the open batch has no room for; the next one has */
    unsigned records_before; /* in the last batch */
    uint64_t sync_ns;        /* mean time of a sync, about */
    pthread_t thread;

    void (*progress)(void *user, uint64_t bytes); /* as in okv_wal_recovery, during recovery */
    void *progress_user;

    void (*notify)(void *user); /* as in okv_wal_params */
    void *user;

    void (*report)(void *user, enum okv_wal_event event, const char *why); /* or NULL */
    void *report_user;
    uint64_t snapshots_failed; /* that were reported */
    struct okv_diag why;       /* of the log's thread: what its last failed call said */
};

#endif
