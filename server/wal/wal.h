/*
 * The write-ahead log of a durable database (docs/durability.md).
 *
 * Writes are committed in batches, one at a time. While a batch is open, workers begin and end
 * changes; the images of these changes wait in the store, their records in the log. The log's
 * thread closes the batch, writes the records as one frame, syncs, publishes the images, and opens
 * the next batch. Then the batch is committed, and its writes are answered.
 *
 * A log may also sync at intervals (okv_wal_params.sync_within_ns). A change is then published at
 * once, and its record waits until the log's thread writes it. A batch is closed only while the
 * thread takes its records.
 *
 * After a failed write or sync the contents of the disk are unknown. The log stays failed: the
 * images of that batch are dropped, its writes have an unknown outcome, and later ones are refused.
 * A full disk is no failure: writes are refused until there is space (preallocate.h).
 */
#ifndef OKV_SERVER_WAL_WAL_H
#define OKV_SERVER_WAL_WAL_H

#include <stdbool.h>
#include <stdint.h>

struct okv_blobs;
struct okv_diag;
struct okv_files;
struct okv_wal;
struct okv_wal_histogram;
struct okv_wal_record;

/* No sync is ever due. */
#define OKV_WAL_NEVER UINT64_MAX

/* What the server remembers of its clients: records of kinds CLIENT, REPLY and FORGOTTEN. */
struct okv_wal_clients {
    /* A snapshot begins: emits all. No change is under way. */
    void (*save)(void *user, void (*emit)(void *to, const struct okv_wal_record *record), void *to);
    /* During recovery: remembers one. A REPLY may come before its CLIENT. Any thread. OKV_ENOMEM.
     */
    int (*recover)(void *user, const struct okv_wal_record *record);
    void *user;
};

struct okv_wal_params {
    double snapshot_ratio;      /* log length / data size that triggers a snapshot; 0: never */
    uint64_t sync_within_ns;    /* longest time from a change to its sync; 0: a change is answered
                                   after its sync; OKV_WAL_NEVER */
    uint64_t epoch;             /* of the frames to come, unless the log has a higher one */
    void (*notify)(void *user); /* a batch is committed or opened; on the log's thread */
    void *user;
};

/* Events that the operator has to know about. */
enum okv_wal_event {
    OKV_WAL_FAILED,        /* permanently: a write, a sync, or another call for a segment failed */
    OKV_WAL_DISK_FULL,     /* writes are refused */
    OKV_WAL_DISK_HAS_ROOM, /* writes are accepted again */
    OKV_WAL_SNAPSHOT_FAILED, /* the log continues without it */
};

struct okv_wal_stats {
    uint64_t sync_within_ns; /* as in okv_wal_params */
    int failure;             /* 0, or the result code with which the log failed */
    bool is_disk_full;
    unsigned wanted_mib;     /* space that is missing while the disk is full */
    uint64_t unsynced_bytes; /* of records of changes that are made and not durable */
    uint64_t log_bytes;      /* of the log that the next start reads */
    uint64_t blob_bytes;     /* of blob files that records refer to */
    const struct okv_wal_histogram *batches; /* records of each batch since the start */
    const struct okv_wal_histogram *syncs;   /* nanoseconds of each sync since the start */
    uint64_t snapshots, snapshots_failed;    /* since the start */
    uint64_t snapshot_bytes, snapshot_ns, snapshot_wall_ms; /* of the newest; 0: there is none */
    bool is_snapshot_active;                                /* one is being made */
    bool has_snapshot_failed;                               /* the last one that has ended */
};

/* Allocates a log and reads the headers of its files. With `import`, the path of a snapshot, the
 * directory has no log: the file is copied, and gets its name in okv_wal_start(). `files` and
 * `import` are borrowed until okv_wal_close(). OKV_ECORRUPT, OKV_EVERSION, OKV_EIO, OKV_ENOMEM;
 * OKV_EEXISTS: there is a log, and `import` is given. Next: okv_wal_recover() (recovery/recover.h).
 */
int okv_wal_open(struct okv_wal **out, struct okv_files *files, const char *import,
                 struct okv_diag *diag);
/* The hash seed of the table in the log, or a random one for a new log. */
uint64_t okv_wal_hash_seed(const struct okv_wal *wal);
/* The number of the segment that is written; before okv_wal_start(), of the last one; 0: none. */
uint64_t okv_wal_segment_number(const struct okv_wal *wal);
/* `report` is called at each event, from okv_wal_start() on; any thread. `why` describes the
 * failure. `user` is borrowed until okv_wal_stop(). */
void okv_wal_set_report(struct okv_wal *wal,
                        void (*report)(void *user, enum okv_wal_event event, const char *why),
                        void *user);
/* After okv_wal_recover(): begins a segment and starts the log's threads. From here on changes of
 * the store need okv_wal_begin_change(). A snapshot is made when the log that it would replace is
 * `snapshot_ratio` times as long as the data, and by okv_wal_stop(); such snapshots refer to blob
 * files. With a ratio of 0 they are made on request only (snapshot/schedule.h). OKV_EIO,
 * OKV_EDISKFULL, OKV_ENOMEM. */
int okv_wal_start(struct okv_wal *wal, const struct okv_wal_params *params, struct okv_diag *diag);
/* Ends the last batch, makes a snapshot, ends the threads, and refuses changes. No change may be
 * under way. */
void okv_wal_stop(struct okv_wal *wal);
/* After stop, or after a failure of recover or start. Frees it. */
void okv_wal_close(struct okv_wal *wal);

/* Before a change. False: the batch is closed, or the disk takes too long; retry after `notify`.
 * Never blocks. Any thread. */
bool okv_wal_begin_change(struct okv_wal *wal);
void okv_wal_end_change(struct okv_wal *wal);
/* Whether okv_wal_begin_change() would succeed now. */
bool okv_wal_is_batch_open(struct okv_wal *wal);
/* During a change: asks the log to commit the batch soon. Returns its number, which the answer has
 * to wait for; 0: the answer need not wait. */
uint64_t okv_wal_request_commit(struct okv_wal *wal);
/* Whether the batch of this number is committed. If so, *status is 0, or OKV_EUNKNOWN: it failed,
 * and its writes may have happened. Any thread. */
bool okv_wal_is_committed(struct okv_wal *wal, uint64_t batch, int *status);
/* Sequence number of what is published: odd while a batch is being published. Any thread. */
uint64_t okv_wal_publish_seq(const struct okv_wal *wal);

/* 0, or the result code with which the log failed. Any thread. */
int okv_wal_failure(const struct okv_wal *wal);
/* Any thread. */
void okv_wal_get_stats(struct okv_wal *wal, struct okv_wal_stats *out);
/* False: it keeps nothing (null_files.h). Any thread. */
bool okv_wal_has_files(const struct okv_wal *wal);
/* Values of this length and more get a blob file (blob/blobs.h). */
uint64_t okv_wal_blob_min(const struct okv_wal *wal);
struct okv_blobs *okv_wal_blobs(struct okv_wal *wal);

#endif
