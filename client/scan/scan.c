/*
 * Visits every item once, by READs alone: scan_state.h explains the order. Buckets are READ in
 * chunks of neighbours. A bucket that is torn in its chunk, or has moved since, is READ again on
 * its own.
 */
#include "client/scan/scan.h"

#include <stdlib.h>
#include <time.h>

#include "client/connection/clock_sync.h"
#include "client/connection/wait.h"
#include "client/get/directory.h"
#include "client/scan/scan_bucket.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"

/* After this many images of one bucket its writer was probably interrupted: the scan pauses between
 * further images, up to the handle's timeout. */
#define SCAN_ATTEMPTS_HOT 64u
#define SCAN_PAUSE_NS 100000

/* ---- images ---- */

/* READs `count` neighbouring buckets of one segment. OKV_ECORRUPT: the segment is unknown. */
static int buckets_read(struct scan *scan, uint64_t first, uint64_t count, uint8_t *images)
{
    uint64_t offset;

    if (!directory_locate(scan->handle, first, &offset))
        return OKV_ECORRUPT;
    return scan_read(scan, READ_IMAGE, offset, images,
                     (uint32_t)count * scan->handle->table.bucket_size);
}

/* How many buckets from `first` on one READ can bring: they share a segment and begin consecutive
 * classes. */
static uint64_t chunk_count(const struct scan *scan, uint64_t first)
{
    const okv *handle = scan->handle;
    uint64_t count = SCAN_CHUNK_SIZE / handle->table.bucket_size;
    uint64_t left[] = {
        handle->table.segment_buckets - first % handle->table.segment_buckets,
        handle->bucket_count - first,
        (UINT64_C(1) << scan->level) - okv_hash_bucket(first, scan->level),
    };

    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        if (left[i] < count)
            count = left[i];
    return count;
}

/* READs the chunk that begins with this bucket. OKV_ECORRUPT: the index has shrunk. */
static int chunk_read(struct scan *scan, struct scan_chunk *chunk, uint64_t first)
{
    okv *handle = scan->handle;

    chunk->count = 0;
    /* A growing index has more neighbours than the estimate. */
    if (handle->bucket_count - first < SCAN_CHUNK_SIZE / handle->table.bucket_size) {
        int rc = status_read_blocking(handle);
        if (rc && rc != OKV_ECORRUPT)
            return rc;
    }
    if (first >= handle->bucket_count)
        return OKV_ECORRUPT;
    uint64_t count = chunk_count(scan, first);
    int rc = buckets_read(scan, first, count, chunk->images);
    if (rc)
        return rc;
    chunk->first = first;
    chunk->count = count;
    return 0;
}

/* Finds an unchecked image of the bucket: in its chunk or, if `again`, by a READ of its own. */
static int image_find(struct scan *scan, uint64_t bucket, bool again, const uint8_t **image)
{
    uint64_t number = bucket >> scan->level;

    *image = scan->image;
    if (again || number >= SCAN_CHUNKS)
        return buckets_read(scan, bucket, 1, scan->image);

    if (++scan->unread > SCAN_UNREAD_MAX) {
        int rc = status_read_blocking(scan->handle);
        if (rc && rc != OKV_ECORRUPT)
            return rc;
        scan->unread = 0;
    }
    struct scan_chunk *chunk = &scan->chunks[number];
    if (bucket < chunk->first || bucket - chunk->first >= chunk->count) {
        int rc = chunk_read(scan, chunk, bucket);
        if (rc)
            return rc;
    }
    *image = chunk->images + (bucket - chunk->first) * scan->handle->table.bucket_size;
    return 0;
}

/* ---- the walk ---- */

/* After an image that led nowhere: refreshes status and directory, less and less often, and pauses
 * after many attempts. */
static int back_off(okv *handle, unsigned attempt)
{
    bool refresh = (attempt & (attempt - 1)) == 0;
    int rc = refresh ? status_read_blocking(handle) : 0;

    if (rc == 0 && refresh)
        rc = directory_read(handle);
    if (attempt > SCAN_ATTEMPTS_HOT)
        nanosleep(&(struct timespec){.tv_nsec = SCAN_PAUSE_NS}, NULL);
    return rc == OKV_ECORRUPT ? 0 : rc; /* a torn status: the next attempt READs it again */
}

/* Shows the items of the bucket at the point, or learns another bucket from its image. */
static int try_image(struct scan *scan, bool again)
{
    okv *handle = scan->handle;
    const struct okv_welcome *table = &handle->table;
    uint64_t hash = scan_hash(scan);
    uint64_t bucket = okv_linear_bucket(hash, handle->bucket_count);
    const uint8_t *image;
    int rc = image_find(scan, bucket, again, &image);

    if (rc)
        return rc;
    if (okv_bucket_check(image, table->bucket_size, table->boot_id, bucket, 0)) {
        handle->counters.torn_buckets++;
        return OKV_ECORRUPT;
    }
    unsigned depth = okv_bucket_depth(image);
    handle->bucket_count = okv_linear_learn(handle->bucket_count, bucket, depth);
    if (okv_hash_bucket(hash, depth) != bucket) {
        handle->counters.wrong_depths++;
        return OKV_ECORRUPT;
    }
    return scan_bucket_show(scan, bucket, image);
}

/* Moves the point to the next item or further. */
static int scan_step(struct scan *scan)
{
    uint64_t from = scan->position;
    uint64_t deadline = 0;

    for (unsigned attempt = 1; attempt <= SCAN_ATTEMPTS_HOT || okv_clock_ns() < deadline;
         attempt++) {
        int rc = try_image(scan, attempt > 1);
        if (rc != OKV_ECORRUPT)
            return rc;
        if (scan->position != from)
            return 0;
        if (attempt == 1)
            deadline = okv_clock_ns() + scan->handle->timeout_ns;
        rc = attempt > 1 ? back_off(scan->handle, attempt) : 0;
        if (rc)
            return rc;
    }
    return OKV_ECORRUPT;
}

/* Visits all items from the point to the end of the table. */
static int scan_walk(struct scan *scan)
{
    uint64_t classes = UINT64_C(1) << scan->level;
    int rc = 0;

    while (rc == 0 && scan->class_index < classes) {
        rc = scan_step(scan);
        if (scan->position == scan_class_end(scan)) {
            scan->position = 0;
            scan->class_index++;
        }
    }
    return rc;
}

/* ---- cursors ---- */

/* A table has no more buckets than its region has room for. With a higher level a scan would walk
 * over the same few buckets almost without end. */
static bool level_is_possible(const okv *handle, uint64_t level)
{
    const struct okv_welcome *table = &handle->table;

    return level <= OKV_DEPTH_MAX &&
           UINT64_C(1) << level <= table->region_length / table->bucket_size;
}

/* Bits of the boot id: a cursor is valid for one start of the server. */
static uint64_t boot_mark(const okv *handle)
{
    /* Multiplicative hashing: the upper bits depend on the whole id. */
    return handle->table.boot_id * UINT64_C(0x9e3779b97f4a7c15) >> (64 - SCAN_BOOT_BITS);
}

/* Sets level and point from a cursor; 0 begins a scan. OKV_EINVAL: not a cursor, or of another
 * start of the server; OKV_EPROTO: an impossible size of the table. */
static int cursor_decode(struct scan *scan, uint64_t cursor)
{
    const okv *handle = scan->handle;
    uint64_t level = cursor & ((1u << SCAN_LEVEL_BITS) - 1);
    uint64_t key = cursor >> SCAN_LEVEL_BITS & ((UINT64_C(1) << SCAN_KEY_BITS) - 1);

    if (cursor == 0) {
        scan->level = okv_linear_level(handle->bucket_count);
        return level_is_possible(handle, scan->level) ? 0 : OKV_EPROTO;
    }
    if (level == 0 || !level_is_possible(handle, level - 1) ||
        cursor >> (64 - SCAN_BOOT_BITS) != boot_mark(handle))
        return OKV_EINVAL;
    scan->level = (unsigned)level - 1;
    scan->class_index = okv_hash_bucket(key, scan->level);
    scan->position = key >> scan->level;
    return 0;
}

static uint64_t cursor_encode(const struct scan *scan)
{
    if (scan->class_index == UINT64_C(1) << scan->level)
        return 0;
    return boot_mark(scan->handle) << (64 - SCAN_BOOT_BITS) |
           (scan->position << scan->level | scan->class_index) << SCAN_LEVEL_BITS |
           (scan->level + 1);
}

/* ---- memory ---- */

static int memory_create(struct scan *scan)
{
    const okv *handle = scan->handle;
    uint32_t bucket_size = handle->table.bucket_size;
    size_t size = (size_t)SCAN_CHUNKS * SCAN_CHUNK_SIZE + bucket_size + EXTENT_PIECE_SIZE;

    scan->buffer = malloc(size);
    if (!scan->buffer)
        return OKV_ENOMEM;
    int rc = OKV_ENOMEM;
    scan->images = malloc((size_t)OKV_BUCKET_PAGES_MAX * bucket_size);
    if (!scan->images)
        goto free_buffer;
    rc = handle->transport->memory_register(handle->conn->endpoint, scan->buffer, size,
                                            &scan->memory);
    if (rc)
        goto free_images;
    for (size_t i = 0; i < SCAN_CHUNKS; i++)
        scan->chunks[i].images = scan->buffer + i * SCAN_CHUNK_SIZE;
    scan->image = scan->buffer + (size_t)SCAN_CHUNKS * SCAN_CHUNK_SIZE;
    scan->piece = scan->image + bucket_size;
    return 0;

free_images:
    free(scan->images);
free_buffer:
    free(scan->buffer);
    return rc;
}

static void memory_destroy(struct scan *scan)
{
    scan->handle->transport->memory_unregister(scan->memory);
    free(scan->held);
    free(scan->items);
    free(scan->images);
    free(scan->buffer);
}

/* ---- a scan ---- */

int scan_begin(struct scan *scan, uint64_t cursor)
{
    int rc = link_await_idle(scan->handle);

    if (rc == 0)
        rc = status_read_blocking(scan->handle);
    if (rc && rc != OKV_ECORRUPT)
        return rc;
    rc = cursor_decode(scan, cursor);
    return rc ? rc : memory_create(scan);
}

int scan_run(struct scan *scan, uint64_t *cursor)
{
    int rc = scan_walk(scan);

    *cursor = cursor_encode(scan);
    memory_destroy(scan);
    return rc == SCAN_STOPPED ? scan->verdict : rc;
}
