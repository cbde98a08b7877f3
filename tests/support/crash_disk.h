/*
 * A disk that keeps apart what was not synced. A crash loses any of its sectors and names. Calls
 * can fail, or stop the machine. Used by tests of the log in the place of a directory.
 *
 * Threads. Any thread may call the operations. The test changes fields only while no operation is
 * under way, but for what says otherwise.
 */
#ifndef OKV_TESTS_CRASH_DISK_H
#define OKV_TESTS_CRASH_DISK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/wal/file.h"

#define CRASH_DISK_FOREVER UINT32_MAX

struct crash_disk {
    struct okv_files files;
    struct okv_file *all; /* list */
    uint64_t random;
    unsigned calls_left;             /* until the machine stops; CRASH_DISK_FOREVER: never */
    unsigned log_fails_in;           /* that write or sync of a log fails with EIO; 0: none */
    unsigned snapshot_faults;        /* of 100 calls for a snapshot, those that fail with EIO */
    const char *unreadable;          /* file of which reads fail with EIO; NULL: none */
    void (*before_sync)(void *user); /* of a batch */
    void *user;
    uint64_t space;        /* bytes that are left; UINT64_MAX: as many as anybody wants */
    bool log_had_no_space; /* in a write */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned log_syncs;
    unsigned write_outs;
    unsigned holds_snapshots; /* a snapshot is created when the log was synced so often more */
};

void crash_disk_init(struct crash_disk *disk, uint64_t seed);
void crash_disk_fini(struct crash_disk *disk);
/* From here on snapshots are not held up. Any time. */
void crash_disk_release(struct crash_disk *disk);

/* Has a write or sync of a log fail again, `in` of them later, when one did. Any time. */
void crash_disk_fail_again(struct crash_disk *disk, unsigned in);

/* From here on every call fails. Any time. */
void crash_disk_stop(struct crash_disk *disk);
/* The process has died, and what it wrote is in the page cache. */
void crash_disk_go_on(struct crash_disk *disk);
/* The machine has lost its power: each sector that was not synced is as before or as written, and
 * so are the size and the name of each file. */
void crash_disk_crash(struct crash_disk *disk);

/* Sets the bytes that are left. Any time. */
void crash_disk_set_space(struct crash_disk *disk, uint64_t space);

/* The bytes of a file, or NULL if there is no file of that name. */
uint8_t *crash_disk_bytes(struct crash_disk *disk, const char *name, uint64_t *size);
/* The number of files whose names begin so. Any time. */
unsigned crash_disk_count(struct crash_disk *disk, const char *prefix);

#endif
