#include "tests/support/numbered_value.h"

#include <string.h>

#include "tests/support/random.h"

size_t numbered_value_length(uint32_t key, uint64_t number)
{
    uint64_t chance = random_mix(number ^ (uint64_t)key << 50);
    uint64_t percent = chance % 100;

    chance /= 100;
    if (percent < 40)
        return 8 + chance % 93;
    if (percent < 80)
        return 100 + chance % 201;
    if (percent < 95)
        return 1900 + chance % 200;
    if (percent < 98)
        return 4000 + chance % 5000;
    return NUMBERED_VALUE_MAX - chance % 2000;
}

/* The eight bytes at `at`, which is not 0: there the number itself stands. */
static uint64_t word_at(uint32_t key, uint64_t number, size_t at)
{
    return (number * 8191 + at) * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)key << 32;
}

void numbered_value_fill(uint8_t *value, uint32_t key, uint64_t number)
{
    size_t length = numbered_value_length(key, number);

    memcpy(value, &number, sizeof number);
    for (size_t at = 8; at < length; at += 8) {
        uint64_t word = word_at(key, number, at);
        memcpy(value + at, &word, length - at < 8 ? length - at : 8);
    }
}

bool numbered_value_check(const uint8_t *value, size_t length, uint32_t key, uint64_t *number)
{
    if (length < sizeof *number)
        return false;
    memcpy(number, value, sizeof *number);
    if (numbered_value_length(key, *number) != length)
        return false;
    for (size_t at = 8; at < length; at += 8) {
        uint64_t word = word_at(key, *number, at);
        if (memcmp(value + at, &word, length - at < 8 ? length - at : 8) != 0)
            return false;
    }
    return true;
}
