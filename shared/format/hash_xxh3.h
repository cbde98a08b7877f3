/*
 * XXH3-64 with the vectors that the file is compiled for which includes this: xxHash's own code,
 * in line, so that a short hash is not a chain of calls through a library's dispatch. For hash.c
 * and hash_wide.c alone.
 */
#ifndef OKV_SHARED_FORMAT_HASH_XXH3_H
#define OKV_SHARED_FORMAT_HASH_XXH3_H

#define XXH_INLINE_ALL
#include <xxhash.h>

static inline uint64_t xxh3(const void *bytes, size_t length)
{
    return XXH3_64bits(bytes, length);
}

/* Of the first bytes followed by the second. */
static inline uint64_t xxh3_of_two(const void *first, size_t first_length, const void *second,
                                   size_t second_length)
{
    XXH3_state_t state;

    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, first, first_length);
    XXH3_64bits_update(&state, second, second_length);
    return XXH3_64bits_digest(&state);
}

#endif
