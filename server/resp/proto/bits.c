#include "server/resp/proto/bits.h"

#include <string.h>

#define WORD sizeof(uint64_t)

/* The bits of a byte from this one on, and those up to this one. */
static uint8_t mask_from(uint64_t bit)
{
    return (uint8_t)(0xffu >> bit % 8);
}

static uint8_t mask_to(uint64_t bit)
{
    return (uint8_t)(0xffu << (7 - bit % 8));
}

static uint64_t word_at(const uint8_t *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, sizeof word);
    return word;
}

static uint64_t count_bytes(const uint8_t *bytes, size_t length)
{
    uint64_t count = 0;

    for (; length >= WORD; length -= WORD, bytes += WORD)
        count += (unsigned)__builtin_popcountll(word_at(bytes));
    while (length-- > 0)
        count += (unsigned)__builtin_popcount(*bytes++);
    return count;
}

uint64_t okv_bits_count(const uint8_t *bytes, uint64_t first, uint64_t last)
{
    const uint8_t *at = bytes + first / 8, *end = bytes + last / 8;

    if (at == end)
        return (unsigned)__builtin_popcount(*at & mask_from(first) & mask_to(last));
    return (unsigned)__builtin_popcount(*at & mask_from(first)) +
           count_bytes(at + 1, (size_t)(end - at) - 1) +
           (unsigned)__builtin_popcount(*end & mask_to(last));
}

int64_t okv_bits_find(const uint8_t *bytes, uint64_t first, uint64_t last, bool is_set)
{
    const uint64_t end = last / 8, none = is_set ? 0 : UINT64_MAX;

    for (uint64_t at = first / 8; at <= end; at++) {
        uint8_t found = (uint8_t)(is_set ? bytes[at] : ~bytes[at]);
        if (at == first / 8)
            found &= mask_from(first);
        if (at == end)
            found &= mask_to(last);
        if (found)
            return (int64_t)(at * 8) + __builtin_clz(found) - 24; /* of 32 bits */
        while (end - at > WORD && word_at(bytes + at + 1) == none)
            at += WORD;
    }
    return -1;
}

uint64_t okv_bits_read(const uint8_t *bytes, uint64_t size, uint64_t offset, unsigned width)
{
    uint64_t number = 0;

    for (uint64_t bit = offset; bit < offset + width; bit++) {
        uint8_t byte = bit / 8 < size ? bytes[bit / 8] : 0;
        number = number << 1 | (byte >> (7 - bit % 8) & 1u);
    }
    return number;
}

void okv_bits_write(uint8_t *bytes, uint64_t offset, unsigned width, uint64_t number)
{
    for (uint64_t bit = offset + width; bit-- > offset; number >>= 1) {
        uint8_t mask = (uint8_t)(0x80u >> bit % 8);
        uint8_t *byte = &bytes[bit / 8];
        *byte = (uint8_t)(number & 1 ? *byte | mask : *byte & ~mask);
    }
}

void okv_bits_combine(enum okv_bits_operation operation, uint8_t *to, const uint8_t *from,
                      size_t length)
{
    switch (operation) {
    case OKV_BITS_AND:
        for (size_t i = 0; i < length; i++)
            to[i] &= from[i];
        break;
    case OKV_BITS_OR:
        for (size_t i = 0; i < length; i++)
            to[i] |= from[i];
        break;
    case OKV_BITS_XOR:
        for (size_t i = 0; i < length; i++)
            to[i] ^= from[i];
        break;
    case OKV_BITS_NOT:
        for (size_t i = 0; i < length; i++)
            to[i] = (uint8_t)~from[i];
        break;
    case OKV_BITS_COPY:
        if (length)
            memcpy(to, from, length);
        break;
    }
}
