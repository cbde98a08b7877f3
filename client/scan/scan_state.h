/*
 * A scan under way: scan.c walks through the table, scan_bucket.c shows what is in
 * one bucket.
 *
 * The order. A scan that begins at level L divides the keys into 2^L classes, by the
 * low L bits of their hashes, and takes them in ascending order. Within a class, keys
 * are ordered by their further bits, reversed: their position. A bucket of depth
 * d <= L has whole classes; one of a larger depth has an interval of the positions of
 * one class, since the low bits, which say where keys live, are the high bits of the
 * position. So each good image covers an interval from the point that was reached, the
 * items in it are shown in order, and the point moves to its end: whatever splits and
 * merges meanwhile, no position is covered twice or left out.
 */
#ifndef OKV_CLIENT_SCAN_SCAN_STATE_H
#define OKV_CLIENT_SCAN_SCAN_STATE_H

#include "client/handle.h"

/* A cursor's bits: 6 for the level, then the class, then the position, then some of the boot id.
 * Class and position are bits of the hash, enough for the bucket of the largest depth. */
#define SCAN_LEVEL_BITS 6
#define SCAN_KEY_BITS OKV_DEPTH_MAX
#define SCAN_BOOT_BITS (64 - SCAN_LEVEL_BITS - SCAN_KEY_BITS)
/* Bytes of one READ of neighbouring buckets. */
#define SCAN_CHUNK_SIZE 65536u
/* A class is in one bucket, and in as many as this once the table has grown to
 * that many times its size: neighbours of each are read together. */
#define SCAN_CHUNKS 4
/* Extents of a bucket that are held in memory at once. What goes beyond is READ when its
 * turn comes. */
#define SCAN_HELD_MAX ((size_t)64 << 20)

/* Images in a row that are looked at without a READ; then one shows whether the server is still
 * there. More classes than this fit one image of an index that has shrunk, or that lies. */
#define SCAN_UNREAD_MAX 1024u

/* Ends a scan from within: scan->verdict is what the visitor returned. */
#define SCAN_STOPPED 1

/* Neighbouring buckets that were read together. */
struct scan_chunk {
    uint8_t *images;
    uint64_t first;
    uint64_t count; /* 0: none were read */
};

/* An item of the bucket that is being shown. */
struct scan_item {
    uint64_t position;
    struct okv_entry entry; /* pointers into the images */
    size_t extent;          /* where in scan->held its extent begins; SCAN_NOT_HELD */
};
#define SCAN_NOT_HELD SIZE_MAX

struct scan {
    okv *handle;
    okv_visit *visit;
    void *user;
    int verdict;

    unsigned level;
    uint64_t class_index;
    uint64_t position; /* the point that was reached in the class */

    uint8_t *buffer; /* chunks, an image, a piece of an extent */
    struct okv_memory *memory;
    struct scan_chunk chunks[SCAN_CHUNKS];
    unsigned unread; /* images since the last READ */
    uint8_t *image;
    uint8_t *piece; /* EXTENT_PIECE_SIZE */

    uint8_t *images; /* of the bucket that is being shown: OKV_BUCKET_PAGES_MAX pages */
    unsigned pages;
    struct scan_item *items;
    size_t item_count;
    size_t item_room;
    uint8_t *held; /* extents, one after the other */
    size_t held_size;
    size_t held_room;
};

/* Bits of a position. */
static inline unsigned scan_width(const struct scan *scan)
{
    return SCAN_KEY_BITS - scan->level;
}

/* Where the positions of a class end. */
static inline uint64_t scan_class_end(const struct scan *scan)
{
    return UINT64_C(1) << scan_width(scan);
}

static inline uint64_t scan_bits_reversed(uint64_t bits)
{
    bits = (bits >> 1 & UINT64_C(0x5555555555555555)) | (bits & UINT64_C(0x5555555555555555)) << 1;
    bits = (bits >> 2 & UINT64_C(0x3333333333333333)) | (bits & UINT64_C(0x3333333333333333)) << 2;
    bits = (bits >> 4 & UINT64_C(0x0f0f0f0f0f0f0f0f)) | (bits & UINT64_C(0x0f0f0f0f0f0f0f0f)) << 4;
    return __builtin_bswap64(bits);
}

/* The position of a hash within its class. */
static inline uint64_t scan_position_of(const struct scan *scan, uint64_t hash)
{
    return scan_bits_reversed(hash >> scan->level << (64 - scan_width(scan)));
}

/* A hash at the point that was reached. */
static inline uint64_t scan_hash(const struct scan *scan)
{
    uint64_t further = scan_bits_reversed(scan->position) >> (64 - scan_width(scan));

    return further << scan->level | scan->class_index;
}

/* Where the interval ends that a bucket of this depth covers around the point. */
static inline uint64_t scan_interval_end(const struct scan *scan, unsigned depth)
{
    if (depth <= scan->level)
        return scan_class_end(scan);
    uint64_t size = UINT64_C(1) << (scan_width(scan) - (depth - scan->level));
    return (scan->position & ~(size - 1)) + size;
}

/* read_blocking() into the scan's buffer. OKV_EPROTO: outside the region. */
int scan_read(struct scan *scan, uint64_t offset, uint8_t *destination, uint32_t length);

#endif
