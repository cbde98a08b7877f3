#include "tests/support/certified_value.h"

#include <string.h>

/* https://doi.org/10.1145/2660193.2660195 */
uint64_t certified_mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t seed_of(size_t size, unsigned key, uint64_t n)
{
    return certified_mix(certified_mix(n) ^ key) ^ certified_mix(size);
}

void certified_fill(void *value, size_t size, unsigned key, uint64_t n)
{
    uint64_t seed = seed_of(size, key, n);
    uint8_t *bytes = value;

    memcpy(bytes, &n, sizeof n);
    for (size_t at = sizeof n; at < size; at += 8) {
        uint64_t word = certified_mix(seed + at);
        memcpy(bytes + at, &word, size - at < 8 ? size - at : 8);
    }
}

bool certified_check(const void *value, size_t size, unsigned key, uint64_t *n)
{
    const uint8_t *bytes = value;

    if (size < CERTIFIED_SIZE_MIN)
        return false;
    memcpy(n, bytes, sizeof *n);
    return certified_check_part(bytes + sizeof *n, size - sizeof *n, sizeof *n, size, key, *n);
}

bool certified_check_part(const void *part, size_t length, size_t offset, size_t size, unsigned key,
                          uint64_t n)
{
    uint64_t seed = seed_of(size, key, n);
    const uint8_t *bytes = part;

    for (size_t at = 0; at < length; at += 8) {
        uint64_t word = certified_mix(seed + offset + at);
        if (memcmp(bytes + at, &word, length - at < 8 ? length - at : 8) != 0)
            return false;
    }
    return true;
}
