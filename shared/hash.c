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
