/*
 * The state of a scan: scan.c walks through the table, scan_bucket.c shows the items of one bucket.
 *
 * The order. A scan that begins at level L divides the keys into 2^L classes, by the low L bits of
 * their hashes, and visits them in ascending order. Within a class the position of a key orders it:
 * the further bits of its hash, reversed. A bucket of depth d <= L has whole classes. A deeper
 * bucket has an interval of the positions of one class, since the low bits of a hash select the
 * bucket and are the high bits of the position. So each good image covers an interval from the
 * scan's point on. The scan shows its items in order and moves the point to its end. Splits and
 * merges do not change positions: none is covered twice or left out.
 */
#ifndef OKV_CLIENT_SCAN_SCAN_STATE_H
#define OKV_CLIENT_SCAN_SCAN_STATE_H

#include "client/connection/lease_wait.h"
#include "client/engine/read_blocking.h"
#include "client/handle.h"
#include "shared/base/error.h"

/* A cursor's bits: 6 for the level, then the class, then the position, then some of the boot id.
 * Class and position are bits of the hash, enough for the bucket of the largest depth. */
#define SCAN_LEVEL_BITS 6
#define SCAN_KEY_BITS OKV_DEPTH_MAX
#define SCAN_BOOT_BITS (64 - SCAN_LEVEL_BITS - SCAN_KEY_BITS)
/* Bytes of one READ of neighbouring buckets. */
#define SCAN_CHUNK_SIZE 65536u
/* A class begins in one bucket, and is in this many once the table has grown by that factor. Each
 * has a chunk of neighbours. */
#define SCAN_CHUNKS 4
/* The limit of extents in memory for one bucket. Further ones are READ when they are shown. */
#define SCAN_HELD_MAX ((size_t)64 << 20)

/* Images that may come from chunks in a row; then a READ checks that the server is still there. One
 * image may cover more classes than this when the index has shrunk or is corrupt. */
#define SCAN_UNREAD_MAX 1024u

/* The visitor ended the scan: scan->verdict has its result. */
#define SCAN_STOPPED 1

/* Neighbouring buckets of one READ. */
struct scan_chunk {
    uint8_t *images;
    uint64_t first;
    uint64_t count; /* 0: empty */
};

/* An item of the present bucket. */
struct scan_item {
    uint64_t position;
    struct okv_entry entry; /* its pointers lead into scan->images */
    size_t extent;          /* offset of its extent in scan->held; SCAN_NOT_HELD */
};
#define SCAN_NOT_HELD SIZE_MAX

struct scan {
    okv *handle;
    okv_visit *visit;
    void *user;
    int verdict;

    unsigned level;
    uint64_t class_index;
    uint64_t position; /* with class_index: the point of the scan */

    uint8_t *buffer; /* of chunks, image and piece; registered */
    struct okv_memory *memory;
    struct scan_chunk chunks[SCAN_CHUNKS];
    unsigned unread; /* images from chunks since the last READ */
    uint8_t *image;
    uint8_t *piece; /* EXTENT_PIECE_SIZE */

    uint8_t *images; /* the pages of the present bucket: room for OKV_BUCKET_PAGES_MAX */
    unsigned pages;
    struct scan_item *items;
    size_t item_count;
    size_t item_room;
    uint8_t *held; /* extents of the present bucket */
    size_t held_size;
    size_t held_room;
};

/* Bits of a position. */
static inline unsigned scan_width(const struct scan *scan)
{
    return SCAN_KEY_BITS - scan->level;
}

/* The end of the positions of a class. */
static inline uint64_t scan_class_end(const struct scan *scan)
{
    return UINT64_C(1) << scan_width(scan);
}

/* The position of a hash within its class. */
static inline uint64_t scan_position_of(const struct scan *scan, uint64_t hash)
{
    return okv_bits_reversed(hash >> scan->level << (64 - scan_width(scan)));
}

/* A hash at the point of the scan. */
static inline uint64_t scan_hash(const struct scan *scan)
{
    uint64_t further = okv_bits_reversed(scan->position) >> (64 - scan_width(scan));

    return further << scan->level | scan->class_index;
}

/* The end of the interval that a bucket of this depth covers around the point. */
static inline uint64_t scan_interval_end(const struct scan *scan, unsigned depth)
{
    if (depth <= scan->level)
        return scan_class_end(scan);
    uint64_t size = UINT64_C(1) << (scan_width(scan) - (depth - scan->level));
    return (scan->position & ~(size - 1)) + size;
}

/* read_blocking() into the scan's buffer; of a bucket, until a lease covers it. OKV_EPROTO: an
 * offset outside the region. */
static inline int scan_read(struct scan *scan, enum read_kind kind, uint64_t offset,
                            uint8_t *destination, uint32_t length)
{
    int rc = read_blocking(scan->handle, kind, offset, destination, scan->memory, length);

    scan->unread = 0;
    if (rc == 0 && kind == READ_IMAGE)
        rc = lease_await(scan->handle);
    return rc == OKV_EINVAL ? OKV_EPROTO : rc;
}

#endif
