#include "tests/support/crash_disk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/wal/listing.h"
#include "shared/base/random.h"

#define SECTOR 512u

struct okv_file {
    struct crash_disk *disk;
    struct okv_file *next;
    char name[OKV_WAL_NAME_SIZE], durable_name[OKV_WAL_NAME_SIZE]; /* "": none */
    struct okv_file *replaces; /* has lost its name to this one; NULL: none, or durably */
    bool is_replaced;          /* by such a one */
    uint8_t *now, *durable;    /* what the page cache has, and the disk */
    uint64_t size, durable_size, capacity;
    uint64_t synced; /* bytes from the beginning that both have */
    uint64_t taken;  /* of the disk's space */
};

static struct crash_disk *disk_of(struct okv_files *files)
{
    return (struct crash_disk *)files;
}

static bool is_of(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Whether the call takes place, and how it ends otherwise. Under the lock. */
static int call(struct crash_disk *disk, const char *name, bool is_write, struct okv_diag *why)
{
    bool is_log = is_of(name, OKV_WAL_SEGMENT) || is_of(name, OKV_WAL_BLOB);

    if (disk->calls_left == 0)
        return okv_file_failed(ENODEV, why);
    disk->calls_left -= disk->calls_left != CRASH_DISK_FOREVER;
    if (is_log && is_write && disk->log_fails_in && --disk->log_fails_in == 0)
        return okv_file_failed(EIO, why);
    if (!is_log && okv_random_next(&disk->random) % 100 < disk->snapshot_faults)
        return okv_file_failed(EIO, why);
    return 0;
}

static struct okv_file *find_file(const struct crash_disk *disk, const char *name)
{
    struct okv_file *file = disk->all;

    while (file && strcmp(file->name, name) != 0)
        file = file->next;
    return file;
}

/* Snapshots come to their end while the log goes on. */
static void hold_snapshot(struct crash_disk *disk, const char *name)
{
    unsigned until = disk->log_syncs + disk->holds_snapshots;

    while (is_of(name, OKV_WAL_SNAPSHOT) && disk->holds_snapshots && disk->calls_left &&
           disk->log_syncs < until)
        pthread_cond_wait(&disk->changed, &disk->lock);
}

static int disk_create(struct okv_files *files, const char *name, struct okv_file **out,
                       struct okv_diag *why)
{
    struct crash_disk *disk = disk_of(files);

    pthread_mutex_lock(&disk->lock);
    hold_snapshot(disk, name);
    int rc = call(disk, name, false, why);
    if (rc == 0 && find_file(disk, name))
        rc = okv_file_failed(EEXIST, why);
    if (rc == 0) {
        *out = calloc(1, sizeof **out);
        (*out)->disk = disk;
        (*out)->next = disk->all;
        snprintf((*out)->name, sizeof(*out)->name, "%s", name);
        disk->all = *out;
    }
    pthread_mutex_unlock(&disk->lock);
    return rc;
}

static int disk_reopen(struct okv_files *files, const char *name, struct okv_file **out,
                       struct okv_diag *why)
{
    struct crash_disk *disk = disk_of(files);

    pthread_mutex_lock(&disk->lock);
    int rc = call(disk, name, false, why);
    *out = find_file(disk, name);
    pthread_mutex_unlock(&disk->lock);
    return rc || *out ? rc : okv_file_failed(ENOENT, why);
}

static int disk_open(struct okv_files *files, const char *name, struct okv_file **out,
                     struct okv_diag *why)
{
    struct crash_disk *disk = disk_of(files);

    pthread_mutex_lock(&disk->lock);
    *out = find_file(disk, name);
    pthread_mutex_unlock(&disk->lock);
    return *out ? 0 : okv_file_failed(ENOENT, why);
}

static void disk_close(struct okv_file *file)
{
    (void)file;
}

/* Has the file take the disk's space up to `end`. Under the lock. */
static int take(struct okv_file *file, uint64_t end, struct okv_diag *why)
{
    struct crash_disk *disk = file->disk;
    uint64_t more = end > file->taken ? end - file->taken : 0;

    if (more > disk->space)
        return okv_file_failed(ENOSPC, why);
    if (disk->space != UINT64_MAX)
        disk->space -= more;
    file->taken += more;
    return 0;
}

/* Leaves it the space up to `end`. Under the lock. */
static void give_back(struct okv_file *file, uint64_t end)
{
    if (file->disk->space != UINT64_MAX)
        file->disk->space += file->taken - end;
    file->taken = end;
}

static int disk_reserve(struct okv_file *file, uint64_t offset, uint64_t length,
                        struct okv_diag *why)
{
    pthread_mutex_lock(&file->disk->lock);
    int rc = call(file->disk, file->name, false, why);
    if (rc == 0)
        rc = take(file, offset + length, why);
    pthread_mutex_unlock(&file->disk->lock);
    return rc;
}

/* What the disk has of it may come back. Under the lock. */
static void cut_off(struct okv_file *file, uint64_t end)
{
    memset(file->now + end, 0, file->size - end);
    file->size = end;
    file->synced = end < file->synced ? end : file->synced;
}

static int disk_trim(struct okv_files *files, const char *name, uint64_t end, struct okv_diag *why)
{
    struct crash_disk *disk = disk_of(files);

    pthread_mutex_lock(&disk->lock);
    struct okv_file *file = find_file(disk, name);
    int rc = call(disk, name, false, why);
    if (rc == 0 && file) {
        cut_off(file, file->size < end ? file->size : end);
        give_back(file, file->size);
    }
    pthread_mutex_unlock(&disk->lock);
    return rc;
}

static void allocate(struct okv_file *file, uint64_t size)
{
    uint64_t capacity = size > 2 * file->capacity ? size + SECTOR : 2 * file->capacity;

    if (size <= file->capacity)
        return;
    file->now = realloc(file->now, capacity);
    file->durable = realloc(file->durable, capacity);
    memset(file->now + file->capacity, 0, capacity - file->capacity);
    memset(file->durable + file->capacity, 0, capacity - file->capacity);
    file->capacity = capacity;
}

static int disk_write(struct okv_file *file, struct iovec *vectors, unsigned count, uint64_t offset,
                      struct okv_diag *why)
{
    pthread_mutex_lock(&file->disk->lock);
    int rc = call(file->disk, file->name, true, why);
    for (unsigned i = 0; !rc && i < count; offset += vectors[i].iov_len, i++) {
        uint64_t end = offset + vectors[i].iov_len;
        rc = take(file, end, why);
        if (rc) {
            file->disk->log_had_no_space |= is_of(file->name, OKV_WAL_SEGMENT);
            break;
        }
        allocate(file, end);
        memcpy(file->now + offset, vectors[i].iov_base, vectors[i].iov_len);
        file->size = end > file->size ? end : file->size;
        file->synced = offset < file->synced ? offset : file->synced;
    }
    pthread_mutex_unlock(&file->disk->lock);
    return rc;
}

static int disk_sync(struct okv_file *file, struct okv_diag *why)
{
    struct crash_disk *disk = file->disk;
    bool is_log = is_of(file->name, OKV_WAL_SEGMENT);

    if (is_log && strcmp(file->name, OKV_WAL_SEGMENT_PART) != 0 && disk->before_sync)
        disk->before_sync(disk->user);
    pthread_mutex_lock(&disk->lock);
    int rc = call(disk, file->name, true, why);
    if (rc == 0 && file->size > file->synced)
        memcpy(file->durable + file->synced, file->now + file->synced, file->size - file->synced);
    if (rc == 0)
        file->durable_size = file->synced = file->size;
    disk->log_syncs += is_log;
    pthread_cond_broadcast(&disk->changed);
    pthread_mutex_unlock(&disk->lock);
    return rc;
}

/* A crash decides about each sector. */
static int disk_write_out(struct okv_file *file, uint64_t offset, uint64_t length,
                          struct okv_diag *why)
{
    (void)offset, (void)length;
    pthread_mutex_lock(&file->disk->lock);
    int rc = call(file->disk, file->name, true, why);
    file->disk->write_outs++;
    pthread_mutex_unlock(&file->disk->lock);
    return rc;
}

static int disk_read(struct okv_file *file, void *buffer, size_t length, uint64_t offset,
                     size_t *got, struct okv_diag *why)
{
    const char *unreadable = file->disk->unreadable;

    if (unreadable && strcmp(file->name, unreadable) == 0)
        return okv_file_failed(EIO, why);
    pthread_mutex_lock(&file->disk->lock);
    uint64_t there = offset < file->size ? file->size - offset : 0;
    *got = length < there ? length : there;
    if (*got)
        memcpy(buffer, file->now + offset, *got);
    pthread_mutex_unlock(&file->disk->lock);
    return 0;
}

static int disk_size(struct okv_file *file, uint64_t *out, struct okv_diag *why)
{
    (void)why;
    pthread_mutex_lock(&file->disk->lock);
    *out = file->size;
    pthread_mutex_unlock(&file->disk->lock);
    return 0;
}

/* Under the lock: gives the file of this name another one. */
static int name_again(struct crash_disk *disk, const char *from, const char *to,
                      struct okv_diag *why)
{
    struct okv_file *file = find_file(disk, from);
    struct okv_file *before = to[0] ? find_file(disk, to) : NULL;
    int rc = call(disk, from, false, why);

    if (rc)
        return rc;
    if (!file)
        return okv_file_failed(ENOENT, why);
    if (before) {
        before->name[0] = '\0';
        before->is_replaced = true;
        file->replaces = before;
        give_back(before, 0);
    }
    if (!to[0])
        give_back(file, 0);
    snprintf(file->name, sizeof file->name, "%s", to);
    return 0;
}

static int disk_rename(struct okv_files *files, const char *from, const char *to,
                       struct okv_diag *why)
{
    struct crash_disk *disk = disk_of(files);

    pthread_mutex_lock(&disk->lock);
    int rc = name_again(disk, from, to, why);
    pthread_mutex_unlock(&disk->lock);
    return rc;
}

static int disk_remove(struct okv_files *files, const char *name, struct okv_diag *why)
{
    return disk_rename(files, name, "", why);
}

static void name_durably(struct okv_file *file)
{
    memcpy(file->durable_name, file->name, sizeof file->name);
    file->replaces = NULL;
    file->is_replaced = false;
}

static int disk_sync_names(struct okv_files *files, struct okv_diag *why)
{
    struct crash_disk *disk = disk_of(files);

    pthread_mutex_lock(&disk->lock);
    int rc = call(disk, OKV_WAL_SEGMENT, false, why);
    for (struct okv_file *file = disk->all; !rc && file; file = file->next)
        name_durably(file);
    pthread_mutex_unlock(&disk->lock);
    return rc;
}

/* Files that are new come at the head, where this does not look any more. */
static int disk_list(struct okv_files *files, int (*each)(const char *name, void *user), void *user,
                     struct okv_diag *why)
{
    struct crash_disk *disk = disk_of(files);
    char name[OKV_WAL_NAME_SIZE];
    int rc = 0;

    (void)why;
    pthread_mutex_lock(&disk->lock);
    for (struct okv_file *file = disk->all; file && rc == 0; file = file->next) {
        if (!file->name[0])
            continue;
        memcpy(name, file->name, sizeof name);
        pthread_mutex_unlock(&disk->lock);
        rc = each(name, user);
        pthread_mutex_lock(&disk->lock);
    }
    pthread_mutex_unlock(&disk->lock);
    return rc;
}

static const struct okv_file_ops disk_ops = {
    .create = disk_create,
    .reopen = disk_reopen,
    .open = disk_open,
    .close = disk_close,
    .write = disk_write,
    .reserve = disk_reserve,
    .trim = disk_trim,
    .sync = disk_sync,
    .write_out = disk_write_out,
    .read = disk_read,
    .size = disk_size,
    .rename = disk_rename,
    .remove = disk_remove,
    .sync_names = disk_sync_names,
    .list = disk_list,
};

/* ---- what befalls it ---- */

void crash_disk_init(struct crash_disk *disk, uint64_t seed)
{
    *disk = (struct crash_disk){.files.ops = &disk_ops,
                                .calls_left = CRASH_DISK_FOREVER,
                                .random = seed,
                                .space = UINT64_MAX};
    pthread_mutex_init(&disk->lock, NULL);
    pthread_cond_init(&disk->changed, NULL);
}

void crash_disk_fini(struct crash_disk *disk)
{
    struct okv_file *file;

    while ((file = disk->all)) {
        disk->all = file->next;
        free(file->now);
        free(file->durable);
        free(file);
    }
    pthread_mutex_destroy(&disk->lock);
    pthread_cond_destroy(&disk->changed);
}

void crash_disk_fail_again(struct crash_disk *disk, unsigned in)
{
    pthread_mutex_lock(&disk->lock);
    if (disk->log_fails_in == 0)
        disk->log_fails_in = in;
    pthread_mutex_unlock(&disk->lock);
}

void crash_disk_set_space(struct crash_disk *disk, uint64_t space)
{
    pthread_mutex_lock(&disk->lock);
    disk->space = space;
    pthread_mutex_unlock(&disk->lock);
}

void crash_disk_release(struct crash_disk *disk)
{
    pthread_mutex_lock(&disk->lock);
    disk->holds_snapshots = 0;
    disk->log_syncs += 1000;
    pthread_cond_broadcast(&disk->changed);
    pthread_mutex_unlock(&disk->lock);
}

void crash_disk_stop(struct crash_disk *disk)
{
    pthread_mutex_lock(&disk->lock);
    disk->calls_left = 0;
    pthread_mutex_unlock(&disk->lock);
}

void crash_disk_go_on(struct crash_disk *disk)
{
    disk->calls_left = CRASH_DISK_FOREVER;
    disk->log_fails_in = disk->snapshot_faults = disk->holds_snapshots = 0;
    disk->before_sync = NULL;
}

static bool toss(struct crash_disk *disk)
{
    return okv_random_next(&disk->random) % 2;
}

static void crash_bytes(struct crash_disk *disk, struct okv_file *file)
{
    for (uint64_t at = 0; at < file->size; at += SECTOR) {
        uint64_t length = file->size - at < SECTOR ? file->size - at : SECTOR;
        if (toss(disk))
            memcpy(file->durable + at, file->now + at, length);
    }
    if (toss(disk))
        file->durable_size = file->size;
    file->size = file->synced = file->durable_size;
    if (file->size)
        memcpy(file->now, file->durable, file->size);
    if (file->capacity > file->size) {
        memset(file->now + file->size, 0, file->capacity - file->size);
        memset(file->durable + file->size, 0, file->capacity - file->size);
    }
}

static void lose_name(struct okv_file *file)
{
    memcpy(file->name, file->durable_name, sizeof file->name);
    if (file->replaces)
        memcpy(file->replaces->name, file->replaces->durable_name, sizeof file->name);
}

/* A rename that replaces a file takes place as a whole, or not at all: rename(2). */
static void crash_name(struct crash_disk *disk, struct okv_file *file)
{
    if (!file->is_replaced && strcmp(file->name, file->durable_name) != 0 && toss(disk) &&
        !(file->durable_name[0] && find_file(disk, file->durable_name)))
        lose_name(file);
}

void crash_disk_crash(struct crash_disk *disk)
{
    for (struct okv_file *file = disk->all; file; file = file->next) {
        crash_bytes(disk, file);
        crash_name(disk, file);
    }
    for (struct okv_file *file = disk->all; file; file = file->next)
        name_durably(file);
    crash_disk_go_on(disk);
}

uint8_t *crash_disk_bytes(struct crash_disk *disk, const char *name, uint64_t *size)
{
    struct okv_file *file = find_file(disk, name);

    if (size && file)
        *size = file->size;
    return file ? file->now : NULL;
}

unsigned crash_disk_count(struct crash_disk *disk, const char *prefix)
{
    unsigned count = 0;

    pthread_mutex_lock(&disk->lock);
    for (const struct okv_file *file = disk->all; file; file = file->next)
        count += is_of(file->name, prefix);
    pthread_mutex_unlock(&disk->lock);
    return count;
}
