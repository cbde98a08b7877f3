/*
 * The table: superblock, buckets and heap in one region.
 *
 * The number of buckets is fixed when the table is made; the index takes half
 * of the region, rounded down to a power of two, and the heap the rest.
 *
 * Threads: put, get and delete may be called from any thread; each bucket's
 * changes are made one at a time, under one of a fixed number of locks. A
 * working copy (struct okv_store_bucket) belongs to one thread. Readers outside
 * take no lock: what they may rely on is in store_bucket.c.
 */
#ifndef OKV_SERVER_STORE_H
#define OKV_SERVER_STORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "server/heap.h"
#include "server/store_bucket.h"

#define OKV_STORE_LOCKS 256

struct okv_store_params {
    void *base;           /* zeros, the start of a page; borrowed until okv_store_fini() */
    uint64_t length;      /* bytes, a multiple of a page */
    uint32_t bucket_size; /* as okv_bucket_size_valid() wants it */
    uint32_t inline_max;  /* bytes of the largest entry kept inline; 0: half a bucket's room */
    uint32_t max_value;   /* bytes of the largest value that put takes */
    uint64_t boot_id;     /* not 0 */
    uint64_t hash_seed;
};

/* Counters that several threads add to; read one by one, so they may be a
 * change apart from each other while changes are under way. */
struct okv_store_totals {
    atomic_uint_fast64_t items;
    atomic_uint_fast64_t user_bytes;
    atomic_uint_fast64_t references;
    atomic_uint_fast64_t overflow_parts;
};

/* Do not move it while the store lives. */
struct okv_store {
    struct okv_table table;
    struct okv_heap heap;
    uint64_t length;
    uint64_t bucket_count;
    uint64_t hash_seed;
    uint32_t max_value;
    struct okv_store_totals totals;
    pthread_mutex_t locks[OKV_STORE_LOCKS];
};

/*
 * Makes an empty table. OKV_EINVAL: a parameter is not as documented, or the
 * region is too small for a superblock, a bucket and a page of heap. OKV_ENOMEM:
 * no further heap.
 */
int okv_store_init(struct okv_store *store, const struct okv_store_params *params);
void okv_store_fini(struct okv_store *store);

/*
 * Sets the value of a key. `*version` is the item's new version. Key and value
 * are copied. OKV_EKEYSIZE, OKV_EVALUESIZE; OKV_EFULL: no room, the key keeps
 * the value it had; OKV_ECORRUPT: the bucket's images make no sense.
 */
int okv_store_put(struct okv_store *store, struct okv_store_bucket *work, const void *key,
                  uint32_t key_length, const void *value, uint32_t value_length, uint64_t *version);

/*
 * Copies the value to buffer[0..size). `*length` and `*version` are the item's.
 * OKV_EKEYSIZE; OKV_ENOTFOUND; OKV_ETOOSMALL: `*length` is the size needed,
 * nothing was copied; OKV_ECORRUPT.
 */
int okv_store_get(struct okv_store *store, const void *key, uint32_t key_length, void *buffer,
                  uint32_t size, uint32_t *length, uint64_t *version);

/* Removes a key; needs no room. OKV_EKEYSIZE, OKV_ENOTFOUND, OKV_ECORRUPT. */
int okv_store_delete(struct okv_store *store, struct okv_store_bucket *work, const void *key,
                     uint32_t key_length);

static inline uint64_t okv_store_index_length(const struct okv_store *store)
{
    return store->bucket_count * store->table.bucket_size;
}

#endif
