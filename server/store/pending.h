/*
 * Images that wait for the log.
 *
 * The changes of a durable store come in batches. A change puts the images that it makes here, and
 * the next change of that bucket goes on from them, while readers still have the published ones.
 * When the log has made the batch durable, its images are published; only then the memory is freed
 * that they do not refer to any more.
 *
 *   collecting   changes come, each with a record for the log
 *   publish      all images go to the region
 *   direct       changes are published at once: between two batches those that need no record
 *                (resizing, compaction), and all in a log that does not sync each batch
 *
 * Threads. The images of a bucket are under its lock. No change may begin while images are
 * published or dropped; the log's gate ensures that (server/wal/wal.h).
 */
#ifndef OKV_SERVER_STORE_PENDING_H
#define OKV_SERVER_STORE_PENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store/publish.h"
#include "server/store/state.h"

/* What a change makes of an item. */
struct okv_store_record {
    const void *key;
    uint32_t key_length;
    const void *value; /* NULL: it is gone */
    uint32_t value_length;
    uint64_t expiry_ms;
    bool is_part;                      /* as in okv_store_write */
    const struct okv_store_copy *copy; /* the log has the value there; NULL: it has not */
};

/* Where records go. */
struct okv_store_log {
    /* Before a change: takes a copy of the record. OKV_EAGAIN: the batch is full (for records of
     * removals and of parts of a change only far beyond the usual limit); OKV_EREADONLY: the log
     * failed; OKV_EDISKFULL: its disk has no room, which stays so until the gate was closed;
     * OKV_ENOMEM. */
    int (*begin)(void *user, const struct okv_store_record *record);
    /* After begin: the change was made and has this version, or it was not made. */
    void (*end)(void *user, bool was_made, uint64_t version);
    /* Before a direct change of bucket `number`, whose images in the region are those of before;
     * the bucket is locked. NULL: nobody wants to know. */
    void (*before)(void *user, uint64_t number);
    /* Whether so much waits for the disk that what takes many steps is to go on later. */
    bool (*is_crowded)(void *user);
    /* Has the batch end soon, though it may have no record. */
    void (*wake)(void *user);
    void *user;
};

struct okv_store_pending_bucket;

/* A start fills the heap in another order, which leaves other holes. So that what fits before a
 * crash fits after it, changes may not use this share of the region. It is held in pieces. */
#define OKV_STORE_SLACK_SHARE 32
#define OKV_STORE_SLACK_PIECES 16

struct okv_store_pending {
    struct okv_store_log log;
    bool is_direct;
    uint64_t slack[OKV_STORE_SLACK_PIECES];
    atomic_uint slack_count;
    struct okv_store_pending_bucket *buckets[OKV_STORE_LOCKS]; /* lists, by lock */
    atomic_uint_fast64_t wants_room; /* bytes that a change found no room for; 0: none did */
    atomic_bool is_exhausted;        /* making room was given up before this batch */
    pthread_mutex_t lock;            /* of what follows */
    uint64_t *freed;                 /* offsets to free when the batch is published */
    size_t freed_count, freed_capacity;
};

/* Makes the store collect. It has no readers yet. OKV_ENOMEM. */
int okv_store_pending_begin(struct okv_store *store, const struct okv_store_log *log);
void okv_store_pending_end(struct okv_store *store);
/* Has changes published at once, each with a record, or collected. Nothing is pending, and no
 * change is under way. */
void okv_store_pending_set_direct(struct okv_store *store, bool is_direct);

/* Bytes of the heap that are held for starts; 0 without a log. Any thread. */
uint64_t okv_store_slack_length(const struct okv_store *store);
/* Allocates the pieces of the slack that are missing, as far as the heap has room. No change is
 * under way. */
void okv_store_take_slack(struct okv_store *store);

/* Calls `each` for every bucket whose image is published next. */
void okv_store_pending_each(struct okv_store *store, void (*each)(void *user, uint64_t number),
                            void *user);
/* Publishes all images and frees what they do not refer to. */
void okv_store_pending_publish(struct okv_store *store);
/* Forgets them; the published images stay. What they had allocated is lost. */
void okv_store_pending_drop(struct okv_store *store);

/* ---- for the files of the store ---- */

/* The current image of page `page`, at `offset`, of a bucket. */
const uint8_t *okv_store_current_image(const struct okv_table *table, uint64_t number,
                                       unsigned page, uint64_t offset);
/* Whether changes go to the images that wait. */
static inline bool okv_store_is_collecting(const struct okv_table *table)
{
    return table->pending && !table->pending->is_direct;
}
/* Tells the log that the bucket's images in the region are about to change, unless they wait. */
static inline void okv_store_before_change(const struct okv_table *table, uint64_t number)
{
    if (table->pending && table->pending->is_direct && table->pending->log.before)
        table->pending->log.before(table->pending->log.user, number);
}
/* Whether a flush, a sweep or a series of merges is to go on later. */
static inline bool okv_store_is_crowded(const struct okv_table *table)
{
    return table->pending && table->pending->log.is_crowded(table->pending->log.user);
}
/* Ensures that the images of so many pages can be put. OKV_ENOMEM. */
int okv_store_pending_reserve(const struct okv_table *table, uint64_t number, unsigned pages);
/* Publishes the images of a bucket, or keeps a copy of them until the batch is published. After
 * okv_store_pending_reserve() for as many pages, so it never fails. */
void okv_store_publish_or_stage(const struct okv_table *table,
                                const struct okv_store_images *images);
/* Whether a change that found no room for so many bytes is to be tried again, after this batch. */
bool okv_store_pending_waits_for_room(struct okv_store *store, uint64_t size);
/* Frees an extent or a page that published images may refer to. */
void okv_store_free(const struct okv_table *table, uint64_t offset);

#endif
