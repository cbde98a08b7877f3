#include "tests/support/wal_machine.h"

#include <sched.h>
#include <sys/mman.h>

#include "tests/support/test.h"

#include "server/store/long_value.h"
#include "shared/base/error.h"

#define BUCKET_SIZE 256
#define VALUE_MAX (1 << 16)

static void notify(void *user)
{
    struct wal_machine *machine = user;

    pthread_mutex_lock(&machine->lock);
    pthread_cond_signal(&machine->ended);
    pthread_mutex_unlock(&machine->lock);
}

static void note_read(void *user, uint64_t bytes)
{
    struct wal_machine *machine = user;

    machine->read = bytes;
    machine->reads++;
}

void wal_machine_init(struct wal_machine *machine, struct crash_disk *disk, uint64_t length)
{
    memset(machine, 0, sizeof *machine);
    machine->disk = disk;
    machine->files = &disk->files;
    machine->length = length;
    machine->max_value = VALUE_MAX;
}

static void end_store(struct wal_machine *machine)
{
    okv_store_work_fini(&machine->work);
    okv_store_fini(&machine->store);
    munmap(machine->region, machine->length);
    pthread_mutex_destroy(&machine->lock);
    pthread_cond_destroy(&machine->ended);
}

static void begin_store(struct wal_machine *machine)
{
    machine->region =
        mmap(NULL, machine->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(machine->region, MAP_FAILED);
    const struct okv_store_params params = {.base = machine->region,
                                            .length = machine->length,
                                            .bucket_size = BUCKET_SIZE,
                                            .max_value = machine->max_value,
                                            .full = machine->full,
                                            .wipe = machine->wipes,
                                            .boot_id = 77,
                                            .hash_seed = machine->wal->segment.hash_seed};
    assert_int_equal(okv_store_init(&machine->store, &params), 0);
    assert_int_equal(okv_store_work_init(&machine->work, BUCKET_SIZE), 0);
    pthread_mutex_init(&machine->lock, NULL);
    pthread_cond_init(&machine->ended, NULL);
}

static int start_log(struct wal_machine *machine)
{
    const struct okv_wal_params params = {.snapshot_ratio = 1,
                                          .sync_within_ns = machine->sync_within_ns,
                                          .epoch = machine->epoch,
                                          .notify = notify,
                                          .user = machine};

    return okv_wal_start(machine->wal, &params, &machine->diag);
}

int wal_machine_start(struct wal_machine *machine)
{
    machine->diag.text[0] = '\0';
    int rc = okv_wal_open(&machine->wal, machine->files, machine->restore, &machine->diag);
    if (rc)
        return rc;
    if (machine->copies)
        rc = okv_wal_copies_create(machine->wal, machine->keep);
    if (rc == 0 && machine->identity)
        rc = okv_wal_set_identity(machine->wal, machine->identity);
    if (rc) {
        okv_wal_close(machine->wal);
        return rc;
    }
    begin_store(machine);
    machine->wal->blobs.min_length = WAL_MACHINE_LONG;
    okv_wal_set_report(machine->wal, machine->report, machine->report_user);
    const struct okv_wal_recovery recovery = {.store = &machine->store,
                                              .clients = machine->clients,
                                              .progress = note_read,
                                              .user = machine};
    if (rc == 0)
        rc = okv_wal_recover(machine->wal, &recovery, &machine->found, &machine->diag);
    if (rc == 0 && machine->copies)
        okv_wal_copies_begin(machine->wal, machine->copies);
    if (rc == 0)
        rc = start_log(machine);
    if (rc == 0)
        return 0;
    okv_wal_close(machine->wal);
    end_store(machine);
    return rc;
}

void wal_machine_stop(struct wal_machine *machine)
{
    crash_disk_release(machine->disk);
    okv_wal_stop(machine->wal);
    okv_wal_close(machine->wal);
    machine->wal = NULL;
    end_store(machine);
}

void wal_machine_kill(struct wal_machine *machine)
{
    crash_disk_stop(machine->disk);
    wal_machine_stop(machine);
    crash_disk_go_on(machine->disk);
}

void wal_machine_enter(struct wal_machine *machine)
{
    while (!okv_wal_begin_change(machine->wal))
        sched_yield();
}

static int await(struct wal_machine *machine, uint64_t batch)
{
    int status = 0;

    pthread_mutex_lock(&machine->lock);
    while (!okv_wal_is_committed(machine->wal, batch, &status))
        pthread_cond_wait(&machine->ended, &machine->lock);
    pthread_mutex_unlock(&machine->lock);
    return status;
}

int wal_machine_leave(struct wal_machine *machine)
{
    uint64_t batch = okv_wal_request_commit(machine->wal);

    okv_wal_end_change(machine->wal);
    return await(machine, batch);
}

uint32_t wal_machine_number(struct okv_store *store, unsigned key)
{
    uint8_t value[8192];
    uint32_t length, number;
    uint64_t version;
    int rc = okv_store_get(store, NULL, &key, sizeof key, value, sizeof value, &length, &version);

    if (rc == OKV_ENOTFOUND)
        return 0;
    assert_int_equal(rc, 0);
    memcpy(&number, value, sizeof number);
    for (uint32_t i = sizeof number; i < length; i++)
        assert_int_equal(value[i], (uint8_t)number);
    return number;
}

/* The end of a batch begins it. */
int wal_machine_snapshot(struct wal_machine *machine)
{
    okv_wal_snapshot_request(machine->wal);
    wal_machine_enter(machine);
    int rc = wal_machine_leave(machine);
    return rc ? rc : okv_snapshot_await(&machine->wal->snapshot);
}

void wal_machine_let_grow(struct wal_machine *machine)
{
    atomic_store(&machine->wal->snapshot.self_contained_ns, 0); /* nobody copies the one before */
    atomic_fetch_add(&machine->wal->blobs.logged, UINT64_C(1) << 30);
}

static int store_value(struct wal_machine *machine, struct okv_store_long_value *value,
                       struct okv_blob **stored)
{
    const uint8_t *bytes = machine->region + okv_store_long_offset(value);
    int rc;

    *stored = okv_blob_write(&machine->wal->blobs, bytes, value->value_length);
    assert_non_null(*stored);
    while ((rc = okv_blob_state(&machine->wal->blobs, *stored, &value->copy)) == OKV_EAGAIN)
        sched_yield();
    /* The log fails with it, a moment later. */
    while (rc && rc != OKV_EDISKFULL && !atomic_load(&machine->wal->failure))
        sched_yield();
    return rc ? OKV_EUNKNOWN : 0;
}

int wal_machine_put_long(struct wal_machine *machine, const struct okv_store_write *write,
                         struct okv_store_outcome *outcome)
{
    struct okv_store_long_value value = {.extent = 0};
    struct okv_store_write what = *write;
    struct okv_blob *stored = NULL;
    int rc = okv_store_long_reserve(&machine->store, &machine->work, &value, write->key_length,
                                    write->value_length, false);

    if (rc)
        return rc;
    okv_store_long_begin(&machine->store, &value, write);
    memcpy(machine->region + okv_store_long_offset(&value), write->value, write->value_length);
    okv_store_long_step(&machine->store, &value, UINT64_MAX);
    rc = store_value(machine, &value, &stored);
    what.long_value = &value;
    what.value = NULL;
    if (rc == 0)
        rc = okv_store_put(&machine->store, &machine->work, &what, outcome);
    if (rc == 0)
        okv_blob_reference(&machine->wal->blobs, stored, write->key, write->key_length,
                           outcome->version);
    else
        okv_blob_release(&machine->wal->blobs, stored, &value);
    okv_store_long_release(&machine->store, &value);
    return rc;
}
