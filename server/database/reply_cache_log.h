/*
 * Reply caches of a durable database: what they know of writes that changed something is in the log
 * and in snapshots, so that a client that comes back to a server that was started again goes on
 * (docs/durability.md sections 1 and 2).
 *
 * A refusal is not in the log: it changed nothing, and the resent write is judged anew.
 */
#ifndef OKV_SERVER_DATABASE_REPLY_CACHE_LOG_H
#define OKV_SERVER_DATABASE_REPLY_CACHE_LOG_H

#include "server/database/reply_cache.h"

struct okv_wal;
struct okv_wal_record;

/* Between okv_wal_begin_change() and okv_wal_end_change(), after a write was applied and before
 * okv_reply_cache_done(): adds the reply to the batch that has the write, unless it refuses the
 * write. */
void okv_reply_cache_log(struct okv_reply_cache *reply_cache, struct okv_wal *wal,
                         uint64_t session_id, const struct okv_reply_message *reply);

/* For struct okv_wal_clients; `reply_caches` is a struct okv_reply_caches. */
void okv_reply_caches_save(void *reply_caches,
                           void (*emit)(void *to, const struct okv_wal_record *record), void *to);
int okv_reply_caches_recover(void *reply_caches, const struct okv_wal_record *record);
/* Emits what okv_reply_caches_recover() has taken in. */
void okv_reply_caches_save_recovered(struct okv_reply_caches *reply_caches,
                                     void (*emit)(void *to, const struct okv_wal_record *record),
                                     void *to);
/* After a replay: above all ids of sessions so far, at `least` if that is. Not every session left a
 * record, so there is room for many more. Ids rise by less than a half of 2^32, since a client says
 * the low half of its last one. */
uint64_t okv_reply_caches_next_session(struct okv_reply_caches *reply_caches, uint64_t least);
/* Makes idle reply caches of what was recovered, those used last if there are more than may be.
 * `first` is above all ids of sessions before this start, and below those after it. */
void okv_reply_caches_adopt(struct okv_reply_caches *reply_caches, uint64_t first, uint64_t now_ms);
/* In a cluster, after the replay of a start: records come in the order of the log from here on.
 * Those of the clients that wrote last are kept, of at most twice as many as there may be reply
 * caches. The others do not resume. */
void okv_reply_caches_follow(struct okv_reply_caches *reply_caches);
/* In a cluster, when this copy has become the primary and no session of an earlier epoch is left:
 * drops all reply caches, which may know what was never published, and adopts what the log has.
 * That stays, for okv_reply_caches_recover() goes on. `first` as for okv_reply_caches_adopt(). */
void okv_reply_caches_begin_epoch(struct okv_reply_caches *reply_caches, uint64_t first,
                                  uint64_t now_ms);
/* Forgets what was recovered; after a replay that failed. */
void okv_reply_caches_abandon(struct okv_reply_caches *reply_caches);

#endif
