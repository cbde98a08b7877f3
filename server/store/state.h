/*
 * The state of a store, and the working memory of a thread that changes it. The files of this
 * folder share it; other rooms use the functions of store.h, commands.h and of the headers of
 * single tasks.
 */
#ifndef OKV_SERVER_STORE_STATE_H
#define OKV_SERVER_STORE_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/store/bucket.h"
#include "server/store/heap.h"
#include "shared/format/bucket_edit.h"
#include "shared/format/superblock.h"

/* Buckets whose numbers agree modulo this share a lock. A split makes bucket b + 2^l from b, and
 * there are never fewer buckets than locks, so one lock covers both. */
#define OKV_STORE_LOCKS 64
#define OKV_STORE_BUCKETS_MIN OKV_STORE_LOCKS

/* See extra_reads of struct okv_store_params. */
#define OKV_EXTRA_READS_FULL 40

/* Counters that any thread adds to. Each is exact; while changes are under way, two of them may
 * differ by a change. */
struct okv_store_totals {
    atomic_uint_fast64_t items;
    atomic_uint_fast64_t user_bytes;  /* of keys and values */
    atomic_uint_fast64_t entry_bytes; /* of entries in primary and overflow pages */
    atomic_uint_fast64_t references;  /* items that are not inline */
    atomic_uint_fast64_t extra_reads; /* items whose get takes more READs than it should: small
                                         ones in extents, and all in overflow pages */
    atomic_uint_fast64_t overflow_pages;
    atomic_uint_fast64_t expiring;              /* items with an expiry */
    atomic_uint_fast64_t heat_bytes, new_bytes; /* as in okv_store_tally */
    atomic_uint_fast64_t splits;
    atomic_uint_fast64_t merges;
    atomic_uint_fast64_t changes; /* that callers asked for and that were made */
    atomic_uint_fast64_t expired; /* items removed because they expired */
};

/* See evict.h. Counters are of items unless they say otherwise. */
struct okv_store_eviction {
    enum okv_store_full mode;
    atomic_bool is_of_another; /* as okv_store_pending_follow() has it */
    struct okv_store_hand {
        atomic_uint_fast64_t next; /* bucket; beyond the last one: the first */
    } new_hand, main_hand;
    atomic_uint_fast64_t evicted_new, evicted_main; /* all that were evicted */
    atomic_uint_fast64_t evicted_in_bucket;         /* of these, for room in their bucket */
    atomic_int_fast64_t crowding;                   /* see okv_store_is_crowded() */
    atomic_uint_fast64_t evicted_bytes;             /* of keys and values */
    atomic_uint_fast64_t copied_bytes;              /* to put free memory together */
    atomic_uint_fast64_t puts_of_evicted;           /* of ghosts */
    atomic_uint_fast64_t refused;                   /* changes */
    struct okv_store_clearing *clearing;            /* see clear.h; NULL: nothing is evicted */
};

/* A short step is this part of a sweep or a compaction, and ends after OKV_STORE_STEP_PAGES. */
#define OKV_STORE_SHORT_STEPS 32u
#define OKV_STORE_STEP_PAGES 32u
/* Pages of a step that is not short, about a millisecond. */
#define OKV_STORE_LONG_STEP_PAGES 1024u

#define OKV_STORE_ALONE UINT64_MAX

struct okv_effort;
struct okv_store_clearing;

/* Do not move it while the store lives. */
struct okv_store {
    struct okv_table table;
    struct okv_heap heap;
    uint64_t length;
    uint64_t buckets_max; /* what the directory and index_percent allow */
    uint32_t max_value;
    uint32_t extra_reads; /* as in the parameters; 0: tolerance() of resize.c chooses */
    atomic_uint_fast64_t bucket_count;
    atomic_uint_fast64_t clock_ms;
    /* As in `lease`, for checks without a lock; OKV_STORE_ALONE: it is no member of a cluster. */
    atomic_uint_fast64_t valid_until_us;
    atomic_uint_fast64_t clock_origin_ms; /* of okv_clock_boot_ms(), when the clock is 0; 0: it is
                                             not known */
    atomic_uint_fast64_t index_length;    /* bytes of the heap that segments take */
    struct okv_store_compaction {
        uint64_t next;       /* bucket at which the pass continues */
        uint64_t moved;      /* extents in this pass */
        uint64_t bytes;      /* moved in this step */
        bool downwards;      /* this pass moves every extent that finds a better position */
        uint64_t not_before; /* changes at which another pass is worthwhile */
    } compaction;            /* under `resizing` */
    /* How changes find room in a full heap (room.h). */
    struct okv_store_room {
        atomic_bool is_merging;                   /* a segment is given up; under `resizing` */
        atomic_uint_fast64_t refused, not_before; /* this size and more, below that many changes */
    } room;
    /* Heap kept back for merges, once there are several segments; 0: none. */
    atomic_uint_fast64_t reserve;
    atomic_uint_fast64_t swept; /* bucket at which okv_store_sweep() continues */
    /* Changes to let pass before growth, or a merge, is tried again. */
    atomic_int growth_pause, shrink_pause;
    struct okv_store_totals totals;
    struct okv_store_eviction eviction;
    struct okv_store_fullness {
        atomic_bool is_full;
        atomic_uint_fast64_t user_bytes; /* when a write was refused last */
        void (*report)(void *user, bool is_full);
        void *user;
    } fullness;
    pthread_mutex_t resizing; /* splits and merges; acquired before a bucket's lock */
    struct okv_store_lease {
        struct okv_table_lease table;
        uint32_t longest_ms;    /* what it is renewed for */
    } lease;                    /* under `publishing` */
    pthread_mutex_t publishing; /* of the status block */
    pthread_mutex_t locks[OKV_STORE_LOCKS];
};

/* What makes holes: changes that were made, and items that expired. */
static inline uint64_t okv_store_count_changes(const struct okv_store *store)
{
    return atomic_load(&store->totals.changes) + atomic_load(&store->totals.expired);
}

/* Working memory of one thread: private copies of what it changes. */
struct okv_store_work {
    struct okv_store_bucket bucket;
    struct okv_store_bucket sibling; /* the other bucket of a split or merge */
    struct okv_store_update {
        uint64_t number;
        uint64_t offset;          /* of the bucket */
        const uint8_t *published; /* the current image */
        uint8_t *image;           /* the next one */
        struct okv_bucket_cursor cursor;
        uint64_t hash;            /* of the key */
        struct okv_entry current; /* at the cursor, once okv_store_update_read() read it */
    } update;                     /* of one entry (update_in_place.c) */
    /* Expensive work of a call, for fair shares. Callers clear them. */
    unsigned loaded_pages; /* of buckets: taken apart, or searched by a get */
    uint64_t bytes;        /* of values: copied, hashed, or copied to a log */
    unsigned room_steps;   /* calls of okv_store_make_room(), since ever */
    /* Of a worker: steps of maintenance are short, and changes that make room wait between them. */
    bool in_steps;
    struct okv_effort *effort; /* of the request that it serves; zeros at its begin */
};

/* Whether a step that began at this number of loaded pages goes on. */
static inline bool okv_store_step_goes_on(const struct okv_store_work *work, unsigned loaded_pages)
{
    return !work->in_steps || work->loaded_pages - loaded_pages < OKV_STORE_STEP_PAGES;
}

#endif
