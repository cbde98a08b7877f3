/*
 * A snapshot: all items as they were between two batches, in a file of its own. Whoever has it
 * needs only the segments of the log that begin there.
 *
 * The state is that of one moment, though it is written while changes go on. A bucket is saved when
 * its turn comes, or before its first change is published, whichever is earlier.
 *
 *   Where changes wait for the log, published images change only between okv_snapshot_lock() and
 *   okv_snapshot_unlock(), by the log's thread. So the snapshot's thread reads them between two
 *   publications, while the log's thread waits for the disk.
 *
 *   Where each change is published at once, its thread calls okv_snapshot_before() first. No image
 *   of a bucket that is not saved changes, so whoever has the lock can read it.
 *
 * A bucket is one of the table as it was at the snapshot's moment. It may be split or merged before
 * it is saved: its items are then in other buckets, which the hash tells.
 *
 * What was saved waits in chunks, each a frame of the file, until the thread has written it. Long
 * values that have a file of their own stay there, unless the snapshot is to be whole.
 */
#ifndef OKV_SERVER_WAL_SNAPSHOT_SAVER_H
#define OKV_SERVER_WAL_SNAPSHOT_SAVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "server/store/state.h"
#include "server/wal/file.h"
#include "server/wal/format.h"
#include "server/wal/snapshot/buffer.h"

struct okv_snapshot {
    struct okv_files *files;
    struct okv_store *store;
    struct okv_values *values;      /* whose files it replaces or refers to; NULL: none */
    struct okv_store_bucket bucket; /* that is being read */
    pthread_t thread;

    atomic_bool is_wanted;  /* the log's thread waits for the lock */
    atomic_bool is_crowded; /* so much is to be written that direct changes wait */
    pthread_mutex_t lock;   /* of what follows */
    pthread_cond_t changed;
    atomic_bool is_active; /* changes under the lock */
    bool has_to_stop;
    bool is_last;  /* no batch comes any more; set before it begins */
    bool is_whole; /* it refers to no other file; likewise */
    int failure;   /* of the one that is made */
    struct okv_wal_header header;
    uint64_t clock_ms, wall_ms;
    atomic_uint_fast64_t
        *saved;    /* a bit for each bucket, also of the last one; set under the lock */
    uint64_t next; /* buckets below were saved */
    uint64_t items;
    struct okv_chunks chunks; /* to be written */

    void (*notify)(void *user); /* one has ended; on the snapshot's thread */
    void *user;

    /* Of all so far. A number is that of the file. */
    atomic_uint_fast64_t made;     /* number of the newest; 0: there is none */
    atomic_uint_fast64_t whole;    /* of the newest that is; written before `made` */
    atomic_uint_fast64_t whole_ns; /* when it was made */
    atomic_uint_fast64_t ended;    /* of the newest that ended, well or not; written after `made` */
    atomic_uint_fast64_t completed, failed;
    atomic_uint_fast64_t last_bytes, last_ns, last_wall_ms; /* of the last one; its moment */
};

/* Starts the thread. `files` and `store` are borrowed. `notify` is called when one has ended. The
 * caller sets `made`, `whole` and `ended` to what is true before the first. OKV_ENOMEM. */
int okv_snapshot_init(struct okv_snapshot *snapshot, struct okv_files *files,
                      struct okv_store *store, void (*notify)(void *user), void *user);
/* Lets one that is being made come to its end. */
void okv_snapshot_fini(struct okv_snapshot *snapshot);

/*
 * Begins one of the state that is published. header->number is that of a segment that begins at
 * this moment; the rest of the header but buckets is the caller's, too. The log's thread calls it,
 * with the lock held, and none is being made. When it is complete the files that it replaces are
 * removed. OKV_ENOMEM.
 */
int okv_snapshot_begin(struct okv_snapshot *snapshot, const struct okv_wal_header *header,
                       uint64_t wall_ms);
/* Adds a record that is of no bucket to `snapshot`, which the same thread has just begun. */
void okv_snapshot_add(void *snapshot, const struct okv_wal_record *record);
/* Whether one is being made. Any thread. */
bool okv_snapshot_is_active(struct okv_snapshot *snapshot);
/* The one of this number has ended, well or not; of a later one that may be so already. */
void okv_snapshot_note_end(struct okv_snapshot *snapshot, uint64_t number);
/* Waits until none is being made. Returns 0, or why the last one failed. Any thread. */
int okv_snapshot_await(struct okv_snapshot *snapshot);

/* Before the images of a bucket of the table of now are published at once, or it is merged: saves
 * it. One that is not in the table yet has nothing to save. The caller has locked it. */
void okv_snapshot_before(struct okv_snapshot *snapshot, uint64_t number);
/* Before images are published or buckets resized: saves those that are about to change. May block
 * until chunks were written. */
void okv_snapshot_lock(struct okv_snapshot *snapshot);
void okv_snapshot_unlock(struct okv_snapshot *snapshot);

#endif
