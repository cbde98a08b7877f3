/*
 * The fixture of resp_talk.h with a log: the first database is durable, on a disk of crash_disk.h
 * that may hold up a sync.
 */
#ifndef OKV_TESTS_RESP_DURABLE_H
#define OKV_TESTS_RESP_DURABLE_H

#include <poll.h>
#include <semaphore.h>

#include "tests/support/test.h"

#include "server/resp/resp.h"
#include "server/wal/recovery/recover.h"
#include "server/wal/wal.h"
#include "tests/support/crash_disk.h"
#include "tests/support/resp_talk.h"

struct durable {
    struct crash_disk disk;
    struct okv_wal *wal;
    sem_t may_sync;
    atomic_bool is_held;
};

static inline void hold_sync(void *user)
{
    struct durable *durable = user;

    if (atomic_load(&durable->is_held))
        sem_wait(&durable->may_sync);
}

static inline void notify(void *user)
{
    (void)user;
}

/* The first database has a log. */
static inline struct durable *open_durable(void)
{
    struct durable *durable = calloc(1, sizeof *durable);
    struct okv_database *database = fixture.core.server->databases;
    const struct okv_wal_params wal_params = {.notify = notify};
    const struct okv_wal_recovery store = {&database->store, NULL, NULL, NULL};
    struct okv_wal_found found;

    sem_init(&durable->may_sync, 0, 0);
    crash_disk_init(&durable->disk, 1);
    assert_int_equal(okv_wal_open(&durable->wal, &durable->disk.files, NULL, NULL), 0);
    assert_int_equal(okv_wal_recover(durable->wal, &store, &found, NULL), 0);
    assert_int_equal(okv_wal_start(durable->wal, &wal_params, NULL), 0);
    durable->disk.user = durable;
    durable->disk.before_sync = hold_sync;
    database->wal = durable->wal;
    return durable;
}

static inline void let_sync(struct durable *durable)
{
    atomic_store(&durable->is_held, false);
    sem_post(&durable->may_sync);
}

static inline void close_durable(struct durable *durable)
{
    okv_resp_end_all(fixture.worker.resp);
    fixture.core.server->databases->wal = NULL;
    okv_wal_stop(durable->wal);
    okv_wal_close(durable->wal);
    crash_disk_fini(&durable->disk);
    sem_destroy(&durable->may_sync);
    free(durable);
}

/* Waits for bytes that come when the log's thread has done something. */
static inline void await(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

    for (unsigned i = 0; i < 60000; i++) {
        pass();
        if (poll(&poll_fd, 1, 1) > 0)
            return;
    }
    fail();
}

#endif
