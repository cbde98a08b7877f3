/*
 * The table: superblock, directory, buckets and heap in one region.
 *
 * The index grows and shrinks with the data, one bucket at a time (resize.c,
 * shared/format/linear.h). Its segments come from the heap, like extents and overflow pages.
 *
 * Threads. Every call may be made from any thread; each thread brings its own struct
 * okv_store_work. A change locks its bucket with one of a fixed number of locks (locking.h). Splits
 * and merges also hold a lock of their own. Clients take no lock; bucket_image.c and
 * publish.h list what they may rely on.
 *
 * Time. The caller sets the clock (okv_store_set_clock). No call sees an expired item. The next
 * change or sweep of its bucket removes it.
 *
 * The store knows neither sessions nor connections.
 */
#ifndef OKV_SERVER_STORE_STORE_H
#define OKV_SERVER_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store/commands.h"
#include "server/store/state.h"

struct okv_store_params {
    void *base;           /* zeros, page-aligned; borrowed until okv_store_fini() */
    uint64_t length;      /* bytes, a multiple of a page */
    uint32_t bucket_size; /* okv_bucket_size_valid() */
    uint32_t inline_max; /* bytes of the largest entry kept inline; 0: a third of a bucket's room */
    uint32_t extra_reads;     /* of 1000 items, how many may need an extra READ before a bucket is
                                 split; 0: OKV_EXTRA_READS_FULL when all memory is used, fewer in
                                 proportion while less is, but at least an eighth of it */
    uint32_t index_percent;   /* largest share of the region for the index; 0: the default */
    uint32_t max_value;       /* bytes of the largest value, up to OKV_VALUE_MAX */
    enum okv_store_full full; /* what happens when a change finds no room */
    bool wipe;        /* zero freed memory: the region holds no byte of a value that is gone, once
                         okv_heap_wipe() has nothing left */
    uint64_t boot_id; /* not 0 */
    uint64_t hash_seed;
};
#define OKV_INDEX_PERCENT_DEFAULT 75

/*
 * Makes an empty table. OKV_EINVAL: a parameter is not as documented, or the region is too small
 * for a first segment and a page of heap. OKV_ENOMEM: no further heap.
 */
int okv_store_init(struct okv_store *store, const struct okv_store_params *params);
void okv_store_fini(struct okv_store *store);
/* Of a store that never had an item, and that nobody READs. */
void okv_store_set_hash_seed(struct okv_store *store, uint64_t hash_seed);
/* Any thread, also while it is set. */
uint64_t okv_store_hash_seed(struct okv_store *store);

/* OKV_ENOMEM. */
int okv_store_work_init(struct okv_store_work *work, uint32_t bucket_size);
void okv_store_work_fini(struct okv_store_work *work);
/* Work since the last call, in units of core/turn.h. */
uint64_t okv_store_work_take(struct okv_store_work *work);

/* Sets the clock, in ms, at least 1; an earlier time than before is ignored. With `publish`, also
 * writes the status block. */
void okv_store_set_clock(struct okv_store *store, uint64_t clock_ms, bool publish);
/* The wall clock when the store's clock had the time that it shows, which is a tick ago. With both
 * an expiry stays where it is in a log that is read at another start. */
uint64_t okv_store_clock_wall_ms(const struct okv_store *store);

/*
 * Copies the value to buffer[0..size), which is a use of the item unless it fails. `*length` and
 * `*version` are the item's. `work`, unless it is NULL, only counts the pages that were searched.
 * OKV_EKEYSIZE; OKV_ENOTFOUND; OKV_ETOOSMALL: `*length` is the size needed, nothing was copied;
 * OKV_ECORRUPT.
 */
int okv_store_get(struct okv_store *store, struct okv_store_work *work, const void *key,
                  uint32_t key_length, void *buffer, uint32_t size, uint32_t *length,
                  uint64_t *version);

struct okv_store_view {
    bool newest;       /* with changes of the current batch (pending.h); else what is published */
    bool is_use;       /* counts as a use of the item (heat.h), unless `visit` fails */
    uint64_t clock_ms; /* a time that the store's clock had, where time stands still; 0: now */
};
/* Calls `visit` with the item while its bucket is locked. `work` as above. OKV_EKEYSIZE,
 * OKV_ENOTFOUND, OKV_ECORRUPT, or what `visit` returns. */
typedef int okv_store_visit(void *user, const struct okv_store_now *now);
int okv_store_look(struct okv_store *store, struct okv_store_work *work, const void *key,
                   uint32_t key_length, const struct okv_store_view *view, okv_store_visit *visit,
                   void *user);

/* Notes a use of each item with one of these hashes of 8 bytes; they need not be there. Any thread,
 * where items are evicted. */
void okv_store_mark(struct okv_store *store, const uint8_t *hashes, size_t count);

/* Bytes of the heap that segments of the index take, including the one in reserve. */
uint64_t okv_store_index_length(const struct okv_store *store);
/* Bytes of the heap that overflow pages take. */
uint64_t okv_store_overflow_length(const struct okv_store *store);

#endif
