/*
 * Linear hashing (Litwin 1980; LH*, Litwin, Neimat and Schneider 1996): the bucket of a key in an
 * index of any number of buckets.
 *
 * With `count` buckets, 2^l <= count < 2^(l+1), the buckets 0 .. count-2^l-1 have
 * been split at this level: they and the buckets 2^l .. count-1 have depth l+1,
 * the others depth l. The bucket at depth d holds the keys with
 * hash mod 2^d == its number. So `count` determines everything, and a reader with an old count can
 * correct it from the depth in any image.
 */
#ifndef OKV_SHARED_FORMAT_LINEAR_H
#define OKV_SHARED_FORMAT_LINEAR_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/format/hash.h"

#define OKV_DEPTH_MAX 47
#define OKV_BUCKETS_MAX (UINT64_C(1) << OKV_DEPTH_MAX)
/* Buckets in a segment of the index: a power of two in this range. */
#define OKV_SEGMENT_BUCKETS_MIN 64u
#define OKV_SEGMENT_BUCKETS_MAX (1u << 30)

static inline bool okv_segment_buckets_valid(uint64_t buckets)
{
    return buckets >= OKV_SEGMENT_BUCKETS_MIN && buckets <= OKV_SEGMENT_BUCKETS_MAX &&
           (buckets & (buckets - 1)) == 0;
}

/* The largest l with 2^l <= count; count is at least 1. */
static inline unsigned okv_linear_level(uint64_t count)
{
    return 63u - (unsigned)__builtin_clzll(count);
}

/* The bucket of a hash among `count`. */
static inline uint64_t okv_linear_bucket(uint64_t hash, uint64_t count)
{
    unsigned level = okv_linear_level(count);
    uint64_t bucket = okv_hash_bucket(hash, level + 1);

    return bucket < count ? bucket : okv_hash_bucket(hash, level);
}

/* The depth of a bucket below `count`. */
static inline unsigned okv_linear_depth(uint64_t bucket, uint64_t count)
{
    unsigned level = okv_linear_level(count);

    return okv_hash_bucket(bucket, level) < count - (UINT64_C(1) << level) ? level + 1 : level;
}

/* True when an image of `bucket` with `depth` is consistent with `count`: nothing to learn from it.
 */
static inline bool okv_linear_agrees(uint64_t count, uint64_t bucket, unsigned depth)
{
    return bucket < count && okv_linear_depth(bucket, count) == depth;
}

/* Hashes in the order of their reversed bits: those of a bucket are neighbours, at any depth. */
static inline uint64_t okv_bits_reversed(uint64_t bits)
{
    bits = (bits >> 1 & UINT64_C(0x5555555555555555)) | (bits & UINT64_C(0x5555555555555555)) << 1;
    bits = (bits >> 2 & UINT64_C(0x3333333333333333)) | (bits & UINT64_C(0x3333333333333333)) << 2;
    bits = (bits >> 4 & UINT64_C(0x0f0f0f0f0f0f0f0f)) | (bits & UINT64_C(0x0f0f0f0f0f0f0f0f)) << 4;
    return __builtin_bswap64(bits);
}

/* Corrects a reader's `count` after an image of `bucket` stated `depth` (at most OKV_DEPTH_MAX).
 * The result is from 1 to OKV_BUCKETS_MAX. */
uint64_t okv_linear_learn(uint64_t count, uint64_t bucket, unsigned depth);

#endif
