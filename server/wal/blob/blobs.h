/*
 * Blobs: long values of log and snapshots, each in a file of its own (docs/durability-format.md).
 * Written with the log they would hold up the batches beside them.
 *
 *   queued       waits for the thread, which writes one blob at a time
 *   writing      the thread reads its bytes
 *   stored       its file is durable, and no record refers to it
 *   referenced   a record of the log or of a snapshot does, or that of the next snapshot may
 *   obsolete     no record refers to its file any more, which is to be removed
 *
 * The caller of okv_blob_write() references or releases the blob later. When a snapshot is durable,
 * files from before its moment are removed unless they have one of its items: the snapshot refers
 * to those itself, or the next one may.
 */
#ifndef OKV_SERVER_WAL_BLOB_BLOBS_H
#define OKV_SERVER_WAL_BLOB_BLOBS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "server/store/long_value.h"
#include "server/wal/file.h"
#include "server/wal/format.h"

/* A file costs about four syncs more than a record. But the worker copies a record in one step
 * (core/turn.h). */
#define OKV_BLOB_MIN (UINT64_C(256) << 10)

/* Numbers of files are an epoch and a count of this many bits. So two primaries never give the
 * same.
 */
#define OKV_BLOB_COUNT_BITS 40

/* Lists of the index, each for some hashes of keys. */
#define OKV_BLOB_CHAINS 1024u

struct okv_blob;
TAILQ_HEAD(okv_blob_list, okv_blob);
LIST_HEAD(okv_blob_chain, okv_blob);

struct okv_blobs {
    struct okv_files *files;
    struct okv_store *store;
    uint64_t min_length;         /* of a value that gets a file */
    atomic_uint_fast64_t bytes;  /* of those that are referenced */
    atomic_uint_fast64_t logged; /* of all that ever were, since the start */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t wanted;
    struct okv_blob_list jobs; /* queued and obsolete */
    struct okv_blob_list others;
    struct okv_blob_chain chains[OKV_BLOB_CHAINS]; /* the index of referenced blobs */
    uint64_t last;                                 /* number of a file, or of none yet */
    bool has_to_stop;
    bool is_started;
    pthread_t thread;

    void (*written)(void *user, int rc, const char *why); /* as for okv_blobs_start() */
    void *user;
};

void okv_blobs_init(struct okv_blobs *blobs, struct okv_files *files);
void okv_blobs_fini(struct okv_blobs *blobs);

/* ---- at a start ---- */

/* Reads the value that a LONG refers to, and references its file. The caller frees *out. Any
 * thread. Fails like okv_blob_file_read(). */
int okv_blobs_recover(struct okv_blobs *blobs, const struct okv_wal_record *record, uint8_t **out,
                      struct okv_diag *diag);
/* The versions of all items are raised. */
void okv_blobs_raise_versions(struct okv_blobs *blobs, uint64_t by);
/* Removes files that no record refers to, and starts the thread, for files of this epoch. It calls
 * `written` when a blob is stored, or `rc` and `why` say why it is not. Fails like
 * okv_file_ops.list; OKV_ENOMEM. */
int okv_blobs_start(struct okv_blobs *blobs, struct okv_store *store, uint64_t epoch,
                    void (*written)(void *user, int rc, const char *why), void *user,
                    struct okv_diag *why);
/* Ends the thread. No blob is being stored. */
void okv_blobs_stop(struct okv_blobs *blobs);

/* ---- while it serves; any thread ---- */

/* Begins to write a value to a file, from an extent that does not change. NULL: no memory. */
struct okv_blob *okv_blob_write(struct okv_blobs *blobs, const uint8_t *bytes, uint64_t length);
/* 0: it is stored, and *out says where; OKV_EAGAIN: not yet; OKV_EDISKFULL. Another code: the log
 * has failed. */
int okv_blob_state(struct okv_blobs *blobs, const struct okv_blob *blob,
                   struct okv_store_copy *out);
/* A record refers to it, of this version of the item. The blob is not the caller's any more. */
void okv_blob_reference(struct okv_blobs *blobs, struct okv_blob *blob, const void *key,
                        uint32_t key_length, uint64_t version);
/* No record will refer to it. The blob is not the caller's any more, nor is its extent if the
 * thread still reads that: *extent is empty then. */
void okv_blob_release(struct okv_blobs *blobs, struct okv_blob *blob,
                      struct okv_store_long_value *extent);

/* A snapshot begins. The batch is closed. */
void okv_blobs_mark_old(struct okv_blobs *blobs);
/* The snapshot has this version of an item. If that has a file, it stays, and *out says where.
 * False: it has none. */
bool okv_blobs_find(struct okv_blobs *blobs, const void *key, uint32_t key_length, uint64_t version,
                    struct okv_wal_long *out);
/* After the snapshot is durable: removes files that predate it and that it does not need. */
void okv_blobs_remove_old(struct okv_blobs *blobs);

#endif
