/*
 * What a server that evicts knows of how often items are used: a record for each bucket, beside the
 * region, which no client reads.
 *
 * A record has about as many cells as a bucket has items. A cell belongs to the
 * items with its tag, the 16 bits of the hash that choose no bucket; an item without a cell of its
 * own shares another one. A cell has the item's kind and a counter of its uses, 0 to 3. A record
 * also has the prints of items that were evicted while they were new, its ghosts: if such an item
 * comes back, it is not new.
 *
 * A record is rewritten with its bucket, under the bucket's lock. Marks take no lock: a mark may be
 * lost, or meet another item's cell, which costs nothing but a worse choice.
 *
 * The algorithm is S3-FIFO (Yang et al., SOSP 2023) in the order of the hash, where the queues are
 * two hands that pass over the buckets: docs/cache.md.
 */
#ifndef OKV_SERVER_STORE_HEAT_H
#define OKV_SERVER_STORE_HEAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/store/bucket.h"

enum okv_heat_kind {
    OKV_HEAT_NEW,
    OKV_HEAT_PASSED, /* new, and the hand has passed it once */
    OKV_HEAT_MAIN,
};

/* The heat of an item: its kind and its counter. */
#define OKV_HEAT_COUNTER_MAX 3u
static inline uint8_t okv_heat_make(enum okv_heat_kind kind, unsigned counter)
{
    return (uint8_t)((unsigned)kind << 2 | counter);
}
static inline enum okv_heat_kind okv_heat_kind_of(uint8_t heat)
{
    return (enum okv_heat_kind)(heat >> 2);
}
static inline unsigned okv_heat_counter_of(uint8_t heat)
{
    return heat & 3u;
}
static inline uint8_t okv_heat_hotter(uint8_t heat)
{
    return okv_heat_counter_of(heat) < OKV_HEAT_COUNTER_MAX ? heat + 1 : heat;
}
static inline bool okv_heat_is_new(uint8_t heat)
{
    return okv_heat_kind_of(heat) != OKV_HEAT_MAIN;
}
/* Clients need not report further reads. */
static inline bool okv_heat_is_quiet(uint8_t heat)
{
    return okv_heat_counter_of(heat) >= 2;
}

/* Of a database. */
struct okv_heat {
    uint64_t buckets;
    uint32_t cells;  /* of a record */
    uint32_t stride; /* bytes of a record */
    uint8_t *records;
};

/* Memory is taken as buckets come into use. NULL: there is none. */
struct okv_heat *okv_heat_create(uint64_t buckets, uint32_t bucket_size);
/* Accepts NULL. */
void okv_heat_destroy(struct okv_heat *heat);

/* Bits 48 to 63 of a key's hash, which choose no bucket, identify an item below. */

/* ---- a record, as it is ---- */

uint8_t okv_heat_of(const struct okv_heat *heat, uint64_t bucket, uint16_t tag);
/* Of an item that its bucket does not have. */
uint8_t okv_heat_of_new(const struct okv_heat *heat, uint64_t bucket, uint16_t tag);
/* Before okv_heat_mark(), which then need not wait for memory. */
void okv_heat_prefetch(const struct okv_heat *heat, uint64_t bucket);
/* Notes a use. Any thread, without a lock. */
void okv_heat_mark(const struct okv_heat *heat, uint64_t bucket, uint16_t tag);

/* ---- a record in private memory, of OKV_HEAT_RECORD_MAX bytes ---- */

/* Begins one with the ghosts of `bucket`. */
void okv_heat_begin(const struct okv_heat *heat, uint8_t *record, uint64_t bucket);
/* Removes the items, before all are added again. */
void okv_heat_clear(const struct okv_heat *heat, uint8_t *record);
void okv_heat_add(const struct okv_heat *heat, uint8_t *record, uint16_t tag, uint8_t item);
void okv_heat_add_ghost(const struct okv_heat *heat, uint8_t *record, uint16_t tag);
uint8_t okv_heat_added(const struct okv_heat *heat, const uint8_t *record, uint16_t tag);
/* Makes it the record of `bucket`. */
void okv_heat_store(const struct okv_heat *heat, const uint8_t *record, uint64_t bucket);

#endif
