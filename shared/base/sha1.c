#include "shared/base/sha1.h"

#include <string.h>

#define BLOCK 64u

static uint32_t rotate(uint32_t word, unsigned bits)
{
    return word << bits | word >> (32 - bits);
}

/* FIPS 180-4 section 4.1.1 and 4.2.1: the function of a round, with its constant. */
static uint32_t round_of(unsigned t, uint32_t b, uint32_t c, uint32_t d)
{
    if (t < 20)
        return ((b & c) ^ (~b & d)) + 0x5a827999u;
    if (t < 40)
        return (b ^ c ^ d) + 0x6ed9eba1u;
    if (t < 60)
        return ((b & c) ^ (b & d) ^ (c & d)) + 0x8f1bbcdcu;
    return (b ^ c ^ d) + 0xca62c1d6u;
}

static void add_block(uint32_t hash[5], const uint8_t block[BLOCK])
{
    uint32_t a = hash[0], b = hash[1], c = hash[2], d = hash[3], e = hash[4], w[80];

    for (unsigned t = 0; t < 16; t++)
        w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 |
               (uint32_t)block[4 * t + 2] << 8 | block[4 * t + 3];
    for (unsigned t = 16; t < 80; t++)
        w[t] = rotate(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
    for (unsigned t = 0; t < 80; t++) {
        uint32_t next = rotate(a, 5) + round_of(t, b, c, d) + e + w[t];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    hash[0] += a;
    hash[1] += b;
    hash[2] += c;
    hash[3] += d;
    hash[4] += e;
}

/* The last bytes, a bit, zeros, and the length in bits. */
static void add_end(uint32_t hash[5], const uint8_t *bytes, size_t rest, uint64_t length)
{
    uint8_t block[2 * BLOCK] = {0};
    size_t blocks = rest + 1 + 8 <= BLOCK ? 1 : 2;

    if (rest)
        memcpy(block, bytes, rest);
    block[rest] = 0x80;
    for (unsigned i = 0; i < 8; i++)
        block[blocks * BLOCK - 1 - i] = (uint8_t)(length * 8 >> 8 * i);
    for (size_t i = 0; i < blocks; i++)
        add_block(hash, block + i * BLOCK);
}

void okv_sha1(const void *bytes, size_t length, uint8_t digest[OKV_SHA1_SIZE])
{
    uint32_t hash[5] = {0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u, 0xc3d2e1f0u};
    const uint8_t *at = bytes;
    size_t left = length;

    for (; left >= BLOCK; left -= BLOCK, at += BLOCK)
        add_block(hash, at);
    add_end(hash, at, left, length);
    for (unsigned i = 0; i < OKV_SHA1_SIZE; i++)
        digest[i] = (uint8_t)(hash[i / 4] >> (24 - 8 * (i % 4)));
}

void okv_sha1_text(const uint8_t digest[OKV_SHA1_SIZE], char text[OKV_SHA1_TEXT])
{
    static const char digits[] = "0123456789abcdef";

    for (unsigned i = 0; i < OKV_SHA1_SIZE; i++) {
        text[2 * i] = digits[digest[i] >> 4];
        text[2 * i + 1] = digits[digest[i] & 15];
    }
    text[OKV_SHA1_TEXT - 1] = '\0';
}
