/*
 * Long values of log and snapshots, each in a file of its own (docs/durability-format.md). Written
 * with the log they would hold up every batch beside them.
 *
 *   queued    waits for the thread, which writes one value at a time
 *   writing   the thread reads its bytes
 *   stored    its file is durable, and no record refers to it
 *   kept      a record of the log or of a snapshot does, or that of the next snapshot may
 *   unwanted  the file is to be removed: no record refers to it any more
 *
 * Whoever has a value stored then keeps or drops it. When a snapshot is durable, files of before
 * its moment go, except those of its items: it refers to them itself, or the next one may.
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
#include "shared/base/diag.h"

/* A file costs about four syncs more than a record, which is what writing so many bytes takes. */
#define OKV_VALUE_FILE_MIN (UINT64_C(1) << 20)
#define OKV_WAL_VALUE "value."

/* Of lists of kept values, each of the keys of one hash. */
#define OKV_VALUE_CHAINS 1024u

struct okv_value;
TAILQ_HEAD(okv_value_list, okv_value);
LIST_HEAD(okv_value_chain, okv_value);

struct okv_values {
    struct okv_files *files;
    struct okv_store *store;
    uint64_t least;              /* bytes of a value that gets a file */
    atomic_uint_fast64_t bytes;  /* of those that are kept */
    atomic_uint_fast64_t logged; /* of all that ever were, since the start */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t wanted;
    struct okv_value_list jobs; /* queued and unwanted */
    struct okv_value_list others;
    struct okv_value_chain chains[OKV_VALUE_CHAINS]; /* others that okv_values_find() knows */
    uint64_t last;                                   /* number of a file */
    bool has_to_stop;
    bool is_started;
    pthread_t thread;

    /* A value is stored, or `error`, a negative errno value, says why not; on the thread. */
    void (*stored)(void *user, int error);
    void *user;
};

void okv_values_init(struct okv_values *values, struct okv_files *files);
void okv_values_fini(struct okv_values *values);

/* ---- at a start ---- */

/* Reads the value that a LONG refers to, and keeps its file. The caller frees *out. Any thread.
 * OKV_ECORRUPT: it is not there, or not what was written; OKV_EIO, OKV_ENOMEM. */
int okv_values_recover(struct okv_values *values, const struct okv_wal_record *record,
                       uint8_t **out, struct okv_diag *diag);
/* The versions of all items are raised. */
void okv_values_raise(struct okv_values *values, uint64_t by);
/* Removes files that nothing refers to, and starts the thread. Returns 0 or a negative errno. */
int okv_values_start(struct okv_values *values, struct okv_store *store,
                     void (*stored)(void *user, int error), void *user);
/* Ends the thread. No value is being stored. */
void okv_values_stop(struct okv_values *values);

/* ---- while it serves; any thread ---- */

/* Has a value stored, which is in an extent that stays as it is. NULL: no memory. */
struct okv_value *okv_values_store(struct okv_values *values, const uint8_t *bytes,
                                   uint64_t length);
/* 0: it is stored, and *out says where; OKV_EAGAIN: not yet; OKV_EDISKFULL. Another code: the log
 * has failed. */
int okv_values_state(struct okv_values *values, const struct okv_value *value,
                     struct okv_store_copy *out);
/* A record refers to it, of this version of the item. */
void okv_values_keep(struct okv_values *values, struct okv_value *value, const void *key,
                     uint32_t key_length, uint64_t version);
/* No record will. Its extent goes with it if the thread still reads that: *extent is empty then. */
void okv_values_drop(struct okv_values *values, struct okv_value *value,
                     struct okv_store_long_value *extent);

/* A snapshot begins. The gate is closed. */
void okv_values_mark(struct okv_values *values);
/* It has this version of an item: the file of that stays, and *out says where. False: none is
 * there. */
bool okv_values_find(struct okv_values *values, const void *key, uint32_t key_length,
                     uint64_t version, struct okv_wal_long *out);
/* It is durable. What was kept when it began, but for what was found for it, goes. */
void okv_values_sweep(struct okv_values *values);

/* ---- without a server ---- */

/* Whether a file is what was written. OKV_ECORRUPT: it is not, or cannot be read; OKV_ENOMEM. */
int okv_values_check(struct okv_files *files, const struct okv_wal_long *at, struct okv_diag *diag);
/* Copies a file that is to another directory, and makes it durable but for its name. One that is
 * there already is that copy. OKV_ECORRUPT: as above; OKV_EIO: it cannot be written; OKV_ENOMEM. */
int okv_values_copy(struct okv_files *from, struct okv_files *to, const struct okv_wal_long *at,
                    struct okv_diag *diag);

#endif
