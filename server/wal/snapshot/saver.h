/*
 * A snapshot: all items as they were between two batches, in a file of its own. With it, a start
 * needs only the segments of the log that begin there.
 *
 * It is of one moment, though it is written while changes are made. A bucket is saved when its turn
 * comes, or before its first change is published, whichever is earlier.
 *
 *   Where changes wait for the log, published images change only between okv_snapshot_lock() and
 *   okv_snapshot_unlock(), by the log's thread. So the snapshot's thread reads them between two
 *   publications, while the log's thread waits for the disk.
 *
 *   Where each change is published at once, its thread calls okv_snapshot_before_change() first.
 *   No image of a bucket that is not saved changes, so the holder of the lock can read it.
 *
 * Buckets are those of the table as it was at the snapshot's moment. One of them may be split or
 * merged before it is saved: its items are then in other buckets, which the hash tells.
 *
 * Saved records wait in chunks, each a frame of the file, until the thread has written them. Values
 * that have a blob file stay there, unless the snapshot is to be self-contained.
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

/* Above this many bytes in chunks that wait or are being written, new batches wait; above twice
 * this, changes already begun wait. */
#define OKV_SNAPSHOT_WAITING_MAX (UINT64_C(8) << 20)

struct okv_snapshot {
    struct okv_files *files;
    struct okv_store *store;
    struct okv_blobs *blobs;        /* whose files it replaces or refers to; NULL: none */
    struct okv_store_bucket bucket; /* that is being read */
    pthread_t thread;

    atomic_bool is_wanted;    /* the log's thread waits for the lock */
    atomic_bool is_throttled; /* so much is to be written that direct changes wait */
    pthread_mutex_t lock;     /* of what follows */
    pthread_cond_t changed;
    atomic_bool is_active; /* changes under the lock */
    bool has_to_stop;
    bool is_last;           /* no batch follows; set before it begins */
    bool is_self_contained; /* it refers to no other file; likewise */
    int failure;            /* of the snapshot that is being made, or of the last one */
    struct okv_wal_header header;
    uint64_t clock_ms, wall_ms;
    atomic_uint_fast64_t *saved; /* a bit for each bucket; set under the lock */
    uint64_t next;               /* buckets below were saved */
    uint64_t items;
    struct okv_snapshot_buffer buffer; /* to be written */

    void (*notify)(void *user); /* as for okv_snapshot_init(); on the snapshot's thread */
    void *user;

    /* Of all so far. A number is that of the file. */
    atomic_uint_fast64_t made;              /* number of the newest; 0: there is none */
    atomic_uint_fast64_t self_contained;    /* of the newest that is; written before `made` */
    atomic_uint_fast64_t self_contained_ns; /* when it was made */
    atomic_uint_fast64_t ended; /* of the newest that was made or failed; written after `made` */
    atomic_uint_fast64_t completed, failed;
    atomic_uint_fast64_t last_bytes, last_ns, last_wall_ms; /* of the last one; its moment */
};

/* Begins a snapshot of the published state. header->number is that of a segment that begins at this
 * moment; all of the header but the bucket fields is the caller's. For the log's thread, with the
 * lock held, while no snapshot is being made. When it is complete, the files that it replaces are
 * removed. OKV_ENOMEM. */
int okv_snapshot_begin(struct okv_snapshot *snapshot, const struct okv_wal_header *header);
/* Adds a record that belongs to no bucket to `snapshot`, a struct okv_snapshot. With the lock. */
void okv_snapshot_add(void *snapshot, const struct okv_wal_record *record);
/* Saves bucket `number` of the table of the snapshot's moment, unless it is saved. With the lock.
 */
void okv_snapshot_save_bucket(struct okv_snapshot *snapshot, uint64_t number);
/* Whether a snapshot is being made. Any thread. */
bool okv_snapshot_is_active(struct okv_snapshot *snapshot);
/* The snapshot of this number was made or has failed; a later one may have already. */
void okv_snapshot_note_end(struct okv_snapshot *snapshot, uint64_t number);
/* Waits until no snapshot is being made. Returns 0, or why the last one failed. Any thread. */
int okv_snapshot_await(struct okv_snapshot *snapshot);

/* Saves a bucket of the current table before its images are published at once, or before it is
 * merged. A bucket that is not in the table yet has nothing to save. The caller has locked it. */
void okv_snapshot_before_change(struct okv_snapshot *snapshot, uint64_t number);
/* The same with the lock, which it may leave while chunks are written. `snapshot` is a struct
 * okv_snapshot. */
void okv_snapshot_before_publication(void *snapshot, uint64_t number);
/* Before images are published or buckets resized: takes the lock and saves those that are about to
 * change. May block until chunks were written. */
void okv_snapshot_lock(struct okv_snapshot *snapshot);
void okv_snapshot_unlock(struct okv_snapshot *snapshot);

#endif
