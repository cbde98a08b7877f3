#include "shared/format/checksum_avx2.h"

#ifdef OKV_HAVE_HASH_WIDE

/* All that xxhash.h includes: none of it is to be compiled for AVX2 with what follows. */
#include <assert.h>
#include <immintrin.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif
#define XXH_VECTOR 2 /* XXH_AVX2, which has a name only inside */
#include "shared/format/hash_xxh3.h"

uint64_t okv_hash_wide(const void *bytes, size_t length)
{
    if (length <= XXH3_MIDSIZE_MAX)
        __builtin_unreachable();
    uint64_t sum = xxh3(bytes, length);

    _mm256_zeroupper(); /* or every instruction of SSE after it is slow: compilers may leave it out
                         */
    return sum;
}

uint64_t okv_hash_wide_of_two(const void *first, size_t first_length, const void *second,
                              size_t second_length)
{
    uint64_t sum = xxh3_of_two(first, first_length, second, second_length);

    _mm256_zeroupper();
    return sum;
}

#ifdef __clang__
#pragma clang attribute pop
#endif

#endif
