#include "server/wal/wal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "server/store/pending.h"
#include "server/store/store.h"
#include "server/wal/append.h"
#include "server/wal/copies/copies.h"
#include "server/wal/disk.h"
#include "server/wal/listing.h"
#include "server/wal/null_files.h"
#include "server/wal/recovery/recover.h"
#include "server/wal/segment.h"
#include "server/wal/snapshot/schedule.h"
#include "server/wal/snapshot/writer.h"
#include "server/wal/state.h"
#include "server/wal/writer.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/thread.h"

/* Positions at which a new log may begin. */
#define POSITIONS (UINT64_C(1) << 56)

/* ---- the batch ---- */

/* Whether the disk has taken too long already: a change made now would be answered although an
 * older one may be lost. */
static bool is_late(const struct okv_wal *wal)
{
    uint64_t since_ns = atomic_load(&wal->waits_since_ns);

    return since_ns && wal->sync_within_ns != OKV_WAL_NEVER &&
           okv_clock_ns() - since_ns > wal->sync_within_ns;
}

bool okv_wal_begin_change(struct okv_wal *wal)
{
    return !is_late(wal) && !atomic_load(&wal->is_throttled) && !atomic_load(&wal->is_held) &&
           !atomic_load(&wal->snapshot.is_throttled) &&
           pthread_rwlock_tryrdlock(&wal->batch_lock) == 0;
}

void okv_wal_end_change(struct okv_wal *wal)
{
    pthread_rwlock_unlock(&wal->batch_lock);
}

bool okv_wal_is_batch_open(struct okv_wal *wal)
{
    if (!okv_wal_begin_change(wal))
        return false;
    okv_wal_end_change(wal);
    return true;
}

uint64_t okv_wal_request_commit(struct okv_wal *wal)
{
    if (wal->is_direct)
        return 0;
    pthread_mutex_lock(&wal->lock);
    if (!wal->is_wanted || wal->staged.records >= wal->records_before)
        pthread_cond_signal(&wal->wanted);
    wal->is_wanted = true;
    wal->awaited = wal->batch;
    pthread_mutex_unlock(&wal->lock);
    return wal->batch;
}

/* Of one that has ended, before the last one that was dropped. Where there are copies, one of long
 * ago counts as dropped. */
static bool was_dropped(struct okv_wal *wal, uint64_t batch)
{
    pthread_mutex_lock(&wal->lock);
    uint64_t later = atomic_load(&wal->unknown) - batch, before = wal->unknown_before;
    pthread_mutex_unlock(&wal->lock);

    if (later > 64)
        return wal->copies != NULL;
    return later == 0 || (before >> (later - 1) & 1) != 0;
}

bool okv_wal_is_committed(struct okv_wal *wal, uint64_t batch, int *status)
{
    if (atomic_load_explicit(&wal->done, memory_order_acquire) < batch)
        return false;
    *status =
        batch && batch <= atomic_load(&wal->unknown) && was_dropped(wal, batch) ? OKV_EUNKNOWN : 0;
    return true;
}

uint64_t okv_wal_publish_seq(const struct okv_wal *wal)
{
    return atomic_load(&wal->publish_seq);
}

/* ---- what others ask ---- */

uint64_t okv_wal_hash_seed(const struct okv_wal *wal)
{
    return wal->segment.hash_seed;
}

uint64_t okv_wal_segment_number(const struct okv_wal *wal)
{
    return wal->segment.number;
}

int okv_wal_failure(const struct okv_wal *wal)
{
    return atomic_load(&wal->failure);
}

uint64_t okv_wal_blob_min(const struct okv_wal *wal)
{
    return wal->blobs.min_length;
}

bool okv_wal_has_files(const struct okv_wal *wal)
{
    return okv_files_keep(wal->files);
}

struct okv_blobs *okv_wal_blobs(struct okv_wal *wal)
{
    return &wal->blobs;
}

void okv_wal_get_stats(struct okv_wal *wal, struct okv_wal_stats *out)
{
    struct okv_snapshot *snapshot = &wal->snapshot;
    uint64_t ended = atomic_load(&snapshot->ended);

    *out = (struct okv_wal_stats){
        .sync_within_ns = wal->sync_within_ns,
        .failure = atomic_load(&wal->failure),
        .is_disk_full = atomic_load(&wal->space.is_full),
        .wanted_mib = (unsigned)(atomic_load(&wal->space.wanted) >> 20),
        .unsynced_bytes = okv_wal_unsynced(wal),
        .log_bytes = atomic_load(&wal->length),
        .blob_bytes = atomic_load(&wal->blobs.bytes),
        .batches = &wal->batches,
        .syncs = &wal->syncs,
        .snapshots = atomic_load(&snapshot->completed),
        .snapshots_failed = atomic_load(&snapshot->failed),
        .snapshot_bytes = atomic_load(&snapshot->last_bytes),
        .snapshot_ns = atomic_load(&snapshot->last_ns),
        .snapshot_wall_ms = atomic_load(&snapshot->last_wall_ms),
        .is_snapshot_active = okv_snapshot_is_active(snapshot),
        .has_snapshot_failed = ended > atomic_load(&snapshot->made),
    };
}

void okv_wal_set_report(struct okv_wal *wal,
                        void (*report)(void *user, enum okv_wal_event event, const char *why),
                        void *user)
{
    wal->report = report;
    wal->report_user = user;
}

/* ---- start and stop ---- */

static void init_locks(struct okv_wal *wal)
{
    pthread_rwlockattr_t writer_first;
    pthread_condattr_t clock;

    pthread_rwlockattr_init(&writer_first);
    /* No change begins while the log's thread waits for those that are under way. */
    pthread_rwlockattr_setkind_np(&writer_first, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_rwlock_init(&wal->batch_lock, &writer_first);
    pthread_cond_init(&wal->wanted, &clock);
    pthread_mutex_init(&wal->lock, NULL);
    pthread_condattr_destroy(&clock);
    pthread_rwlockattr_destroy(&writer_first);
}

/* Of a log that has no files yet. */
static int begin_identity(struct okv_wal_header *segment, struct okv_diag *diag)
{
    if (getrandom(&segment->hash_seed, sizeof segment->hash_seed, 0) < 0 ||
        getrandom(&segment->position, sizeof segment->position, 0) < 0 ||
        getrandom(segment->database_id, OKV_WAL_ID_SIZE, 0) < 0)
        return okv_diag_set(diag, OKV_EIO, "no random bytes from the system: %s", strerror(errno));
    /* Nobody can write a value whose bytes look like a frame at its place in the log. */
    segment->position = segment->position % POSITIONS * OKV_WAL_ALIGNMENT;
    return 0;
}

int okv_wal_open(struct okv_wal **out, struct okv_files *files, const char *import,
                 struct okv_diag *diag)
{
    struct okv_wal *wal = calloc(1, sizeof *wal);
    bool is_there;

    if (!wal)
        return OKV_ENOMEM;
    wal->files = files;
    wal->imported = import;
    wal->batch = 1;
    init_locks(wal);
    okv_blobs_init(&wal->blobs, files);
    int rc = okv_wal_batch_init(&wal->staged);
    if (rc == 0)
        rc = okv_wal_batch_init(&wal->writing);
    if (rc == 0)
        rc = okv_wal_discover(wal, &is_there, diag);
    if (rc == 0 && !is_there)
        rc = begin_identity(&wal->segment, diag);
    if (rc)
        okv_wal_close(wal);
    else
        *out = wal;
    return rc;
}

/* After all of it was recovered, and its segment has begun. */
static int name_import(struct okv_wal *wal)
{
    char name[OKV_WAL_NAME_SIZE];

    okv_wal_name(OKV_WAL_SNAPSHOT, wal->snapshot_header.number, name);
    int rc = wal->files->ops->rename(wal->files, OKV_WAL_PART, name, &wal->why);
    if (rc)
        return rc;
    wal->imported = NULL;
    return wal->files->ops->sync_names(wal->files, &wal->why);
}

/* Begins the segment of this start, and removes files that are not needed any more. */
static int begin_files(struct okv_wal *wal)
{
    if (!wal->imported) /* it may be what fills the disk */
        wal->files->ops->remove(wal->files, OKV_WAL_PART, NULL);
    int rc = okv_wal_begin_segment(wal, OKV_WAL_AT_START);

    if (rc == 0 && wal->imported)
        rc = name_import(wal);
    if (rc == 0)
        rc = okv_wal_remove_before(wal->files, wal->snapshot_header.number, false, &wal->why);
    return rc;
}

/* A disk that failed may fail a record, too. A full disk refuses this value alone. */
static void blob_written(void *user, int rc, const char *why)
{
    struct okv_wal *wal = user;

    if (rc && rc != OKV_EDISKFULL)
        okv_wal_fail(wal, rc, why);
    wal->notify(wal->user);
}

static int start_snapshots(struct okv_wal *wal, struct okv_diag *why)
{
    /* The end of a snapshot wakes the log's thread, for a request that came meanwhile. */
    int rc = okv_snapshot_init(&wal->snapshot, wal->files, wal->store, okv_wal_wake, wal, why);

    if (rc)
        return rc;
    atomic_store(&wal->snapshot.self_contained, wal->self_contained);
    atomic_store(&wal->snapshot.made, wal->snapshot_header.number);
    atomic_store(&wal->snapshot.ended, wal->segment.number);
    wal->snapshot.blobs = &wal->blobs;
    return 0;
}

static int start_threads(struct okv_wal *wal, struct okv_diag *diag)
{
    struct okv_diag why = {.text = ""};
    int rc = start_snapshots(wal, &why);

    if (rc)
        return okv_diag_set(diag, rc, "the log: cannot begin with snapshots: %s",
                            why.text[0] ? why.text : okv_error_text(rc));
    rc = okv_blobs_start(&wal->blobs, wal->store, wal->epoch, blob_written, wal, &why);
    if (rc) {
        okv_diag_set(diag, rc, "the log: cannot begin with long values: %s", why.text);
        goto fini_snapshot;
    }
    rc = okv_thread_start(&wal->thread, okv_wal_writer_run, wal, &why);
    if (rc == 0)
        return 0;
    okv_diag_set(diag, rc, "the log: cannot begin to write: %s", why.text);
    okv_blobs_stop(&wal->blobs);
fini_snapshot:
    okv_snapshot_fini(&wal->snapshot);
    return rc;
}

int okv_wal_start(struct okv_wal *wal, const struct okv_wal_params *params, struct okv_diag *diag)
{
    struct okv_store_log log;

    wal->notify = params->notify;
    wal->user = params->user;
    wal->snapshot_ratio = params->snapshot_ratio;
    wal->sync_within_ns = params->sync_within_ns;
    wal->is_direct = params->sync_within_ns != 0 && !wal->copies;
    atomic_store(&wal->is_held, wal->copies != NULL);
    wal->snapshot_begun = wal->snapshot_tried = wal->segment.position;
    okv_wal_space_init(&wal->space, wal->store->max_value, wal->sync_within_ns ? 2 : 1);
    int rc = begin_files(wal);
    if (rc)
        return okv_diag_set(diag, rc, "the log: cannot begin a segment: %s", wal->why.text);
    if (params->epoch > wal->epoch)
        rc = okv_wal_begin_epoch(wal, params->epoch);
    if (rc)
        return okv_diag_set(diag, rc, "the log: cannot begin an epoch: %s", wal->why.text);
    wal->scheduled = wal->segment.number;
    rc = okv_store_work_init(&wal->work, wal->store->table.bucket_size);
    if (rc)
        return rc;
    okv_wal_store_log(wal, &log);
    rc = okv_store_pending_begin(wal->store, &log);
    if (rc)
        goto fini_work;
    okv_store_pending_set_direct(wal->store, wal->is_direct);
    okv_store_take_slack(wal->store);
    rc = start_threads(wal, diag);
    if (rc == 0)
        return 0;
    okv_store_pending_end(wal->store);
fini_work:
    okv_store_work_fini(&wal->work);
    return rc;
}

void okv_wal_stop(struct okv_wal *wal)
{
    pthread_mutex_lock(&wal->lock);
    wal->has_to_stop = true;
    pthread_cond_signal(&wal->wanted);
    pthread_mutex_unlock(&wal->lock);
    pthread_join(wal->thread, NULL);
    okv_snapshot_fini(&wal->snapshot);
    okv_blobs_stop(&wal->blobs);
    okv_wal_schedule_report(wal);            /* the last one */
    pthread_rwlock_wrlock(&wal->batch_lock); /* no change begins any more */
    wal->is_stopped = true;
    okv_store_pending_end(wal->store);
    okv_store_work_fini(&wal->work);
}

void okv_wal_close(struct okv_wal *wal)
{
    if (wal->is_stopped)
        pthread_rwlock_unlock(&wal->batch_lock);
    if (wal->file)
        wal->files->ops->close(wal->file);
    if (wal->imported)
        wal->files->ops->remove(wal->files, OKV_WAL_PART, NULL);
    pthread_mutex_destroy(&wal->lock);
    pthread_cond_destroy(&wal->wanted);
    pthread_rwlock_destroy(&wal->batch_lock);
    okv_blobs_fini(&wal->blobs);
    okv_wal_batch_fini(&wal->writing);
    okv_wal_batch_fini(&wal->staged);
    okv_wal_copies_end(wal);
    free(wal);
}
