/*
 * Values that prove that they are whole: the first word is a number, all other bytes
 * follow from it, from the key's number and from the size. A value mixed of two, or of
 * another key, does not pass.
 */
#ifndef OKV_TESTS_CERTIFIED_VALUE_H
#define OKV_TESTS_CERTIFIED_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CERTIFIED_SIZE_MIN 8

/* One step of splitmix64: 64 bits that look random and depend on all of `x`. */
uint64_t certified_mix(uint64_t x);

/* Value number `n` of key `key`, `size` bytes, at least CERTIFIED_SIZE_MIN. */
void certified_fill(void *value, size_t size, unsigned key, uint64_t n);

/* Whether these are the bytes of some value of this key and size, and of which one. */
bool certified_check(const void *value, size_t size, unsigned key, uint64_t *n);
/* Whether the bytes from `offset` on, a multiple of 8 and not 0, of value number `n`, which has
 * `size` bytes, begin with these. */
bool certified_check_part(const void *part, size_t length, size_t offset, size_t size, unsigned key,
                          uint64_t n);

#endif
