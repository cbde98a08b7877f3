/* What the log's thread waits for. */
#ifndef OKV_SERVER_WAL_AWAIT_H
#define OKV_SERVER_WAL_AWAIT_H

#include <stdbool.h>
#include <stdint.h>

struct okv_wal;

/* Until when the thread polls before it sleeps, if it waits from now on. Where there are copies,
 * each batch waits for messages that take microseconds, and so does waking a thread. */
uint64_t okv_wal_poll_until_ns(const struct okv_wal *wal);
/* The thread begins something that takes long only where its disk does. */
void okv_wal_note_step(struct okv_wal *wal);
/* Under the lock, which it leaves meanwhile: a step of a wait for `wanted`, or until `due_ns`
 * (UINT64_MAX: never). */
void okv_wal_pause(struct okv_wal *wal, uint64_t poll_until_ns, uint64_t due_ns);

/* Under the lock: waits until the thread is wanted, or something is due without a request. */
void okv_wal_await_request(struct okv_wal *wal);
/* Waits until there is a batch to end. False: the thread is to end. */
bool okv_wal_await_batch(struct okv_wal *wal);
/* Whether an answer waits for the batch in wal->writing. */
bool okv_wal_is_awaited(const struct okv_wal *wal);

#endif
