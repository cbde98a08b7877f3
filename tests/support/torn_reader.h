/*
 * The most hostile reader without a device. It copies images and extents cache line by cache line,
 * in random order, with pauses, and accepts exactly the ones that a client would accept. It
 * compares accepted contents with the states of the table during the copy.
 *
 * Linked with unchecked.c: without the checksum. With TORN_VERSION_ONLY too, an image is accepted
 * when its version is the same before and after the copy.
 */
#ifndef OKV_TESTS_TORN_READER_H
#define OKV_TESTS_TORN_READER_H

#include <stdalign.h>

#include "tests/support/torn_table.h"

#define TORN_ORDERS 256
#define TORN_LINES_MAX ((OKV_BUCKET_SIZE_MAX + 2 * TORN_VALUE_MAX) / 64)

struct torn_counts {
    uint64_t accepted, rejected; /* images */
    uint64_t extents, extents_rejected;
    uint64_t states; /* whole groups whose state was current at some moment */
    uint64_t moved;  /* images that sent the reader to another bucket */
    uint64_t pages;  /* accepted images of overflow pages */
    uint64_t wrong;  /* accepted contents that never existed */
};

/* Of one thread. */
struct torn_reader {
    struct torn_table *table;
    uint64_t random;
    uint64_t thought;  /* the number of buckets that the reader assumes */
    unsigned failures; /* images in a row that were rejected */
    struct torn_counts counts;
    char complaint[200]; /* about the first wrong content */

    uint8_t orders[TORN_ORDERS][OKV_BUCKET_SIZE_MAX / 64]; /* of the lines of a bucket */
    alignas(64) uint8_t image[OKV_BUCKET_SIZE_MAX];
    alignas(64) uint8_t page[OKV_BUCKET_SIZE_MAX];
    alignas(64) uint8_t extent[2 * TORN_VALUE_MAX];
    uint64_t seen[TORN_KEYS_MAX]; /* counters of the group that is being read; 0: none */
    bool in_first[TORN_KEYS_MAX]; /* it is in the primary page */
    struct {
        uint64_t version, counter;
    } last[TORN_IDS]; /* as they were read before */
    uint64_t last_steps[TORN_GROUPS], last_version[TORN_GROUPS];
};

void torn_reader_init(struct torn_reader *reader, struct torn_table *table, uint64_t seed);

/* Reads a group once, following splits to its bucket, and counts the results. */
void torn_reader_read_group(struct torn_reader *reader, unsigned group);

#endif
