/*
 * Reads a table from its raw bytes, the way a client does, and checks all of it
 * the way no client can: for tests of the store, while nobody writes.
 */
#ifndef OKV_TESTS_STORE_READER_H
#define OKV_TESTS_STORE_READER_H

#include <stdint.h>

/* What a walk over the whole table found. */
struct store_audit {
    uint64_t items;
    uint64_t user_bytes;
    uint64_t references;
    uint64_t overflow_parts;
    uint64_t heap_bytes;    /* of extents and overflow parts, without rounding */
    uint64_t longest_chain; /* parts of the bucket that has most */
};

/* The value of a key, copied to buffer[0..size). OKV_ENOTFOUND; OKV_ECORRUPT when
 * a check of docs/consistency.md section 3 fails, which at rest is a bug. */
int store_reader_get(const uint8_t *region, uint64_t length, const void *key, uint32_t key_length,
                     uint8_t *buffer, uint32_t size, uint32_t *value_length, uint64_t *version);

/* Where a key is: the offset of its extent, 0 when it is inline; and its part. Returns as get. */
int store_reader_place(const uint8_t *region, uint64_t length, const void *key, uint32_t key_length,
                       uint64_t *extent, unsigned *part);

/* Walks everything; fails the test when an image or an extent is not whole, a
 * key is in the wrong bucket or twice, or two pieces of the heap overlap. */
void store_reader_audit(const uint8_t *region, uint64_t length, struct store_audit *out);

#endif
