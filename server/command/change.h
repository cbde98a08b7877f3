/*
 * A change scope: every change to the items of a database is made within one.
 *
 *   begin   shares the lock of exclusive commands (exclusive.h), then enters the batch that the
 *           database's log collects; never the other way round
 *   end     leaves both, and says which batch the answer has to wait for
 *
 * Within the scope the caller also adds what belongs to the change, such as the record of a reply.
 */
#ifndef OKV_SERVER_COMMAND_CHANGE_H
#define OKV_SERVER_COMMAND_CHANGE_H

#include <stdbool.h>
#include <stdint.h>

struct okv_database;
struct okv_exclusive;
struct okv_executor;
struct okv_wal;

/* Belongs to one thread. Ending one of zeros does nothing. */
struct okv_change {
    struct okv_exclusive *exclusive; /* that it shares, or NULL */
    struct okv_wal *wal;             /* whose batch it entered, or NULL */
};

/* A change that exclusive commands exclude. False: one runs, or the log takes no change at the
 * moment; try again. `ticket` is that of okv_exclusive_share(), which may block. */
bool okv_change_begin(struct okv_change *change, const struct okv_executor *executor,
                      uint64_t *ticket);
/* Enters the batch only: for housekeeping, which exclusive commands do not exclude, and for
 * commands of RESP clients, whose worker shares the lock already. Never blocks. */
bool okv_change_begin_batch(struct okv_change *change, struct okv_database *database);
/* Returns the batch that the answer waits for; 0: it may leave at once. With `is_done` false
 * nothing was changed, and there is no answer to wait. */
uint64_t okv_change_end(struct okv_change *change, bool is_done);

#endif
