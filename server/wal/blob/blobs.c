#include "server/wal/blob/blobs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/state.h"
#include "server/wal/background.h"
#include "server/wal/listing.h"
#include "server/wal/preallocate.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"

enum state { QUEUED, WRITING, STORED, KEPT, UNWANTED };

struct okv_value {
    TAILQ_ENTRY(okv_value) in_list;
    LIST_ENTRY(okv_value) in_chain;
    enum state state;
    uint8_t *key; /* of the item; NULL: it is in no chain */
    uint32_t key_length;
    uint64_t version;
    struct okv_wal_long at; /* the checksum is known when it is stored */
    const uint8_t *bytes;
    int rc;                             /* why it is not stored */
    bool is_dropped;                    /* while it was written */
    bool is_old;                        /* goes with the snapshot that is being made */
    struct okv_store_long_value extent; /* of one that was dropped */
};

void okv_values_init(struct okv_values *values, struct okv_files *files)
{
    *values = (struct okv_values){.files = files, .least = OKV_VALUE_FILE_MIN};
    pthread_mutex_init(&values->lock, NULL);
    pthread_cond_init(&values->wanted, NULL);
    TAILQ_INIT(&values->jobs);
    TAILQ_INIT(&values->others);
}

static void free_all(struct okv_value_list *list)
{
    struct okv_value *value;

    while ((value = TAILQ_FIRST(list))) {
        TAILQ_REMOVE(list, value, in_list);
        free(value->key);
        free(value);
    }
}

void okv_values_fini(struct okv_values *values)
{
    free_all(&values->jobs);
    free_all(&values->others);
    pthread_cond_destroy(&values->wanted);
    pthread_mutex_destroy(&values->lock);
}

/* ---- files ---- */

/* The file is durable, but not its name. */
static int write_file(struct okv_files *files, uint64_t number, const uint8_t *bytes,
                      uint64_t length)
{
    char name[OKV_WAL_NAME_SIZE];
    struct okv_file *file;

    okv_wal_name(OKV_WAL_VALUE, number, name);
    int rc = files->ops->create(files, name, &file);
    if (rc)
        return rc;
    rc = okv_background_write(files, file, bytes, length, 0, false);
    if (rc == 0)
        rc = files->ops->sync(file);
    files->ops->close(file);
    if (rc)
        files->ops->remove(files, name); /* or the next start does */
    return rc;
}

static int read_failed(const char *name, int error, struct okv_diag *diag)
{
    return okv_diag_set(diag, error == -ENOENT ? OKV_ECORRUPT : okv_error_from_errno(-error),
                        "cannot read %s: %s", name, strerror(-error));
}

static int read_file(struct okv_files *files, const char *name, const struct okv_wal_long *at,
                     uint8_t *bytes, struct okv_diag *diag)
{
    struct okv_file *file;
    uint64_t size = 0;
    size_t got = 0;
    int rc = files->ops->open(files, name, &file);

    if (rc)
        return read_failed(name, rc, diag);
    rc = files->ops->size(file, &size);
    if (rc == 0)
        rc = files->ops->read(file, bytes, at->length, 0, &got);
    files->ops->close(file);
    if (rc)
        return read_failed(name, rc, diag);
    if (size != at->length || got != at->length ||
        okv_hash_checksum(bytes, at->length, 0) != at->checksum)
        return okv_diag_set(diag, OKV_ECORRUPT, "%s is damaged: it is not what was written", name);
    return 0;
}

static int read_value(struct okv_files *files, const struct okv_wal_long *at, uint8_t **out,
                      struct okv_diag *diag)
{
    char name[OKV_WAL_NAME_SIZE];
    uint8_t *bytes = malloc(at->length);

    okv_wal_name(OKV_WAL_VALUE, at->number, name);
    if (!bytes)
        return okv_diag_set(diag, OKV_ENOMEM, "cannot read %s: no memory for %" PRIu64 " bytes",
                            name, at->length);
    int rc = read_file(files, name, at, bytes, diag);
    if (rc)
        free(bytes);
    else
        *out = bytes;
    return rc;
}

/* What the disk does not give back is lost like what it gives back damaged. */
static int read_or_lose(struct okv_files *files, const struct okv_wal_long *at, uint8_t **out,
                        struct okv_diag *diag)
{
    int rc = read_value(files, at, out, diag);

    return rc == OKV_EIO ? OKV_ECORRUPT : rc;
}

int okv_values_check(struct okv_files *files, const struct okv_wal_long *at, struct okv_diag *diag)
{
    uint8_t *bytes;
    int rc = read_or_lose(files, at, &bytes, diag);

    if (rc == 0)
        free(bytes);
    return rc;
}

int okv_values_copy(struct okv_files *from, struct okv_files *to, const struct okv_wal_long *at,
                    struct okv_diag *diag)
{
    uint8_t *bytes;
    int rc = read_or_lose(from, at, &bytes, diag);

    if (rc)
        return rc;
    rc = write_file(to, at->number, bytes, at->length);
    free(bytes);
    if (rc == -EEXIST) /* another record refers to it */
        return 0;
    return rc ? okv_diag_set(diag, okv_error_from_errno(-rc), "cannot write a long value: %s",
                             strerror(-rc))
              : 0;
}

/* ---- kept values; under the lock ---- */

static struct okv_value_chain *chain_of(struct okv_values *values, const void *key,
                                        uint32_t key_length)
{
    return &values->chains[okv_hash_key(key, key_length, 0) % OKV_VALUE_CHAINS];
}

static struct okv_value *find(struct okv_values *values, const void *key, uint32_t key_length,
                              uint64_t version)
{
    struct okv_value *value;

    LIST_FOREACH(value, chain_of(values, key, key_length), in_chain)
    {
        if (value->version == version && value->key_length == key_length &&
            memcmp(value->key, key, key_length) == 0)
            return value;
    }
    return NULL;
}

/* False: no memory for the key. */
static bool keep(struct okv_values *values, struct okv_value *value, const void *key,
                 uint32_t key_length, uint64_t version)
{
    value->state = KEPT;
    value->key = malloc(key_length);
    if (value->key) {
        memcpy(value->key, key, key_length);
        value->key_length = key_length;
        value->version = version;
        LIST_INSERT_HEAD(chain_of(values, key, key_length), value, in_chain);
    }
    atomic_fetch_add(&values->bytes, value->at.length);
    atomic_fetch_add(&values->logged, value->at.length);
    return value->key != NULL;
}

static void forget(struct okv_value *value)
{
    if (value->key)
        LIST_REMOVE(value, in_chain);
    free(value->key);
    value->key = NULL;
}

/* ---- at a start ---- */

static struct okv_value *add(struct okv_value_list *list, const struct okv_wal_long *at)
{
    struct okv_value *value = calloc(1, sizeof *value);

    if (!value)
        return NULL;
    value->at = *at;
    TAILQ_INSERT_TAIL(list, value, in_list);
    return value;
}

/* Once, though a bucket that did not fit is read again. */
static int keep_recovered(struct okv_values *values, const struct okv_wal_record *record,
                          const struct okv_wal_long *at)
{
    if (find(values, record->key, record->key_length, record->version))
        return 0;
    struct okv_value *value = add(&values->others, at);
    if (!value || !keep(values, value, record->key, record->key_length, record->version))
        return OKV_ENOMEM;
    return 0;
}

int okv_values_recover(struct okv_values *values, const struct okv_wal_record *record,
                       uint8_t **out, struct okv_diag *diag)
{
    struct okv_wal_long at;
    uint8_t *bytes;

    okv_wal_long_decode(record->value, &at);
    int rc = read_value(values->files, &at, &bytes, diag);
    if (rc)
        return rc;
    pthread_mutex_lock(&values->lock);
    rc = keep_recovered(values, record, &at);
    pthread_mutex_unlock(&values->lock);
    if (rc) {
        free(bytes);
        return okv_diag_set(diag, rc, "no memory to keep the files of long values");
    }
    *out = bytes;
    return 0;
}

void okv_values_raise(struct okv_values *values, uint64_t by)
{
    struct okv_value *value;

    TAILQ_FOREACH(value, &values->others, in_list)
    {
        value->version += by;
    }
}

/* What records refer to: a bit for each number from `first` on. */
struct removal {
    struct okv_values *values;
    uint64_t first, count;
    uint8_t *is_kept;
};

static void note_range(struct removal *removal)
{
    const struct okv_value *value = TAILQ_FIRST(&removal->values->others);
    uint64_t last = 0;

    removal->first = UINT64_MAX;
    for (; value; value = TAILQ_NEXT(value, in_list)) {
        uint64_t number = value->at.number;
        removal->first = number < removal->first ? number : removal->first;
        last = number > last ? number : last;
    }
    removal->count = last ? last - removal->first + 1 : 0;
}

static int removal_init(struct removal *removal, struct okv_values *values)
{
    const struct okv_value *value = TAILQ_FIRST(&values->others);

    *removal = (struct removal){.values = values};
    note_range(removal);
    removal->is_kept = calloc(removal->count / 8 + 1, 1);
    if (!removal->is_kept)
        return -ENOMEM;
    for (; value; value = TAILQ_NEXT(value, in_list)) {
        uint64_t at = value->at.number - removal->first;
        removal->is_kept[at / 8] |= (uint8_t)(1u << at % 8);
    }
    return 0;
}

/* Numbers go on above all that there are. */
static int remove_unless_kept(const char *name, void *user)
{
    const struct removal *removal = user;
    struct okv_values *values = removal->values;
    uint64_t number = okv_wal_number(OKV_WAL_VALUE, name);
    uint64_t at = number - removal->first;

    if (number > values->last)
        values->last = number;
    if (number == 0 || (number >= removal->first && at < removal->count &&
                        removal->is_kept[at / 8] & 1u << at % 8))
        return 0;
    return values->files->ops->remove(values->files, name);
}

/* ---- the thread ---- */

static void remove_file(struct okv_values *values, uint64_t number)
{
    char name[OKV_WAL_NAME_SIZE];

    okv_wal_name(OKV_WAL_VALUE, number, name);
    values->files->ops->remove(values->files, name); /* or the next start does */
}

/* Under the lock. */
static void make_unwanted(struct okv_values *values, struct okv_value *value)
{
    TAILQ_REMOVE(value->state == QUEUED ? &values->jobs : &values->others, value, in_list);
    TAILQ_INSERT_TAIL(&values->jobs, value, in_list);
    forget(value);
    value->state = UNWANTED;
    pthread_cond_signal(&values->wanted);
}

/* Under the lock, which it leaves meanwhile. */
static void store_one(struct okv_values *values, struct okv_value *value)
{
    value->state = WRITING;
    TAILQ_INSERT_TAIL(&values->others, value, in_list);
    pthread_mutex_unlock(&values->lock);
    uint64_t checksum = okv_hash_checksum(value->bytes, value->at.length, 0);
    int error = write_file(values->files, value->at.number, value->bytes, value->at.length);
    if (error == 0)
        error = values->files->ops->sync_names(values->files);
    pthread_mutex_lock(&values->lock);
    value->at.checksum = checksum;
    value->rc = error ? okv_wal_room_error(error) : 0;
    value->state = STORED;
    if (value->is_dropped) {
        okv_store_long_release(values->store, &value->extent);
        make_unwanted(values, value);
    }
    pthread_mutex_unlock(&values->lock);
    values->stored(values->user, error);
    pthread_mutex_lock(&values->lock);
}

/* Likewise. */
static void remove_one(struct okv_values *values, struct okv_value *value)
{
    pthread_mutex_unlock(&values->lock);
    remove_file(values, value->at.number);
    free(value);
    pthread_mutex_lock(&values->lock);
}

static void *run(void *user)
{
    struct okv_values *values = user;
    struct okv_value *value;

    okv_background_begin();
    pthread_mutex_lock(&values->lock);
    while (!values->has_to_stop) {
        value = TAILQ_FIRST(&values->jobs);
        if (!value) {
            pthread_cond_wait(&values->wanted, &values->lock);
            continue;
        }
        TAILQ_REMOVE(&values->jobs, value, in_list);
        if (value->state == QUEUED)
            store_one(values, value);
        else
            remove_one(values, value);
    }
    pthread_mutex_unlock(&values->lock);
    return NULL;
}

int okv_values_start(struct okv_values *values, struct okv_store *store,
                     void (*stored)(void *user, int error), void *user)
{
    values->store = store;
    values->stored = stored;
    values->user = user;
    struct removal removal;
    int rc = removal_init(&removal, values);
    if (rc == 0)
        rc = values->files->ops->list(values->files, remove_unless_kept, &removal);
    free(removal.is_kept);
    if (rc)
        return rc;
    rc = pthread_create(&values->thread, NULL, run, values);
    values->is_started = rc == 0;
    return -rc;
}

void okv_values_stop(struct okv_values *values)
{
    if (!values->is_started)
        return;
    pthread_mutex_lock(&values->lock);
    values->has_to_stop = true;
    pthread_cond_signal(&values->wanted);
    pthread_mutex_unlock(&values->lock);
    pthread_join(values->thread, NULL);
}

/* ---- while it serves ---- */

struct okv_value *okv_values_store(struct okv_values *values, const uint8_t *bytes, uint64_t length)
{
    struct okv_wal_long at = {.length = length};

    pthread_mutex_lock(&values->lock);
    at.number = values->last + 1;
    struct okv_value *value = add(&values->jobs, &at);
    if (value) {
        values->last++;
        value->bytes = bytes;
        value->state = QUEUED;
        pthread_cond_signal(&values->wanted);
    }
    pthread_mutex_unlock(&values->lock);
    return value;
}

int okv_values_state(struct okv_values *values, const struct okv_value *value,
                     struct okv_store_copy *out)
{
    pthread_mutex_lock(&values->lock);
    int rc = value->state == STORED ? value->rc : OKV_EAGAIN;
    *out = (struct okv_store_copy){value->at.number, value->at.checksum};
    pthread_mutex_unlock(&values->lock);
    return rc;
}

void okv_values_keep(struct okv_values *values, struct okv_value *value, const void *key,
                     uint32_t key_length, uint64_t version)
{
    pthread_mutex_lock(&values->lock);
    /* Without memory no snapshot finds it: each has the value itself. */
    (void)keep(values, value, key, key_length, version);
    pthread_mutex_unlock(&values->lock);
}

void okv_values_drop(struct okv_values *values, struct okv_value *value,
                     struct okv_store_long_value *extent)
{
    pthread_mutex_lock(&values->lock);
    if (value->state == WRITING) {
        /* What it pins was copied, and a pin is in a list: it cannot move with the rest. */
        okv_heap_unpin(&values->store->heap, &extent->source);
        value->is_dropped = true;
        value->extent = *extent;
        *extent = (struct okv_store_long_value){.extent = 0};
    } else {
        make_unwanted(values, value);
    }
    pthread_mutex_unlock(&values->lock);
}

/* ---- snapshots ---- */

void okv_values_mark(struct okv_values *values)
{
    pthread_mutex_lock(&values->lock);
    struct okv_value *value = TAILQ_FIRST(&values->others);
    for (; value; value = TAILQ_NEXT(value, in_list))
        value->is_old = value->state == KEPT;
    pthread_mutex_unlock(&values->lock);
}

bool okv_values_find(struct okv_values *values, const void *key, uint32_t key_length,
                     uint64_t version, struct okv_wal_long *out)
{
    pthread_mutex_lock(&values->lock);
    struct okv_value *value = find(values, key, key_length, version);
    if (value) {
        value->is_old = false;
        *out = value->at;
    }
    pthread_mutex_unlock(&values->lock);
    return value != NULL;
}

void okv_values_sweep(struct okv_values *values)
{
    struct okv_value *value, *next;

    pthread_mutex_lock(&values->lock);
    for (value = TAILQ_FIRST(&values->others); value; value = next) {
        next = TAILQ_NEXT(value, in_list);
        if (!value->is_old)
            continue;
        atomic_fetch_sub(&values->bytes, value->at.length);
        make_unwanted(values, value);
    }
    pthread_mutex_unlock(&values->lock);
}
