#include "server/wal/blob/blobs.h"

#include <stdlib.h>
#include <string.h>

#include "server/store/state.h"
#include "server/wal/background.h"
#include "server/wal/blob/files.h"
#include "server/wal/listing.h"
#include "shared/base/error.h"
#include "shared/base/thread.h"
#include "shared/format/hash.h"

enum state { QUEUED, WRITING, STORED, REFERENCED, OBSOLETE };

struct okv_blob {
    TAILQ_ENTRY(okv_blob) in_list;
    LIST_ENTRY(okv_blob) in_chain;
    enum state state;
    uint8_t *key; /* of the item whose record refers to it; NULL: it is in no chain */
    uint32_t key_length;
    uint64_t version;
    struct okv_wal_long at; /* the checksum is known when it is stored */
    const uint8_t *bytes;
    int rc;                             /* why it is not stored */
    bool is_released;                   /* while it was written */
    bool is_old;                        /* the snapshot that is being made makes it obsolete */
    struct okv_store_long_value extent; /* of one that was released */
};

void okv_blobs_init(struct okv_blobs *blobs, struct okv_files *files)
{
    *blobs = (struct okv_blobs){.files = files, .min_length = OKV_BLOB_MIN};
    pthread_mutex_init(&blobs->lock, NULL);
    pthread_cond_init(&blobs->wanted, NULL);
    TAILQ_INIT(&blobs->jobs);
    TAILQ_INIT(&blobs->others);
}

static void free_all(struct okv_blob_list *list)
{
    struct okv_blob *blob;

    while ((blob = TAILQ_FIRST(list))) {
        TAILQ_REMOVE(list, blob, in_list);
        free(blob->key);
        free(blob);
    }
}

void okv_blobs_fini(struct okv_blobs *blobs)
{
    free_all(&blobs->jobs);
    free_all(&blobs->others);
    pthread_cond_destroy(&blobs->wanted);
    pthread_mutex_destroy(&blobs->lock);
}

/* ---- the index of referenced blobs; under the lock ---- */

static struct okv_blob_chain *chain_of(struct okv_blobs *blobs, const void *key,
                                       uint32_t key_length)
{
    return &blobs->chains[okv_hash_key(key, key_length, 0) % OKV_BLOB_CHAINS];
}

static struct okv_blob *find(struct okv_blobs *blobs, const void *key, uint32_t key_length,
                             uint64_t version)
{
    struct okv_blob *blob;

    LIST_FOREACH(blob, chain_of(blobs, key, key_length), in_chain)
    {
        if (blob->version == version && blob->key_length == key_length &&
            memcmp(blob->key, key, key_length) == 0)
            return blob;
    }
    return NULL;
}

/* False: no memory for the key. */
static bool reference(struct okv_blobs *blobs, struct okv_blob *blob, const void *key,
                      uint32_t key_length, uint64_t version)
{
    blob->state = REFERENCED;
    blob->key = malloc(key_length);
    if (blob->key) {
        memcpy(blob->key, key, key_length);
        blob->key_length = key_length;
        blob->version = version;
        LIST_INSERT_HEAD(chain_of(blobs, key, key_length), blob, in_chain);
    }
    atomic_fetch_add(&blobs->bytes, blob->at.length);
    atomic_fetch_add(&blobs->logged, blob->at.length);
    return blob->key != NULL;
}

static void forget(struct okv_blob *blob)
{
    if (blob->key)
        LIST_REMOVE(blob, in_chain);
    free(blob->key);
    blob->key = NULL;
}

/* ---- at a start ---- */

static struct okv_blob *add(struct okv_blob_list *list, const struct okv_wal_long *at)
{
    struct okv_blob *blob = calloc(1, sizeof *blob);

    if (!blob)
        return NULL;
    blob->at = *at;
    TAILQ_INSERT_TAIL(list, blob, in_list);
    return blob;
}

/* Once, although a bucket that did not fit is read again. */
static int reference_recovered(struct okv_blobs *blobs, const struct okv_wal_record *record,
                               const struct okv_wal_long *at)
{
    if (find(blobs, record->key, record->key_length, record->version))
        return 0;
    struct okv_blob *blob = add(&blobs->others, at);
    if (!blob || !reference(blobs, blob, record->key, record->key_length, record->version))
        return OKV_ENOMEM;
    return 0;
}

int okv_blobs_recover(struct okv_blobs *blobs, const struct okv_wal_record *record, uint8_t **out,
                      struct okv_diag *diag)
{
    struct okv_wal_long at;
    uint8_t *bytes;

    okv_wal_long_decode(record->value, &at);
    int rc = okv_blob_file_read(blobs->files, &at, &bytes, diag);
    if (rc)
        return rc;
    pthread_mutex_lock(&blobs->lock);
    rc = reference_recovered(blobs, record, &at);
    pthread_mutex_unlock(&blobs->lock);
    if (rc) {
        free(bytes);
        return okv_diag_set(diag, rc, "no memory to keep the files of long values");
    }
    *out = bytes;
    return 0;
}

void okv_blobs_raise_versions(struct okv_blobs *blobs, uint64_t by)
{
    struct okv_blob *blob;

    TAILQ_FOREACH(blob, &blobs->others, in_list)
    {
        blob->version += by;
    }
}

/* Numbers of files that records refer to, in ascending order. */
struct removal {
    struct okv_blobs *blobs;
    uint64_t *kept;
    size_t count;
    struct okv_diag *why;
};

static int compare(const void *first, const void *second)
{
    const uint64_t *a = first, *b = second;

    return *a < *b ? -1 : *a > *b;
}

static int removal_init(struct removal *removal, struct okv_blobs *blobs, struct okv_diag *why)
{
    const struct okv_blob *blob;
    size_t count = 0;

    TAILQ_FOREACH(blob, &blobs->others, in_list)
    {
        count++;
    }
    *removal = (struct removal){.blobs = blobs, .why = why};
    removal->kept = malloc((count + 1) * sizeof *removal->kept);
    if (!removal->kept)
        return okv_diag_set(why, OKV_ENOMEM, "%s", okv_error_text(OKV_ENOMEM));
    TAILQ_FOREACH(blob, &blobs->others, in_list)
    {
        removal->kept[removal->count++] = blob->at.number;
    }
    qsort(removal->kept, removal->count, sizeof *removal->kept, compare);
    return 0;
}

/* New numbers are above all that there are of their epoch. */
static int remove_unless_kept(const char *name, void *user)
{
    const struct removal *removal = user;
    struct okv_blobs *blobs = removal->blobs;
    uint64_t number = okv_wal_number(OKV_WAL_BLOB, name);
    bool is_of_epoch = number >> OKV_BLOB_COUNT_BITS == blobs->last >> OKV_BLOB_COUNT_BITS;

    if (is_of_epoch && number > blobs->last)
        blobs->last = number;
    if (number == 0 ||
        bsearch(&number, removal->kept, removal->count, sizeof *removal->kept, compare))
        return 0;
    return blobs->files->ops->remove(blobs->files, name, removal->why);
}

/* ---- the thread ---- */

/* Under the lock. */
static void make_obsolete(struct okv_blobs *blobs, struct okv_blob *blob)
{
    TAILQ_REMOVE(blob->state == QUEUED ? &blobs->jobs : &blobs->others, blob, in_list);
    TAILQ_INSERT_TAIL(&blobs->jobs, blob, in_list);
    forget(blob);
    blob->state = OBSOLETE;
    pthread_cond_signal(&blobs->wanted);
}

/* Under the lock, which it releases meanwhile. */
static void write_one(struct okv_blobs *blobs, struct okv_blob *blob)
{
    struct okv_diag why;

    blob->state = WRITING;
    TAILQ_INSERT_TAIL(&blobs->others, blob, in_list);
    pthread_mutex_unlock(&blobs->lock);
    uint64_t checksum = okv_hash_checksum(blob->bytes, blob->at.length, 0);
    int rc = okv_blob_file_write(blobs->files, blob->at.number, blob->bytes, blob->at.length, &why);
    if (rc == 0)
        rc = blobs->files->ops->sync_names(blobs->files, &why);
    pthread_mutex_lock(&blobs->lock);
    blob->at.checksum = checksum;
    blob->rc = rc;
    blob->state = STORED;
    if (blob->is_released) {
        okv_store_long_release(blobs->store, &blob->extent);
        make_obsolete(blobs, blob);
    }
    pthread_mutex_unlock(&blobs->lock);
    blobs->written(blobs->user, rc, why.text);
    pthread_mutex_lock(&blobs->lock);
}

/* Likewise. */
static void remove_one(struct okv_blobs *blobs, struct okv_blob *blob)
{
    pthread_mutex_unlock(&blobs->lock);
    okv_blob_file_remove(blobs->files, blob->at.number);
    free(blob);
    pthread_mutex_lock(&blobs->lock);
}

static void *run(void *user)
{
    struct okv_blobs *blobs = user;
    struct okv_blob *blob;

    okv_background_begin();
    pthread_mutex_lock(&blobs->lock);
    while (!blobs->has_to_stop) {
        blob = TAILQ_FIRST(&blobs->jobs);
        if (!blob) {
            pthread_cond_wait(&blobs->wanted, &blobs->lock);
            continue;
        }
        TAILQ_REMOVE(&blobs->jobs, blob, in_list);
        if (blob->state == QUEUED)
            write_one(blobs, blob);
        else
            remove_one(blobs, blob);
    }
    pthread_mutex_unlock(&blobs->lock);
    return NULL;
}

int okv_blobs_start(struct okv_blobs *blobs, struct okv_store *store, uint64_t epoch,
                    void (*written)(void *user, int rc, const char *why), void *user,
                    struct okv_diag *why)
{
    struct removal removal;

    blobs->store = store;
    blobs->last = epoch << OKV_BLOB_COUNT_BITS;
    blobs->written = written;
    blobs->user = user;
    int rc = removal_init(&removal, blobs, why);
    if (rc == 0)
        rc = blobs->files->ops->list(blobs->files, remove_unless_kept, &removal, why);
    free(removal.kept);
    if (rc)
        return rc;
    rc = okv_thread_start(&blobs->thread, run, blobs, why);
    blobs->is_started = rc == 0;
    return rc;
}

void okv_blobs_stop(struct okv_blobs *blobs)
{
    if (!blobs->is_started)
        return;
    pthread_mutex_lock(&blobs->lock);
    blobs->has_to_stop = true;
    pthread_cond_signal(&blobs->wanted);
    pthread_mutex_unlock(&blobs->lock);
    pthread_join(blobs->thread, NULL);
}

/* ---- while it serves ---- */

struct okv_blob *okv_blob_write(struct okv_blobs *blobs, const uint8_t *bytes, uint64_t length)
{
    struct okv_wal_long at = {.length = length};

    pthread_mutex_lock(&blobs->lock);
    at.number = blobs->last + 1;
    struct okv_blob *blob = add(&blobs->jobs, &at);
    if (blob) {
        blobs->last++;
        blob->bytes = bytes;
        blob->state = QUEUED;
        pthread_cond_signal(&blobs->wanted);
    }
    pthread_mutex_unlock(&blobs->lock);
    return blob;
}

int okv_blob_state(struct okv_blobs *blobs, const struct okv_blob *blob, struct okv_store_copy *out)
{
    pthread_mutex_lock(&blobs->lock);
    int rc = blob->state == STORED ? blob->rc : OKV_EAGAIN;
    *out = (struct okv_store_copy){blob->at.number, blob->at.checksum};
    pthread_mutex_unlock(&blobs->lock);
    return rc;
}

void okv_blob_reference(struct okv_blobs *blobs, struct okv_blob *blob, const void *key,
                        uint32_t key_length, uint64_t version)
{
    pthread_mutex_lock(&blobs->lock);
    /* Without memory no snapshot finds it: each has the value itself. */
    (void)reference(blobs, blob, key, key_length, version);
    pthread_mutex_unlock(&blobs->lock);
}

void okv_blob_release(struct okv_blobs *blobs, struct okv_blob *blob,
                      struct okv_store_long_value *extent)
{
    pthread_mutex_lock(&blobs->lock);
    if (blob->state == WRITING) {
        /* What it pins was copied, and a pin is in a list: it cannot move with the rest. */
        okv_heap_unpin(&blobs->store->heap, &extent->source);
        blob->is_released = true;
        blob->extent = *extent;
        *extent = (struct okv_store_long_value){.extent = 0};
    } else {
        make_obsolete(blobs, blob);
    }
    pthread_mutex_unlock(&blobs->lock);
}

/* ---- snapshots ---- */

void okv_blobs_mark_old(struct okv_blobs *blobs)
{
    pthread_mutex_lock(&blobs->lock);
    struct okv_blob *blob = TAILQ_FIRST(&blobs->others);
    for (; blob; blob = TAILQ_NEXT(blob, in_list))
        blob->is_old = blob->state == REFERENCED;
    pthread_mutex_unlock(&blobs->lock);
}

bool okv_blobs_find(struct okv_blobs *blobs, const void *key, uint32_t key_length, uint64_t version,
                    struct okv_wal_long *out)
{
    pthread_mutex_lock(&blobs->lock);
    struct okv_blob *blob = find(blobs, key, key_length, version);
    if (blob) {
        blob->is_old = false;
        *out = blob->at;
    }
    pthread_mutex_unlock(&blobs->lock);
    return blob != NULL;
}

void okv_blobs_remove_old(struct okv_blobs *blobs)
{
    struct okv_blob *blob, *next;

    pthread_mutex_lock(&blobs->lock);
    for (blob = TAILQ_FIRST(&blobs->others); blob; blob = next) {
        next = TAILQ_NEXT(blob, in_list);
        if (!blob->is_old)
            continue;
        atomic_fetch_sub(&blobs->bytes, blob->at.length);
        make_obsolete(blobs, blob);
    }
    pthread_mutex_unlock(&blobs->lock);
}
