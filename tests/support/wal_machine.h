/* A durable store on a crash_disk: a server without sessions. */
#ifndef OKV_TESTS_WAL_MACHINE_H
#define OKV_TESTS_WAL_MACHINE_H

#include "server/store/commands.h"
#include "server/store/pending.h"
#include "server/store/store.h"
#include "server/wal/copies/copies.h"
#include "server/wal/recovery/recover.h"
#include "server/wal/snapshot/schedule.h"
#include "server/wal/state.h"
#include "tests/support/crash_disk.h"

/* Bytes of a value that is written to files from where it is. */
#define WAL_MACHINE_LONG 6000

struct wal_machine {
    struct crash_disk *disk;
    struct okv_files *files;  /* of the disk; others may be set between init and start */
    uint64_t length;          /* of the region */
    bool wipes;               /* freed memory; set between init and start */
    enum okv_store_full full; /* likewise */
    uint64_t sync_within_ns;  /* of the log; likewise */
    uint32_t max_value;       /* of the store; likewise */
    const struct okv_wal_clients *clients;      /* likewise; or NULL */
    const struct okv_wal_identity *identity;    /* likewise; or NULL: from chance */
    const struct okv_wal_copies_params *copies; /* likewise; NULL: it has none */
    uint64_t keep;                              /* bytes of frames in memory; likewise */
    const char *restore; /* a snapshot that the next start begins with; NULL: none */
    uint64_t epoch;      /* that the next start begins; 0: none */
    uint8_t *region;
    struct okv_store store;
    struct okv_store_work work;
    struct okv_wal *wal;
    struct okv_wal_found found;
    uint64_t read;  /* bytes, as the start said at last */
    unsigned reads; /* how often it said so */
    struct okv_diag diag;
    void (*report)(void *user, enum okv_wal_event event, const char *why); /* or NULL */
    void *report_user;
    pthread_mutex_t lock;
    pthread_cond_t ended;
};

void wal_machine_init(struct wal_machine *machine, struct crash_disk *disk, uint64_t length);
/* Returns 0, or what okv_wal_open(), recover or start did; machine->diag says why. */
int wal_machine_start(struct wal_machine *machine);
/* After a start that went well. */
void wal_machine_stop(struct wal_machine *machine);
/* As kill -9: no snapshot, and the disk has what was written. */
void wal_machine_kill(struct wal_machine *machine);

/* Changes are made between enter, which waits for the end of a batch, and leave, which waits until
 * they are answered, and returns 0 or why they are not. */
void wal_machine_enter(struct wal_machine *machine);
int wal_machine_leave(struct wal_machine *machine);
/* Puts a value that has a file of its own, between enter and leave. OKV_EUNKNOWN: the disk failed.
 */
int wal_machine_put_long(struct wal_machine *machine, const struct okv_store_write *write,
                         struct okv_store_outcome *outcome);
/* What the value of a key begins with, and then repeats the lowest byte of; 0 without the item. */
uint32_t wal_machine_number(struct okv_store *store, unsigned key);
/* Makes a snapshot and waits for its end. Returns 0, or why it failed. */
int wal_machine_snapshot(struct wal_machine *machine);
/* The log is so long that the next batch begins a snapshot, unless one is being made. */
void wal_machine_let_grow(struct wal_machine *machine);

#endif
