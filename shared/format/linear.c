#include "shared/format/linear.h"

/* A bucket of depth d exists together with the one that it was split from or into at d-1: the
 * larger number is a lower bound. The bucket that its next split would make does not exist: an
 * upper bound. */
uint64_t okv_linear_learn(uint64_t count, uint64_t bucket, unsigned depth)
{
    uint64_t half = depth > 0 ? UINT64_C(1) << (depth - 1) : 0;
    uint64_t least = half ? okv_hash_bucket(bucket, depth - 1) + half + 1 : 1;
    /* The image of a merged bucket states its parent's depth. Its own number is then the first
     * that does not exist. */
    uint64_t most =
        okv_hash_bucket(bucket, depth) != bucket ? bucket : bucket + (UINT64_C(1) << depth);

    if (most > OKV_BUCKETS_MAX)
        most = OKV_BUCKETS_MAX;
    if (least > most)
        least = most;
    if (count < least)
        return least;
    return count > most ? most : count;
}
