/*
 * The write-ahead log of a durable database (docs/durability.md).
 *
 * Writes come in batches, one at a time. While a batch is collected the gate is open: workers
 * enter, make changes, whose images wait in the store and whose records wait here, and leave. The
 * log's thread closes the gate, writes the records as one frame, syncs, publishes the images, and
 * opens the gate for the next batch. Then the batch is done, and its writes are answered.
 *
 * A log may also sync now and then only (okv_wal_params.sync_within_ns). Then a change is published
 * at once, and its record waits here until the log's thread writes it. The gate is closed for a
 * moment, while the thread takes what was collected.
 *
 * After a failed write or sync nobody knows what the disk has. The log stays failed: images of that
 * batch are dropped, its writes have an unknown outcome, and later ones are refused. A disk that is
 * full is no failure: writes are refused until there is space (preallocate.h).
 */
#ifndef OKV_SERVER_WAL_WAL_H
#define OKV_SERVER_WAL_WAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "server/store/pending.h"
#include "server/wal/blob/blobs.h"
#include "server/wal/file.h"
#include "server/wal/format.h"
#include "server/wal/histogram.h"
#include "server/wal/preallocate.h"
#include "server/wal/snapshot/saver.h"
#include "shared/base/diag.h"

/* The records of a batch have at most so many bytes, but for one record, for those of items that
 * go, and for those of one command of several keys (okv_wal_promise). */
#define OKV_WAL_BATCH_BYTES (UINT64_C(8) << 20)

/* Bytes of a batch that are left to the records of replies. */
#define OKV_WAL_REPLIES_BYTES (UINT64_C(1) << 16)

/* No sync is due at any time. */
#define OKV_WAL_NEVER UINT64_MAX

struct okv_wal_params {
    double snapshot_ratio;   /* of the log to the data, at which a snapshot is made; 0: never */
    uint64_t sync_within_ns; /* so long a change may wait for its sync; 0: its answer waits for it;
                                OKV_WAL_NEVER */
    void (*notify)(void *user); /* a batch has ended, or the gate is open; on the log's thread */
    void *user;
};

/* Records, behind room for the header of their frame. */
struct okv_wal_batch {
    uint8_t *bytes;
    uint64_t used, capacity;
    uint64_t promised; /* bytes of records that are to come, and that nobody else may take */
    unsigned records;  /* of changes */
    uint64_t since_ns; /* of the first, when the log does not sync each batch */
    bool lacks_reply;  /* there was no memory for the record of a reply */
};

/* What the server remembers of its clients: records of kinds CLIENT, REPLY and FORGOTTEN. */
struct okv_wal_clients {
    /* A snapshot begins: emits all. No change is under way. */
    void (*save)(void *user, void (*emit)(void *to, const struct okv_wal_record *record), void *to);
    /* At a start: remembers one. A REPLY may come before its CLIENT. Any thread. OKV_ENOMEM. */
    int (*recover)(void *user, const struct okv_wal_record *record);
    void *user;
};

/* Events that the operator has to know about. */
enum okv_wal_event {
    OKV_WAL_FAILED,          /* for good: a write, a sync, a call for a segment */
    OKV_WAL_DISK_FULL,       /* writes are refused */
    OKV_WAL_DISK_HAS_ROOM,   /* and are taken again */
    OKV_WAL_SNAPSHOT_FAILED, /* the log goes on without */
};

struct okv_wal {
    struct okv_files *files;
    struct okv_store *store;
    const struct okv_wal_clients *clients; /* set before a replay, or NULL */
    struct okv_store_work work;            /* of the log's thread */
    struct okv_wal_header segment;         /* that is written */
    struct okv_wal_header loaded;          /* the snapshot that the start found; number 0: none */
    uint64_t whole;                        /* its number; 0 if it refers to files of long values */
    const char *restored; /* the file that it was copied from, while it has no name here;
                             borrowed; NULL: none */
    struct okv_file *file;
    struct okv_wal_room room; /* of the file */
    uint64_t position;        /* of the next frame */
    uint64_t durable;         /* the log is, below this position */
    uint64_t oldest_ns;       /* of the records that are not; 0: all are */
    bool has_to_raise;        /* the segment that begins says that versions were raised */
    struct okv_snapshot snapshot;
    struct okv_values values;
    double snapshot_ratio;       /* as in okv_wal_params */
    uint64_t sync_within_ns;     /* likewise */
    uint64_t snapshot_begun;     /* position at which the last one began */
    uint64_t snapshot_tried;     /* or was tried */
    uint64_t values_tried;       /* values.logged then */
    atomic_uint_fast64_t length; /* bytes of the log that a start reads */

    struct okv_wal_histogram batches, syncs; /* records of each, ns of each, since the start */

    pthread_rwlock_t gate;        /* for reading: a change is made; for writing: a batch is ended */
    bool is_direct;               /* changes are published at once */
    atomic_bool is_crowded;       /* so much is collected that changes wait */
    uint64_t batch;               /* that is collected; under the gate */
    atomic_uint_fast64_t done;    /* the last batch that ended */
    atomic_uint_fast64_t moments; /* of what is published: odd while a batch is being published */
    atomic_int failure;           /* 0, or why the log failed */
    atomic_uint_fast64_t unknown; /* the batch in which it did; 0: none */
    bool is_stopped;              /* and the gate closed for good */
    atomic_uint_fast64_t waits_since_ns; /* of the oldest change that waits for the disk, while the
                                            log's thread is there; 0: it is not */
    struct okv_wal_batch taken;          /* of the log's thread */
    atomic_uint_fast64_t taken_unsynced; /* bytes of records that were taken, and are not durable */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t wanted;
    bool is_wanted;   /* a batch is to be ended */
    uint64_t wished;  /* number of a whole snapshot that somebody waits for; 0: nobody does */
    uint64_t granted; /* of the segment that was begun, or is about to be */
    bool has_to_stop;
    struct okv_wal_batch collected;
    uint64_t begun; /* bytes of the record that is being made */
    bool is_part;   /* as okv_store_record has it */
    uint64_t asked; /* bytes of a promise that the batch has no room for: the next one has */
    unsigned records_before; /* in the last batch */
    uint64_t sync_ns;        /* what a sync takes, about */
    pthread_t thread;

    /* What okv_wal_replay() calls at each frame, by one thread at a time, with the bytes of frames
     * so far. NULL: nothing. */
    void (*has_read)(void *user, uint64_t bytes);
    void *has_read_user;

    void (*notify)(void *user); /* as in okv_wal_params */
    void *user;

    /* Called at each event, from okv_wal_start() on. `error` is a negative errno value of what
     * failed, or of a snapshot a result code. NULL: nothing. */
    void (*report)(void *user, enum okv_wal_event event, int error);
    void *report_user;
    uint64_t snapshots_failed; /* of which was reported */
};

/* What a start found. */
struct okv_wal_found {
    uint64_t snapshot, snapshot_items; /* number; 0: there is none */
    uint64_t snapshot_wall_ms;         /* of its moment */
    uint64_t items;                    /* in the end */
    uint64_t segments, frames, records, bytes;
    bool is_cut;                /* the last batch was not whole */
    bool is_unclean;            /* answered changes may be lost, and versions were raised */
    uint64_t clock_ms, wall_ms; /* of the last frame; 0: there is none */
};

/* Reads the headers of the segments in a directory. Sets wal->segment: hash_seed and database_id
 * are those of the table that is there, or random ones if there is none. With `restore`, the path
 * of a snapshot, the table is what that holds: it is copied, and has no name here before
 * okv_wal_start(). `files` and `restore` are borrowed until okv_wal_close(). OKV_ECORRUPT,
 * OKV_EVERSION, OKV_EIO, OKV_ENOMEM; OKV_EEXISTS: there is a log, and no room for `restore`. */
int okv_wal_open(struct okv_wal *wal, struct okv_files *files, const char *restore,
                 struct okv_diag *diag);
/* Makes in the store, which is empty and has no readers, all changes that are in the log. A frame
 * at the end that is not whole is left out. OKV_ECORRUPT: there is damage elsewhere; OKV_EFULL: the
 * region is too small; OKV_EIO, OKV_ENOMEM. */
int okv_wal_replay(struct okv_wal *wal, struct okv_store *store, struct okv_wal_found *found,
                   struct okv_diag *diag);
/* Begins a segment and starts the log's threads. From here on the store's changes need the gate.
 * Snapshots are made when the log that they would replace is `snapshot_ratio` times as long as the
 * data, and by okv_wal_stop(); these refer to files of long values. With a ratio of 0 only
 * okv_wal_snapshot() makes them. OKV_EIO, OKV_ENOMEM. */
int okv_wal_start(struct okv_wal *wal, const struct okv_wal_params *params, struct okv_diag *diag);
/* Has a snapshot begin soon, after one that is being made. It has all that was answered before,
 * long values included, so it needs no other file. Returns the number of its file. Any thread. */
uint64_t okv_wal_snapshot(struct okv_wal *wal);
/* How the snapshot of this number fares. 0: it is made, and *newest is its number, or that of a
 * later one that somebody asked for, which replaced it; OKV_ECONFLICT: one replaced it that nobody
 * asked for, more than 10 s later or at a stop; OKV_EAGAIN: it is not made yet; OKV_ENOTFOUND: it
 * failed, or the log did. Any thread. */
int okv_wal_snapshot_state(struct okv_wal *wal, uint64_t number, uint64_t *newest);
/* Ends the last batch, makes a snapshot, ends the threads, and closes the gate. No change may be
 * under way. */
void okv_wal_stop(struct okv_wal *wal);
/* After stop, or when replay or start failed. */
void okv_wal_close(struct okv_wal *wal);

/* The number of the moment that the published items are of; odd: of two at once, since a batch is
 * being published. Any thread. */
static inline uint64_t okv_wal_moment(struct okv_wal *wal)
{
    return atomic_load(&wal->moments);
}

/* Before a change. False: a batch is being ended, or the disk takes too long; try again after
 * `notify`. Never blocks. */
bool okv_wal_enter(struct okv_wal *wal);
void okv_wal_leave(struct okv_wal *wal);
/* Whether okv_wal_enter() would let the caller in at the moment. */
bool okv_wal_is_open(struct okv_wal *wal);
/* Between enter and leave: the batch that the answer has to wait for; 0: none. */
uint64_t okv_wal_hold(struct okv_wal *wal);
/* Between enter and leave, for one caller at a time: reserves `bytes` bytes of the batch for the
 * records of parts of a change (okv_store_write.is_part), whatever others add meanwhile. The caller
 * ends the promise before it leaves. OKV_EAGAIN: there is no room for them behind what the batch
 * has already; OKV_EVALUESIZE: they fit no batch. */
int okv_wal_promise(struct okv_wal *wal, uint64_t bytes);
void okv_wal_promise_end(struct okv_wal *wal);
/* The most bytes that can be promised. */
uint64_t okv_wal_promise_max(const struct okv_wal *wal);
/* Between enter and leave: adds a REPLY to the batch, and first its CLIENT unless *knows_client,
 * which the log's lock guards. Without memory the batch fails. */
void okv_wal_add_reply(struct okv_wal *wal, const struct okv_wal_record *client, bool *knows_client,
                       const struct okv_wal_record *reply);
/* Bytes of records of changes that were made and are not durable. Any thread. */
uint64_t okv_wal_unsynced(struct okv_wal *wal);
/* Whether a batch has ended. If so, *status is 0, or OKV_EUNKNOWN: its writes may have happened. */
bool okv_wal_is_done(struct okv_wal *wal, uint64_t batch, int *status);

#endif
