#include "shared/format/hash.h"

#include <stdbool.h>
#include <string.h>

#include "shared/format/checksum_avx2.h"
#include "shared/format/hash_xxh3.h"

#ifdef OKV_HAVE_HASH_AVX2
/* Up to XXH3_MIDSIZE_MAX bytes XXH3 uses no vectors. On a CPU with AVX-512 the first vector of 32
 * bytes after narrower ones stalls for some 85 ns, as much as wide vectors save in a kilobyte.
 * Other CPUs gain at any length. */
#define AVX2_FROM_AVX512 1024u

static inline bool avx2_is_worth_it(size_t length)
{
    return length > XXH3_MIDSIZE_MAX && __builtin_cpu_supports("avx2") &&
           (length >= AVX2_FROM_AVX512 || !__builtin_cpu_supports("avx512f"));
}

static inline uint64_t hash(const void *bytes, size_t length)
{
    return avx2_is_worth_it(length) ? okv_hash_avx2(bytes, length) : xxh3(bytes, length);
}

static inline uint64_t hash_of_two(const void *first, size_t first_length, const void *second,
                                   size_t second_length)
{
    return avx2_is_worth_it(first_length + second_length)
               ? okv_hash_avx2_of_two(first, first_length, second, second_length)
               : xxh3_of_two(first, first_length, second, second_length);
}

static inline void add(void *stream, const void *bytes, size_t length)
{
    if (avx2_is_worth_it(length))
        okv_hash_avx2_add(stream, bytes, length);
    else
        xxh3_add(stream, bytes, length);
}
#else
static inline uint64_t hash(const void *bytes, size_t length)
{
    return xxh3(bytes, length);
}

static inline uint64_t hash_of_two(const void *first, size_t first_length, const void *second,
                                   size_t second_length)
{
    return xxh3_of_two(first, first_length, second, second_length);
}

static inline void add(void *stream, const void *bytes, size_t length)
{
    xxh3_add(stream, bytes, length);
}
#endif

uint64_t okv_hash_key(const void *key, size_t length, uint64_t seed)
{
    return XXH3_64bits_withSeed(key, length, seed);
}

/* XORing the seed costs nothing. XXH3's own seed makes it derive a secret of 192 bytes for every
 * input above 240 bytes. */
uint64_t okv_hash_checksum(const void *bytes, size_t length, uint64_t seed)
{
    return hash(bytes, length) ^ seed;
}

uint64_t okv_hash_checksum_of_two(const void *first, size_t first_length, const void *second,
                                  size_t second_length, uint64_t seed)
{
    return hash_of_two(first, first_length, second, second_length) ^ seed;
}

_Static_assert(sizeof(struct okv_hash_stream) == sizeof(XXH3_state_t), "state of a stream");

void okv_hash_stream_begin(struct okv_hash_stream *stream)
{
    XXH3_state_t state;

    XXH3_64bits_reset(&state);
    memcpy(stream->state, &state, sizeof state);
}

void okv_hash_stream_add(struct okv_hash_stream *stream, const void *bytes, size_t length)
{
    add(stream->state, bytes, length);
}

uint64_t okv_hash_stream_checksum(const struct okv_hash_stream *stream, uint64_t seed)
{
    XXH3_state_t state;

    memcpy(&state, stream->state, sizeof state);
    return XXH3_64bits_digest(&state) ^ seed;
}
