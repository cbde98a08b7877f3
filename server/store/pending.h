/*
 * Staged images: those that wait for the log.
 *
 * The changes of a durable store come in batches. A change stages its images here, and the next
 * change of that bucket starts from them, while readers still see the published ones. When the log
 * has made the batch durable, its images are published. Memory that they no longer refer to is
 * freed then.
 *
 *   collecting   changes are staged, each with a record for the log
 *   publish      all staged images are written to the region
 *   direct       changes are published at once: between two batches those that need no record
 *                (resizing, compaction), and all in a log that does not sync each batch
 *
 * Threads. The images of a bucket are under its lock. No change may begin while images are
 * published or dropped; the log's batch lock ensures that (server/wal/wal.h).
 */
#ifndef OKV_SERVER_STORE_PENDING_H
#define OKV_SERVER_STORE_PENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store/publish.h"
#include "server/store/state.h"

/* What a change is to a batch that has little room. */
enum okv_store_log_kind {
    OKV_STORE_LOG_CHANGE,
    OKV_STORE_LOG_REMOVAL,  /* needs no room in the store: accepted while the log has any */
    OKV_STORE_LOG_EVICTION, /* as a change, but nobody waits for it */
    OKV_STORE_LOG_PART,     /* is_part of okv_store_write: exceeds the limit by far, if need be */
    OKV_STORE_LOG_SET,      /* of a change_set.h: likewise */
};

/* The effect of a change on an item, as the log records it. */
struct okv_store_record {
    enum okv_store_log_kind kind;
    const void *key;
    uint32_t key_length;
    const void *value; /* NULL: it was removed */
    uint32_t value_length;
    uint64_t expiry_ms;
    const struct okv_store_copy *copy; /* the log has the value there; NULL: it has not */
    uint64_t version;
};

/* The log, as the store sees it. */
struct okv_store_log {
    /* Whether it accepts records. OKV_EREADONLY: the log failed; OKV_EDISKFULL: the disk is full,
     * at least until the batch ends. */
    int (*check)(void *user);
    /* Copies the records of a change that cannot fail any more: all of them, or none. What matters
     * is the kind of the last one. Errors as of `check`; OKV_EAGAIN: the batch is full; OKV_ENOMEM;
     * OKV_EVALUESIZE: no batch has room for such a set. */
    int (*add)(void *user, const struct okv_store_record *records, size_t count);
    /* Before a direct change of bucket `number`, while the region still has the images of before.
     * The bucket is locked. Or NULL. */
    void (*before)(void *user, uint64_t number);
    /* Whether so much waits for the disk that work of many steps should pause. */
    bool (*is_throttled)(void *user);
    /* Ends the batch soon, even if it has no record. */
    void (*wake)(void *user);
    void *user;
};

struct okv_store_pending_bucket;

/* Recovery fills the heap in another order, which leaves other holes. So that everything that fits
 * before a crash fits after it, changes may not use this share of the region, the slack. It is
 * allocated in pieces. */
#define OKV_STORE_SLACK_SHARE 32
#define OKV_STORE_SLACK_PIECES 16

struct okv_store_pending {
    struct okv_store_log log;
    bool is_direct;         /* now; it changes under the lock of the batch */
    bool is_direct_at_rest; /* outside of maintenance: as okv_store_pending_set_direct() has it */
    uint64_t slack[OKV_STORE_SLACK_PIECES];
    atomic_uint slack_count;
    struct okv_store_pending_bucket *buckets[OKV_STORE_LOCKS]; /* lists, by lock */
    atomic_uint_fast64_t wants_room; /* bytes for which a change found no room; 0: none */
    atomic_bool is_exhausted;        /* before this batch, no room could be made */
    atomic_uint_fast64_t batches;    /* that were published */
    atomic_uint_fast64_t freed_size; /* bytes of what `freed` has */
    pthread_mutex_t lock;            /* of what follows */
    uint64_t *freed;                 /* offsets to free when the batch is published */
    size_t freed_count, freed_capacity;
};

/* Attaches a log: changes are staged from now on. The store has no readers yet. OKV_ENOMEM. */
int okv_store_pending_begin(struct okv_store *store, const struct okv_store_log *log);
void okv_store_pending_end(struct okv_store *store);
/* Switches between publishing each change at once, still with a record, and staging. Nothing is
 * staged, and no change is under way. */
void okv_store_pending_set_direct(struct okv_store *store, bool is_direct);

/* Whether the store takes over the changes of another one, which has found room for them: it evicts
 * nothing by itself. */
void okv_store_pending_follow(struct okv_store *store, bool follows);
/* Releases the slack: for changes of another store, which has found room for them in other places.
 * No change is under way. */
void okv_store_release_slack(struct okv_store *store);

/* Bytes of the slack; 0 without a log. Any thread. */
uint64_t okv_store_slack_length(const struct okv_store *store);
/* Allocates the pieces of the slack that are missing, as far as the heap has room. No change is
 * under way. */
void okv_store_take_slack(struct okv_store *store);

/* Calls `each` for every bucket with staged images. */
void okv_store_pending_each(struct okv_store *store, void (*each)(void *user, uint64_t number),
                            void *user);
/* Publishes all staged images and frees the memory that they no longer refer to. */
void okv_store_pending_publish(struct okv_store *store);
/* Discards them and frees the memory that they alone refer to; the published images stay. Without
 * memory for that, it is lost until the next start. */
void okv_store_pending_drop(struct okv_store *store);

/* ---- for the files of the store ---- */

/* Discards the staged images and what was to be freed with them. */
void okv_store_pending_discard(struct okv_store *store);
/* The current image of page `page`, at `offset`, of a bucket. */
const uint8_t *okv_store_current_image(const struct okv_table *table, uint64_t number,
                                       unsigned page, uint64_t offset);
/* Whether changes wait for the log, apart from those of maintenance. Any thread. */
static inline bool okv_store_waits_for_log(const struct okv_table *table)
{
    return table->pending && !table->pending->is_direct_at_rest;
}
/* Whether changes are staged. Within a change. */
static inline bool okv_store_is_collecting(const struct okv_table *table)
{
    return table->pending && !table->pending->is_direct;
}
/* Notifies the log that the bucket's images in the region are about to change, unless they are
 * staged.
 */
static inline void okv_store_before_change(const struct okv_table *table, uint64_t number)
{
    if (table->pending && table->pending->is_direct && table->pending->log.before)
        table->pending->log.before(table->pending->log.user, number);
}
/* Whether there is no log, or it accepts records: as of okv_store_log. */
static inline int okv_store_log_check(const struct okv_table *table)
{
    return table->pending ? table->pending->log.check(table->pending->log.user) : 0;
}
/* Adds records, if there is a log. */
static inline int okv_store_log_add(const struct okv_table *table,
                                    const struct okv_store_record *records, size_t count)
{
    return table->pending ? table->pending->log.add(table->pending->log.user, records, count) : 0;
}
/* Whether a flush, a sweep or a series of merges should pause. */
static inline bool okv_store_is_throttled(const struct okv_table *table)
{
    return table->pending && table->pending->log.is_throttled(table->pending->log.user);
}
/* Allocates the memory to stage `pages` pages. Pointers into current images stay valid until the
 * bucket is staged. OKV_ENOMEM. */
int okv_store_pending_reserve(const struct okv_table *table, uint64_t number, unsigned pages);
/* Publishes the images of a bucket, or keeps a copy of them until the batch is published. After
 * okv_store_pending_reserve() for as many pages, so it never fails. */
void okv_store_publish_or_stage(const struct okv_table *table,
                                const struct okv_store_images *images);
/* Whether a change that found no room for `size` bytes should be tried again after this batch. */
bool okv_store_pending_waits_for_room(struct okv_store *store, uint64_t size);
/* Bytes that will be free when the batch is published. Any thread. */
static inline uint64_t okv_store_freed_later(const struct okv_table *table)
{
    return table->pending ? atomic_load_explicit(&table->pending->freed_size, memory_order_relaxed)
                          : 0;
}
/* Frees an extent or a page that published images may refer to. */
void okv_store_free(const struct okv_table *table, uint64_t offset);

#endif
