/*
 * A durable store whose disk crashes after any call: what was answered is there, whole batches at a
 * time, and no reader saw what is not there afterwards.
 *
 * The disk of the test keeps what was not synced apart. A crash loses any of its sectors.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "server/store/commands.h"
#include "server/store/store.h"
#include "server/wal/wal.h"
#include "shared/base/error.h"
#include "shared/base/random.h"

#define SECTOR 512u
#define FILES 16
#define FILE_SIZE (1u << 20)
#define REGION (UINT64_C(1) << 20)
#define KEYS 12
#define BATCHES 24
#define CHANGES_MAX 6
#define SEEDS 60
#define SEEDS_LONG 4000

/* ---- the disk ---- */

struct okv_file {
    char name[32];
    uint8_t *now, *durable; /* what the page cache has, and the disk */
    uint64_t size, durable_size;
    bool is_named, is_name_durable;
};

struct disk {
    struct okv_files files;
    struct okv_file all[FILES];
    unsigned count;
    unsigned calls_left; /* until the machine stops; UINT32_MAX: never */
    unsigned fails_at;   /* the call that fails with EIO; 0: none */
    unsigned calls;
    void (*before_sync)(void *user);
    void *user;
};

static struct disk *disk_of(struct okv_files *files)
{
    return (struct disk *)files;
}

/* One disk at a time. */
static struct disk disk;

/* Whether the call takes place, and how it ends otherwise. */
static int call(void)
{
    disk.calls++;
    if (disk.fails_at == disk.calls)
        return -EIO;
    if (disk.calls_left == 0)
        return -ENODEV;
    disk.calls_left -= disk.calls_left != UINT32_MAX;
    return 0;
}

static struct okv_file *find_file(const char *name)
{
    for (unsigned i = 0; i < disk.count; i++)
        if (disk.all[i].is_named && strcmp(disk.all[i].name, name) == 0)
            return &disk.all[i];
    return NULL;
}

static int disk_create(struct okv_files *files, const char *name, struct okv_file **out)
{
    int rc = call();

    (void)files;
    if (rc)
        return rc;
    assert_true(!find_file(name) && disk.count < FILES);
    *out = &disk.all[disk.count++];
    **out = (struct okv_file){.now = calloc(1, FILE_SIZE), .durable = calloc(1, FILE_SIZE)};
    snprintf((*out)->name, sizeof(*out)->name, "%s", name);
    (*out)->is_named = true;
    return 0;
}

static int disk_open(struct okv_files *files, const char *name, struct okv_file **out)
{
    (void)files;
    *out = find_file(name);
    return *out ? 0 : -ENOENT;
}

static void disk_close(struct okv_file *file)
{
    (void)file;
}

static int disk_write(struct okv_file *file, struct iovec *vectors, unsigned count, uint64_t offset)
{
    int rc = call();

    for (unsigned i = 0; !rc && i < count; offset += vectors[i].iov_len, i++) {
        assert_true(offset + vectors[i].iov_len <= FILE_SIZE);
        memcpy(file->now + offset, vectors[i].iov_base, vectors[i].iov_len);
        if (offset + vectors[i].iov_len > file->size)
            file->size = offset + vectors[i].iov_len;
    }
    return rc;
}

static int disk_sync(struct okv_file *file)
{
    if (disk.before_sync)
        disk.before_sync(disk.user);
    int rc = call();
    if (rc)
        return rc;
    memcpy(file->durable, file->now, FILE_SIZE);
    file->durable_size = file->size;
    return 0;
}

static int disk_read(struct okv_file *file, void *buffer, size_t length, uint64_t offset,
                     size_t *got)
{
    uint64_t there = offset < file->size ? file->size - offset : 0;

    *got = length < there ? length : there;
    memcpy(buffer, file->now + offset, *got);
    return 0;
}

static int disk_sync_names(struct okv_files *files)
{
    int rc = call();

    for (unsigned i = 0; !rc && i < disk_of(files)->count; i++)
        disk.all[i].is_name_durable = disk.all[i].is_named;
    return rc;
}

static int disk_list(struct okv_files *files, int (*each)(const char *name, void *user), void *user)
{
    int rc = 0;

    (void)files;
    for (unsigned i = 0; i < disk.count && rc == 0; i++)
        if (disk.all[i].is_named)
            rc = each(disk.all[i].name, user);
    return rc;
}

static const struct okv_file_ops disk_ops = {
    .create = disk_create,
    .open = disk_open,
    .close = disk_close,
    .write = disk_write,
    .sync = disk_sync,
    .read = disk_read,
    .sync_names = disk_sync_names,
    .list = disk_list,
};

/* The machine runs again. What it had written is in the page cache, if only its process died. */
static void disk_go_on(void)
{
    disk.calls_left = UINT32_MAX;
    disk.fails_at = disk.calls = 0;
    disk.before_sync = NULL;
}

/* Each sector that was not synced is as before or as written, and so is the size; a name that was
 * not synced may be gone. */
static void disk_crash(uint64_t *random)
{
    for (unsigned i = 0; i < disk.count; i++) {
        struct okv_file *file = &disk.all[i];
        for (uint64_t at = 0; at < file->size; at += SECTOR)
            if (okv_random_next(random) % 2)
                memcpy(file->durable + at, file->now + at, SECTOR);
        if (okv_random_next(random) % 2)
            file->durable_size = file->size;
        if (okv_random_next(random) % 2)
            file->is_named = file->is_name_durable;
        file->is_name_durable = file->is_named;
        memcpy(file->now, file->durable, FILE_SIZE);
        file->size = file->durable_size;
        memset(file->now + file->size, 0, FILE_SIZE - file->size);
    }
    disk_go_on();
}

static void disk_begin(void)
{
    disk = (struct disk){.files.ops = &disk_ops, .calls_left = UINT32_MAX};
}

static void disk_end(void)
{
    for (unsigned i = 0; i < disk.count; i++) {
        free(disk.all[i].now);
        free(disk.all[i].durable);
    }
}

/* ---- a server without sessions ---- */

struct machine {
    uint8_t *region;
    struct okv_store store;
    struct okv_store_work work;
    struct okv_wal wal;
    struct okv_wal_found found;
    pthread_mutex_t lock;
    pthread_cond_t ended;
};

static void notify(void *user)
{
    struct machine *machine = user;

    pthread_mutex_lock(&machine->lock);
    pthread_cond_signal(&machine->ended);
    pthread_mutex_unlock(&machine->lock);
}

/* Returns what okv_wal_start() does; before it, all must go well. */
static int machine_start(struct machine *machine)
{
    struct okv_diag diag = {.text = ""};

    machine->region =
        mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_mutex_init(&machine->lock, NULL);
    pthread_cond_init(&machine->ended, NULL);
    int rc = okv_wal_open(&machine->wal, &disk.files, &diag);
    if (rc)
        fail_msg("open: %s", diag.text);
    const struct okv_store_params params = {.base = machine->region,
                                            .length = REGION,
                                            .bucket_size = 256,
                                            .max_value = 4096,
                                            .boot_id = 77,
                                            .hash_seed = machine->wal.segment.hash_seed};
    assert_int_equal(okv_store_init(&machine->store, &params), 0);
    assert_int_equal(okv_store_work_init(&machine->work, params.bucket_size), 0);
    rc = okv_wal_replay(&machine->wal, &machine->store, &machine->found, &diag);
    if (rc)
        fail_msg("replay: %s", diag.text);
    return okv_wal_start(&machine->wal, notify, machine, &diag);
}

static void machine_free(struct machine *machine)
{
    okv_wal_close(&machine->wal);
    okv_store_work_fini(&machine->work);
    okv_store_fini(&machine->store);
    munmap(machine->region, REGION);
    pthread_mutex_destroy(&machine->lock);
    pthread_cond_destroy(&machine->ended);
}

static void machine_stop(struct machine *machine)
{
    okv_wal_stop(&machine->wal);
    machine_free(machine);
}

static int await(struct machine *machine, uint64_t batch)
{
    int status = 0;

    pthread_mutex_lock(&machine->lock);
    while (!okv_wal_is_done(&machine->wal, batch, &status))
        pthread_cond_wait(&machine->ended, &machine->lock);
    pthread_mutex_unlock(&machine->lock);
    return status;
}

/* ---- histories ---- */

/* The number that a key has; 0: it is not there. */
struct state {
    uint32_t numbers[KEYS];
};

struct history {
    struct machine machine;
    uint64_t random;
    struct state answered; /* after the last batch that was answered */
    struct state last;     /* after the batch that got no answer */
    uint32_t next;
    bool has_changed; /* a reader saw what was not answered */
};

static uint32_t read_key(struct okv_store *store, unsigned key)
{
    uint8_t value[4096];
    uint32_t length, number;
    uint64_t version;
    int rc = okv_store_get(store, &key, sizeof key, value, sizeof value, &length, &version);

    if (rc == OKV_ENOTFOUND)
        return 0;
    assert_int_equal(rc, 0);
    memcpy(&number, value, sizeof number);
    for (uint32_t i = 4; i < length; i++)
        assert_int_equal(value[i], (uint8_t)number);
    return number;
}

static struct state read_all(struct okv_store *store)
{
    struct state state;

    for (unsigned key = 0; key < KEYS; key++)
        state.numbers[key] = read_key(store, key);
    return state;
}

static void expect_nothing_new(void *user)
{
    struct history *history = user;
    struct state seen = read_all(&history->machine.store);

    if (memcmp(&seen, &history->answered, sizeof seen) != 0)
        history->has_changed = true;
}

static int change(struct history *history)
{
    struct machine *machine = &history->machine;
    unsigned key = (unsigned)(okv_random_next(&history->random) % KEYS);
    uint64_t choice = okv_random_next(&history->random) % 8;
    struct okv_store_outcome outcome;
    uint8_t value[2048];
    struct okv_store_write write = {.key = &key, .key_length = sizeof key, .value = value};
    int rc;

    if (choice == 0) {
        rc = okv_store_delete(&machine->store, &machine->work, &write, &outcome);
        if (rc == 0)
            history->last.numbers[key] = 0;
        return rc == OKV_ENOTFOUND ? 0 : rc;
    }
    uint32_t number = ++history->next;
    write.value_length = choice < 5 ? 8 : 8 + (uint32_t)(okv_random_next(&history->random) % 2000);
    memset(value, (int)(uint8_t)number, write.value_length);
    memcpy(value, &number, sizeof number);
    rc = okv_store_put(&machine->store, &machine->work, &write, &outcome);
    if (rc == 0)
        history->last.numbers[key] = number;
    return rc;
}

/* A batch of changes. Returns 0 if it was answered. */
static int run_batch(struct history *history)
{
    struct machine *machine = &history->machine;
    unsigned changes = 1 + (unsigned)(okv_random_next(&history->random) % CHANGES_MAX);
    int rc = 0;

    history->last = history->answered;
    while (!okv_wal_enter(&machine->wal)) /* the end of the last batch, still */
        sched_yield();
    while (changes-- > 0 && rc == 0)
        rc = change(history);
    uint64_t batch = okv_wal_hold(&machine->wal);
    okv_wal_leave(&machine->wal);
    int status = await(machine, batch);
    if (rc == 0 && status == 0)
        history->answered = history->last;
    return rc ? rc : status;
}

static void history_begin(struct history *history, uint64_t seed)
{
    *history = (struct history){.random = seed};
    disk_begin();
    disk.before_sync = expect_nothing_new;
    disk.user = history;
}

/* After a crash: the state is the one that was answered, or that of the batch under way. */
static void expect_recovery(struct history *history)
{
    assert_int_equal(machine_start(&history->machine), 0);
    struct state found = read_all(&history->machine.store);
    bool is_answered = memcmp(&found, &history->answered, sizeof found) == 0;
    bool is_last = memcmp(&found, &history->last, sizeof found) == 0;
    if (!is_answered && !is_last)
        fail_msg("the state after the crash is none that was");
    history->answered = history->last = found;
}

static unsigned seeds(void)
{
    const char *is_long = getenv("OKV_LONG");

    return is_long && strcmp(is_long, "1") == 0 ? SEEDS_LONG : SEEDS;
}

/* Runs batches until the machine stops at a call, crashes, recovers, and does so again. */
static void crash_at_any_call(void **state)
{
    struct history *history = calloc(1, sizeof *history);

    (void)state;
    for (uint64_t seed = 1; seed <= seeds(); seed++) {
        history_begin(history, seed);
        for (unsigned round = 0; round < 3; round++) {
            disk.calls_left = (unsigned)(okv_random_next(&history->random) % 40);
            int rc = machine_start(&history->machine);
            if (rc) {
                machine_free(&history->machine);
            } else {
                while (run_batch(history) == 0)
                    continue;
                machine_stop(&history->machine);
            }
            assert_false(history->has_changed);
            if (okv_random_next(&history->random) % 2)
                disk_crash(&history->random);
            else
                disk_go_on();
            expect_recovery(history);
            machine_stop(&history->machine);
            /* What a start has shown stays. */
            disk_crash(&history->random);
            expect_recovery(history);
            machine_stop(&history->machine);
            disk.before_sync = expect_nothing_new;
        }
        disk_end();
    }
    free(history);
}

static void expect_refusal(struct machine *machine)
{
    const struct okv_store_write write = {
        .key = "key", .key_length = 3, .value = "value", .value_length = 5};
    struct okv_store_outcome outcome;

    while (!okv_wal_enter(&machine->wal))
        sched_yield();
    assert_int_equal(okv_store_put(&machine->store, &machine->work, &write, &outcome),
                     OKV_EREADONLY);
    okv_wal_leave(&machine->wal);
}

/* A call fails once: nothing that it left behind is answered, seen or brought back as a success. */
static void a_failure_is_final(void **state)
{
    struct history *history = calloc(1, sizeof *history);

    (void)state;
    for (uint64_t seed = 1; seed <= seeds(); seed++) {
        history_begin(history, seed);
        assert_int_equal(machine_start(&history->machine), 0);
        disk.fails_at = disk.calls + 1 + (unsigned)(okv_random_next(&history->random) % 20);
        int rc = 0;
        while (rc == 0)
            rc = run_batch(history);
        assert_int_equal(rc, OKV_EUNKNOWN);
        struct state seen = read_all(&history->machine.store);
        assert_memory_equal(&seen, &history->answered, sizeof seen);
        struct state last = history->last;
        expect_refusal(&history->machine);
        assert_false(history->has_changed);
        machine_stop(&history->machine);
        history->last = last;
        disk_crash(&history->random);
        expect_recovery(history);
        machine_stop(&history->machine);
        disk_end();
    }
    free(history);
}

/* Damage in front of a batch that is whole is no cut. */
static void damage_stops_the_start(void **state)
{
    struct history *history = calloc(1, sizeof *history);
    struct okv_diag diag = {.text = ""};
    struct okv_wal wal;

    (void)state;
    history_begin(history, 9);
    assert_int_equal(machine_start(&history->machine), 0);
    for (unsigned i = 0; i < BATCHES; i++)
        assert_int_equal(run_batch(history), 0);
    machine_stop(&history->machine);
    disk.before_sync = NULL;
    disk.all[0].now[OKV_WAL_HEADER_SIZE + 60] ^= 1;
    assert_int_equal(okv_wal_open(&wal, &disk.files, &diag), 0);
    assert_int_equal(
        okv_store_init(&history->machine.store,
                       &(struct okv_store_params){.base = mmap(NULL, REGION, PROT_READ | PROT_WRITE,
                                                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                                                  .length = REGION,
                                                  .bucket_size = 256,
                                                  .max_value = 4096,
                                                  .boot_id = 1}),
        0);
    assert_int_equal(okv_wal_replay(&wal, &history->machine.store, &history->machine.found, &diag),
                     OKV_ECORRUPT);
    assert_non_null(strstr(diag.text, "log.0000000000000001 is damaged at byte 4096"));
    munmap(history->machine.store.table.base, REGION);
    okv_store_fini(&history->machine.store);
    okv_wal_close(&wal);
    disk_end();
    free(history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crash_at_any_call),
        cmocka_unit_test(a_failure_is_final),
        cmocka_unit_test(damage_stops_the_start),
    };

    return cmocka_run_group_tests_name("wal crashes", tests, NULL, NULL);
}
