/*
 * Values that tell which write they come from: length and bytes follow from a key's number and
 * a number that is given once. A mixture of two values, or one of another key, is recognized.
 */
#ifndef OKV_TESTS_NUMBERED_VALUE_H
#define OKV_TESTS_NUMBERED_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Some are so long that the server READs them out of the client's memory. */
#define NUMBERED_VALUE_MAX 40960

size_t numbered_value_length(uint32_t key, uint64_t number);
/* Writes numbered_value_length() bytes. */
void numbered_value_fill(uint8_t *value, uint32_t key, uint64_t number);
/* Whether these are all the bytes of one value of this key, and of which. */
bool numbered_value_check(const uint8_t *value, size_t length, uint32_t key, uint64_t *number);

#endif
