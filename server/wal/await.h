/* What the log's thread waits for. */
#ifndef OKV_SERVER_WAL_AWAIT_H
#define OKV_SERVER_WAL_AWAIT_H

#include <stdbool.h>

struct okv_wal;

/* Under the lock: waits until the thread is wanted, or something is due without a request. */
void okv_wal_await_request(struct okv_wal *wal);
/* Waits until there is a batch to end. False: the thread is to end. */
bool okv_wal_await_batch(struct okv_wal *wal);
/* Whether an answer waits for the batch in wal->writing. */
bool okv_wal_is_awaited(const struct okv_wal *wal);

#endif
