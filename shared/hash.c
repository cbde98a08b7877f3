#include "shared/hash.h"

#include <xxhash.h>

uint64_t okv_hash_key(const void *key, size_t length, uint64_t seed)
{
    return XXH3_64bits_withSeed(key, length, seed);
}

/* XORing the seed in costs nothing, while XXH3's own seed makes it derive a
 * 192-byte secret for every input above 240 bytes. */
uint64_t okv_hash_checksum(const void *bytes, size_t length, uint64_t seed)
{
    return XXH3_64bits(bytes, length) ^ seed;
}

bool okv_hash_checksum_of_two(const void *first, size_t first_length, const void *second,
                              size_t second_length, uint64_t seed, uint64_t *out)
{
    XXH3_state_t *state = XXH3_createState();

    if (!state)
        return false;
    XXH3_64bits_reset(state);
    XXH3_64bits_update(state, first, first_length);
    XXH3_64bits_update(state, second, second_length);
    *out = XXH3_64bits_digest(state) ^ seed;
    XXH3_freeState(state);
    return true;
}
