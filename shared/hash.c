#include "shared/hash.h"

#ifdef OKV_HAVE_XXHASH_DISPATCH
#include <immintrin.h>
#define XXH_DISPATCH_DISABLE_REPLACE
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#ifdef OKV_HAVE_XXHASH_DISPATCH
/* On a CPU with AVX-512 the first vector of more than 16 bytes after others stalls it for some 85
 * ns: that is what wide vectors spare in a kilobyte. Other CPUs gain at any length. */
#define WIDE_FROM_AVX512 1024u

static bool wide_is_worth_it(size_t length)
{
    return __builtin_cpu_supports("avx") &&
           (length >= WIDE_FROM_AVX512 || !__builtin_cpu_supports("avx512f"));
}

/* libxxhash's functions for wide vectors leave the upper halves of the registers in use, which
 * makes every instruction of SSE after them slow, the caller's too: without this a get of 4 KiB
 * gains nothing by a hash in half the time. The first of them in a process finds
 * out which CPU it is; threads that do so at once write the same. */
__attribute__((target("avx"))) static void upper_halves_release(void)
{
    _mm256_zeroupper();
}

static uint64_t hash(const void *bytes, size_t length)
{
    if (!wide_is_worth_it(length))
        return XXH3_64bits(bytes, length);
    uint64_t sum = XXH3_64bits_dispatch(bytes, length);
    upper_halves_release();
    return sum;
}

static void hash_update(XXH3_state_t *state, const void *bytes, size_t length)
{
    if (!wide_is_worth_it(length)) {
        XXH3_64bits_update(state, bytes, length);
        return;
    }
    XXH3_64bits_update_dispatch(state, bytes, length);
    upper_halves_release();
}
#else
static uint64_t hash(const void *bytes, size_t length)
{
    return XXH3_64bits(bytes, length);
}

static void hash_update(XXH3_state_t *state, const void *bytes, size_t length)
{
    XXH3_64bits_update(state, bytes, length);
}
#endif

uint64_t okv_hash_key(const void *key, size_t length, uint64_t seed)
{
    return XXH3_64bits_withSeed(key, length, seed);
}

/* XORing the seed in costs nothing, while XXH3's own seed makes it derive a
 * 192-byte secret for every input above 240 bytes. */
uint64_t okv_hash_checksum(const void *bytes, size_t length, uint64_t seed)
{
    return hash(bytes, length) ^ seed;
}

bool okv_hash_checksum_of_two(const void *first, size_t first_length, const void *second,
                              size_t second_length, uint64_t seed, uint64_t *out)
{
    XXH3_state_t *state = XXH3_createState();

    if (!state)
        return false;
    XXH3_64bits_reset(state);
    hash_update(state, first, first_length);
    hash_update(state, second, second_length);
    *out = XXH3_64bits_digest(state) ^ seed;
    XXH3_freeState(state);
    return true;
}
