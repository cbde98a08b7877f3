/* Bits of a value as Redis numbers them: bit 0 is the highest one of the first byte. */
#ifndef OKV_SERVER_RESP_PROTO_BITS_H
#define OKV_SERVER_RESP_PROTO_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many of the bits from `first` to `last`, with both, are set. first <= last. */
uint64_t okv_bits_count(const uint8_t *bytes, uint64_t first, uint64_t last);
/* The first of these bits that is set, or that is clear; -1: there is none. */
int64_t okv_bits_find(const uint8_t *bytes, uint64_t first, uint64_t last, bool is_set);

/* `width` bits, 1 to 64, from `offset` on as a number, the highest bit first. Bits beyond the
 * `size` bytes are 0. */
uint64_t okv_bits_read(const uint8_t *bytes, uint64_t size, uint64_t offset, unsigned width);
/* Writes the lowest bits of a number there. */
void okv_bits_write(uint8_t *bytes, uint64_t offset, unsigned width, uint64_t number);

enum okv_bits_operation {
    OKV_BITS_AND,
    OKV_BITS_OR,
    OKV_BITS_XOR,
    OKV_BITS_NOT,
    OKV_BITS_COPY,
};

/* Combines each of `length` bytes with one of `from`, or replaces it. */
void okv_bits_combine(enum okv_bits_operation operation, uint8_t *to, const uint8_t *from,
                      size_t length);

#endif
