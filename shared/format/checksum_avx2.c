#include "shared/format/checksum_avx2.h"

#ifdef OKV_HAVE_HASH_AVX2

/* The headers that xxhash.h includes. Include them here, before the pragma compiles for AVX2. */
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
#define XXH_VECTOR 2 /* XXH_AVX2, a name that xxhash.h defines later */
#include "shared/format/hash_xxh3.h"

uint64_t okv_hash_avx2(const void *bytes, size_t length)
{
    if (length <= XXH3_MIDSIZE_MAX)
        __builtin_unreachable();
    uint64_t sum = xxh3(bytes, length);

    /* Without this, SSE instructions afterwards are slow. Compilers may omit it. */
    _mm256_zeroupper();
    return sum;
}

uint64_t okv_hash_avx2_of_two(const void *first, size_t first_length, const void *second,
                              size_t second_length)
{
    uint64_t sum = xxh3_of_two(first, first_length, second, second_length);

    _mm256_zeroupper();
    return sum;
}

void okv_hash_avx2_add(void *stream, const void *bytes, size_t length)
{
    xxh3_add(stream, bytes, length);
    _mm256_zeroupper();
}

#ifdef __clang__
#pragma clang attribute pop
#endif

#endif
