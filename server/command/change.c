#include "server/command/change.h"

#include "server/command/exclusive.h"
#include "server/command/execute.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/wal/wal.h"

bool okv_change_begin(struct okv_change *change, const struct okv_executor *executor,
                      uint64_t *ticket)
{
    struct okv_exclusive *exclusive = executor->server->exclusive;

    if (!okv_exclusive_share(exclusive, ticket))
        return false;
    if (!okv_change_begin_batch(change, executor->database)) {
        okv_exclusive_unshare(exclusive);
        return false;
    }
    change->exclusive = exclusive;
    return true;
}

bool okv_change_begin_batch(struct okv_change *change, struct okv_database *database)
{
    struct okv_wal *wal = database->wal;

    *change = (struct okv_change){.wal = wal};
    return wal ? okv_wal_begin_change(wal) : !database->opened; /* else it has yet to begin */
}

uint64_t okv_change_end(struct okv_change *change, bool is_done)
{
    uint64_t batch = change->wal && is_done ? okv_wal_request_commit(change->wal) : 0;

    if (change->wal)
        okv_wal_end_change(change->wal);
    okv_exclusive_unshare(change->exclusive);
    return batch;
}
