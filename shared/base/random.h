/* Cheap pseudo-random numbers, for jitter and sampling. Not for secrets. */
#ifndef OKV_SHARED_BASE_RANDOM_H
#define OKV_SHARED_BASE_RANDOM_H

#include <stdint.h>

/* xorshift64*: https://doi.org/10.18637/jss.v008.i14 with a multiplicative finish.
 * `*state` is the seed and must not be 0. */
static inline uint64_t okv_random_next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

#endif
