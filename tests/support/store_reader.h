/*
 * Reads a table from its raw bytes, as a client does (docs/consistency.md section 3), also while
 * other threads write. It keeps bucket count and directory until an image contradicts them.
 *
 * One thread uses a reader. It copies bytes word by word, without ThreadSanitizer: such READs race
 * with the writer by design.
 */
#ifndef OKV_TESTS_STORE_READER_H
#define OKV_TESTS_STORE_READER_H

#include <stdint.h>

#include "shared/format/bucket.h"
#include "shared/format/superblock.h"

struct store_reader {
    const uint8_t *base; /* of the region */
    struct okv_superblock table;
    uint64_t count; /* of buckets, as this reader knows it */
    uint64_t directory[OKV_DIRECTORY_ENTRIES];
    uint8_t image[OKV_BUCKET_SIZE_MAX];
    uint8_t *extent; /* buffer for the largest */
    uint64_t extent_size;
    /* Counters. */
    uint64_t reads;    /* of images and extents */
    uint64_t rejected; /* reads that failed a check */
    uint64_t led_on;   /* images that led to another bucket */
};

/* An item that a reader found; pointers are valid until its next call. */
struct store_found {
    const uint8_t *value;
    uint32_t value_length;
    uint64_t version;
    uint64_t expiry_ms;
    uint64_t extent; /* 0: inline */
    unsigned page;
    unsigned reads;
};

/* Fails the test without a superblock. Values have at most `value_max` bytes. */
void store_reader_open(struct store_reader *reader, const void *base, uint64_t length,
                       uint32_t value_max);
void store_reader_close(struct store_reader *reader);

/* OKV_ENOTFOUND. OKV_ECORRUPT: it never got whole images. OKV_EPROTO: a whole image leads out of
 * the region or is impossible. Expired items are found. */
int store_reader_find(struct store_reader *reader, const void *key, uint32_t key_length,
                      struct store_found *out);

/* Copies bytes that other threads may be writing. */
void store_reader_copy(void *to, const void *from, uint64_t length);

#endif
