/*
 * xxHash's own XXH3-64, inline, with the vectors of the including file's target. A short hash is
 * then not a chain of calls through a library's dispatch. Only hash.c and checksum_avx2.c include
 * this header.
 */
#ifndef OKV_SHARED_FORMAT_HASH_XXH3_H
#define OKV_SHARED_FORMAT_HASH_XXH3_H

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static inline uint64_t xxh3(const void *bytes, size_t length)
{
    return XXH3_64bits(bytes, length);
}

/* The hash of both pieces in sequence. */
static inline uint64_t xxh3_of_two(const void *first, size_t first_length, const void *second,
                                   size_t second_length)
{
    XXH3_state_t state;

    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, first, first_length);
    XXH3_64bits_update(&state, second, second_length);
    return XXH3_64bits_digest(&state);
}

/* `stream` has the bytes of a state, at any alignment. */
static inline void xxh3_add(void *stream, const void *bytes, size_t length)
{
    XXH3_state_t state;

    memcpy(&state, stream, sizeof state);
    XXH3_64bits_update(&state, bytes, length);
    memcpy(stream, &state, sizeof state);
}

#endif
