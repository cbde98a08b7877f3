#include "server/wal/wal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "server/store/store.h"
#include "server/wal/append.h"
#include "server/wal/listing.h"
#include "server/wal/recovery/log.h"
#include "server/wal/segment.h"
#include "server/wal/snapshot/schedule.h"
#include "server/wal/writer.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* At which a log may begin. */
#define POSITIONS (UINT64_C(1) << 56)

/* ---- the gate ---- */

/* Whether the disk has taken too long already. Whoever came now would be answered though an older
 * change may be lost. */
static bool is_late(struct okv_wal *wal)
{
    uint64_t since_ns = atomic_load(&wal->waits_since_ns);

    return since_ns && wal->sync_within_ns != OKV_WAL_NEVER &&
           okv_clock_ns() - since_ns > wal->sync_within_ns;
}

bool okv_wal_enter(struct okv_wal *wal)
{
    return !is_late(wal) && !atomic_load(&wal->is_crowded) &&
           !atomic_load(&wal->snapshot.is_crowded) && pthread_rwlock_tryrdlock(&wal->gate) == 0;
}

void okv_wal_leave(struct okv_wal *wal)
{
    pthread_rwlock_unlock(&wal->gate);
}

bool okv_wal_is_open(struct okv_wal *wal)
{
    if (!okv_wal_enter(wal))
        return false;
    okv_wal_leave(wal);
    return true;
}

uint64_t okv_wal_hold(struct okv_wal *wal)
{
    if (wal->is_direct)
        return 0;
    pthread_mutex_lock(&wal->lock);
    if (!wal->is_wanted || wal->collected.records >= wal->records_before)
        pthread_cond_signal(&wal->wanted);
    wal->is_wanted = true;
    pthread_mutex_unlock(&wal->lock);
    return wal->batch;
}

bool okv_wal_is_done(struct okv_wal *wal, uint64_t batch, int *status)
{
    if (atomic_load_explicit(&wal->done, memory_order_acquire) < batch)
        return false;
    *status = batch && atomic_load(&wal->unknown) == batch ? OKV_EUNKNOWN : 0;
    return true;
}

/* ---- start and stop ---- */

static int failed(struct okv_diag *diag, int error, const char *what)
{
    return okv_diag_set(diag, okv_error_from_errno(-error), "the log: %s: %s", what,
                        strerror(-error));
}

static void init_locks(struct okv_wal *wal)
{
    pthread_rwlockattr_t gate;
    pthread_condattr_t clock;

    pthread_rwlockattr_init(&gate);
    /* No change begins while the log's thread waits for those that are under way. */
    pthread_rwlockattr_setkind_np(&gate, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_rwlock_init(&wal->gate, &gate);
    pthread_cond_init(&wal->wanted, &clock);
    pthread_mutex_init(&wal->lock, NULL);
    pthread_condattr_destroy(&clock);
    pthread_rwlockattr_destroy(&gate);
}

int okv_wal_open(struct okv_wal *wal, struct okv_files *files, const char *restore,
                 struct okv_diag *diag)
{
    *wal = (struct okv_wal){.files = files, .restored = restore, .batch = 1};
    init_locks(wal);
    okv_values_init(&wal->values, files);
    bool is_there;
    int rc = okv_wal_batch_init(&wal->collected);
    if (rc == 0)
        rc = okv_wal_batch_init(&wal->taken);
    if (rc == 0)
        rc = okv_wal_find(wal, &is_there, diag);
    if (rc)
        goto close;
    if (is_there)
        return 0;
    if (getrandom(&wal->segment.hash_seed, sizeof wal->segment.hash_seed, 0) < 0 ||
        getrandom(&wal->segment.position, sizeof wal->segment.position, 0) < 0 ||
        getrandom(wal->segment.database_id, OKV_WAL_ID_SIZE, 0) < 0) {
        rc = okv_diag_set(diag, OKV_EIO, "no random bytes from the system: %s", strerror(errno));
        goto close;
    }
    /* Nobody can write a value whose bytes look like a frame at its place in the log. */
    wal->segment.position = wal->segment.position % POSITIONS * OKV_WAL_ALIGNMENT;
    return 0;
close:
    okv_wal_close(wal);
    return rc;
}

/* All of it has been loaded, and its segment is there. */
static int name_restored(struct okv_wal *wal)
{
    char name[OKV_WAL_NAME_SIZE];

    okv_wal_name(OKV_WAL_SNAPSHOT, wal->loaded.number, name);
    int rc = wal->files->ops->rename(wal->files, OKV_WAL_PART, name);
    if (rc)
        return rc;
    wal->restored = NULL;
    return wal->files->ops->sync_names(wal->files);
}

/* Begins the segment of this start. What no segment needs any more goes. */
static int begin_files(struct okv_wal *wal)
{
    if (!wal->restored) /* it may be what fills the disk */
        wal->files->ops->remove(wal->files, OKV_WAL_PART);
    okv_wal_room_trim_all(wal->files); /* nor what a server that died had reserved */
    /* What this start has read may have names that are not durable. */
    int rc = wal->files->ops->sync_names(wal->files);

    if (rc == 0)
        rc = okv_wal_room_remove_spare(wal->files);
    if (rc == 0)
        rc = okv_wal_begin_segment(wal);
    if (rc == 0 && wal->restored)
        rc = name_restored(wal);
    if (rc == 0)
        rc = okv_wal_remove_before(wal->files, wal->loaded.number, false);
    return rc;
}

/* A disk that failed may fail a record, too. One that is full refuses this value alone. */
static void value_stored(void *user, int error)
{
    struct okv_wal *wal = user;

    if (error && okv_wal_room_error(error) != OKV_EDISKFULL)
        okv_wal_fail(wal, error);
    wal->notify(wal->user);
}

int okv_wal_start(struct okv_wal *wal, const struct okv_wal_params *params, struct okv_diag *diag)
{
    wal->notify = params->notify;
    wal->user = params->user;
    wal->snapshot_ratio = params->snapshot_ratio;
    wal->sync_within_ns = params->sync_within_ns;
    wal->segment.is_relaxed = wal->is_direct = params->sync_within_ns != 0;
    wal->snapshot_begun = wal->snapshot_tried = wal->segment.position;
    okv_wal_room_init(&wal->room, wal->store->max_value, wal->sync_within_ns ? 2 : 1);
    int rc = begin_files(wal);
    if (rc)
        return failed(diag, rc, "cannot begin a segment");
    wal->granted = wal->segment.number;
    rc = okv_store_work_init(&wal->work, wal->store->table.bucket_size);
    if (rc)
        return rc;
    const struct okv_store_log log = okv_wal_store_log(wal);
    rc = okv_store_pending_begin(wal->store, &log);
    if (rc)
        goto fini_work;
    /* One that is being made wakes the log's thread at its end, for a wish that came meanwhile. */
    rc = okv_snapshot_init(&wal->snapshot, wal->files, wal->store, okv_wal_wake, wal);
    if (rc)
        goto end_pending;
    okv_store_pending_set_direct(wal->store, wal->is_direct);
    atomic_store(&wal->snapshot.whole, wal->whole);
    atomic_store(&wal->snapshot.made, wal->loaded.number);
    atomic_store(&wal->snapshot.ended, wal->segment.number);
    wal->snapshot.values = &wal->values;
    rc = okv_values_start(&wal->values, wal->store, value_stored, wal);
    if (rc) {
        failed(diag, rc, "cannot begin with long values");
        rc = okv_error_from_errno(-rc);
        goto fini_snapshot;
    }
    if (pthread_create(&wal->thread, NULL, okv_wal_run, wal) == 0)
        return 0;
    rc = OKV_ENOMEM;
    okv_values_stop(&wal->values);
fini_snapshot:
    okv_snapshot_fini(&wal->snapshot);
end_pending:
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
    okv_values_stop(&wal->values);
    okv_wal_schedule_report(wal);      /* the last one */
    pthread_rwlock_wrlock(&wal->gate); /* no change begins any more */
    wal->is_stopped = true;
    okv_store_pending_end(wal->store);
    okv_store_work_fini(&wal->work);
}

void okv_wal_close(struct okv_wal *wal)
{
    if (wal->is_stopped)
        pthread_rwlock_unlock(&wal->gate);
    if (wal->file)
        wal->files->ops->close(wal->file);
    if (wal->restored)
        wal->files->ops->remove(wal->files, OKV_WAL_PART);
    pthread_mutex_destroy(&wal->lock);
    pthread_cond_destroy(&wal->wanted);
    pthread_rwlock_destroy(&wal->gate);
    okv_values_fini(&wal->values);
    okv_wal_batch_fini(&wal->taken);
    okv_wal_batch_fini(&wal->collected);
}
