/*
 * The table: superblock, directory, buckets and heap in one region.
 *
 * The index grows and shrinks with the data, one bucket at a time (resize.c,
 * shared/format/linear.h). Its segments come from the heap, like extents and overflow buckets.
 *
 * Threads: all calls may be made from any thread; each bucket's changes are made
 * one at a time, under one of a fixed number of locks, and splits and merges under
 * a lock of their own besides. Working memory (struct okv_store_work)
 * belongs to one thread. Readers outside take no lock: what they may rely on is in
 * bucket_image.c.
 *
 * Time: the clock is told by the caller (okv_store_set_clock). An item whose expiry
 * has come is not there for any call, and goes when its bucket is next changed
 * or swept.
 */
#ifndef OKV_SERVER_STORE_STORE_H
#define OKV_SERVER_STORE_STORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "server/store/bucket_image.h"
#include "server/store/heap.h"

/* Buckets whose numbers agree modulo this share a lock. A split makes bucket
 * b + 2^l from b, and there are never fewer buckets than locks: one lock covers both. */
#define OKV_STORE_LOCKS 64
#define OKV_STORE_BUCKETS_MIN OKV_STORE_LOCKS

struct okv_store_params {
    void *base;           /* zeros, the start of a page; borrowed until okv_store_fini() */
    uint64_t length;      /* bytes, a multiple of a page */
    uint32_t bucket_size; /* as okv_bucket_size_valid() wants it */
    uint32_t inline_max; /* bytes of the largest entry kept inline; 0: a third of a bucket's room */
    uint32_t extra_reads;   /* items of 1000 that may take more READs than they should before a
                               bucket is split; 0: OKV_EXTRA_READS_FULL where all memory is used,
                               in proportion fewer before, an eighth of it at least */
    uint32_t index_percent; /* most of the region that the index takes; 0: the default */
    uint32_t max_value;     /* bytes of the largest value, to OKV_VALUE_MAX */
    uint64_t boot_id;       /* not 0 */
    uint64_t hash_seed;
};
#define OKV_EXTRA_READS_FULL 40
#define OKV_INDEX_PERCENT_DEFAULT 75

/* Counters that several threads add to; read one by one, so they may be a
 * change apart from each other while changes are under way. */
struct okv_store_totals {
    atomic_uint_fast64_t items;
    atomic_uint_fast64_t user_bytes;  /* of keys and values */
    atomic_uint_fast64_t entry_bytes; /* of entries in buckets and overflow buckets */
    atomic_uint_fast64_t references;  /* items that are not inline */
    atomic_uint_fast64_t extra_reads; /* items whose get takes more READs than it should: small
                                         ones in extents, and all in overflow buckets */
    atomic_uint_fast64_t overflow_pages;
    atomic_uint_fast64_t expiring; /* items with an expiry */
    atomic_uint_fast64_t splits;
    atomic_uint_fast64_t merges;
    atomic_uint_fast64_t changes; /* that callers asked for and that were made */
    atomic_uint_fast64_t expired; /* items that went because their time had come */
};

/* What a thread needs to change the store; OKV_ENOMEM. */
struct okv_store_work {
    struct okv_store_bucket bucket;
    struct okv_store_bucket sibling; /* the other one of a split or merge */
    struct okv_entry extent_entry;   /* put: of the item whose value is in an extent */
    struct okv_store_patch {
        uint64_t number;
        uint8_t *published; /* the image that is there */
        uint8_t *image;     /* to come */
        struct okv_bucket_cursor cursor;
        struct okv_entry there; /* at the spot, once okv_store_patch_read() read it */
    } patch;                    /* a change of one entry (update_in_place.c) */
};
int okv_store_work_init(struct okv_store_work *work, uint32_t bucket_size);
void okv_store_work_fini(struct okv_store_work *work);

/* Do not move it while the store lives. */
struct okv_store {
    struct okv_table table;
    struct okv_heap heap;
    uint64_t length;
    uint64_t buckets_max; /* what the directory and index_percent allow */
    uint32_t max_value;
    uint32_t extra_reads; /* this one and the next as in the parameters */
    atomic_uint_fast64_t bucket_count;
    atomic_uint_fast64_t clock_ms;
    atomic_uint_fast64_t index_length; /* bytes of the heap that segments take */
    struct okv_store_compaction {
        uint64_t next;       /* bucket at which it goes on */
        uint64_t moved;      /* extents in this pass */
        uint64_t bytes;      /* moved in this step */
        bool downwards;      /* this pass moves whatever finds a better place */
        uint64_t not_before; /* changes at which another pass is worth while */
    } compaction;            /* under `resizing` */
    atomic_uint_fast64_t
        reserve; /* heap kept back for merges, once there are several segments; 0: none */
    atomic_uint_fast64_t swept; /* the bucket at which okv_store_sweep() goes on */
    atomic_int growth_pause;    /* changes to let pass before growth is tried again */
    struct okv_store_totals totals;
    pthread_mutex_t resizing;   /* splits and merges; taken before a bucket's lock */
    pthread_mutex_t publishing; /* of the status */
    pthread_mutex_t locks[OKV_STORE_LOCKS];
};

/*
 * Makes an empty table. OKV_EINVAL: a parameter is not as documented, or the
 * region is too small for a first segment and a page of heap. OKV_ENOMEM: no
 * further heap.
 */
int okv_store_init(struct okv_store *store, const struct okv_store_params *params);
void okv_store_fini(struct okv_store *store);

/* The server's clock, in ms, at least 1; never set back. Writes the status to the
 * region when `publish`. */
void okv_store_set_clock(struct okv_store *store, uint64_t clock_ms, bool publish);

/* What is to be written, and when. */
struct okv_store_write {
    const void *key;
    uint32_t key_length;
    const void *value; /* not with `extent` */
    uint32_t value_length;
    uint64_t
        extent; /* put: 0, or what okv_store_reserve() gave for these lengths; it holds the value */
    uint64_t ttl_ms; /* put, touch: at least so long after the call began; 0: never expires */
    bool if_absent;
    bool if_version;
    uint64_t version; /* what if_version requires */
    int64_t delta;    /* incr */
};

/* What came of it. */
struct okv_store_outcome {
    uint64_t version; /* new; with OKV_ECONFLICT and OKV_EEXISTS the one that is there; else 0 */
    int64_t number;   /* incr: the sum */
    uint64_t length;  /* append: of the whole value */
};

/*
 * Sets the value of a key. Key and value are copied; `extent` is used up on
 * success and still the caller's on failure. OKV_EKEYSIZE, OKV_EVALUESIZE;
 * OKV_EEXISTS, OKV_ECONFLICT, OKV_ENOTFOUND (if_version and not there); OKV_EFULL: no
 * room, the key keeps the value it had; OKV_ECORRUPT: the bucket's images make no
 * sense.
 */
int okv_store_put(struct okv_store *store, struct okv_store_work *work,
                  const struct okv_store_write *write, struct okv_store_outcome *outcome);
/* Adds `value` to the end of the value, or puts it. As okv_store_put. */
int okv_store_append(struct okv_store *store, struct okv_store_work *work,
                     const struct okv_store_write *write, struct okv_store_outcome *outcome);
/* Adds `delta` to the decimal integer that the value is, or to 0. Also OKV_ENUMBER,
 * OKV_EOVERFLOW; OKV_EVALUESIZE is of the sum. */
int okv_store_incr(struct okv_store *store, struct okv_store_work *work,
                   const struct okv_store_write *write, struct okv_store_outcome *outcome);
/* Sets when the item expires. OKV_ENOTFOUND; OKV_EFULL: its entry grew and there is no room. */
int okv_store_touch(struct okv_store *store, struct okv_store_work *work,
                    const struct okv_store_write *write, struct okv_store_outcome *outcome);
/* Removes a key; needs no room. OKV_EKEYSIZE, OKV_ENOTFOUND, OKV_ECONFLICT, OKV_ECORRUPT. */
int okv_store_delete(struct okv_store *store, struct okv_store_work *work,
                     const struct okv_store_write *write, struct okv_store_outcome *outcome);

/* Takes an extent for a value that is to be READ by rendezvous, and says in `*value_offset` where
 * in the region the value belongs. Returns the extent, or 0 when there is no room. */
uint64_t okv_store_reserve(struct okv_store *store, struct okv_store_work *work,
                           uint32_t key_length, uint32_t value_length, uint64_t *value_offset);
/* Gives back what no put has used up. */
void okv_store_release(struct okv_store *store, uint64_t extent);

/*
 * Copies the value to buffer[0..size). `*length` and `*version` are the item's.
 * OKV_EKEYSIZE; OKV_ENOTFOUND; OKV_ETOOSMALL: `*length` is the size needed,
 * nothing was copied; OKV_ECORRUPT.
 */
int okv_store_get(struct okv_store *store, const void *key, uint32_t key_length, void *buffer,
                  uint32_t size, uint32_t *length, uint64_t *version);

/*
 * One step of removing everything, of a bounded number of buckets: begin with
 * *next and *splits 0, call again with what it left there until *next is 0.
 */
int okv_store_flush(struct okv_store *store, struct okv_store_work *work, uint64_t *next,
                    uint64_t *splits);

/* Looks at up to `buckets` buckets, going on where the last sweep ended, and removes
 * what has expired in them. */
void okv_store_sweep(struct okv_store *store, struct okv_store_work *work, unsigned buckets);

/* Bytes of the heap that segments of the index take, the one in reserve included. */
uint64_t okv_store_index_length(const struct okv_store *store);
/* Bytes of the heap that overflow buckets take. */
uint64_t okv_store_overflow_length(const struct okv_store *store);

#endif
