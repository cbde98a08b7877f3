/* Numbers in values, which commands of every kind of client count with. */
#ifndef OKV_SHARED_BASE_NUMBER_H
#define OKV_SHARED_BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads a decimal integer of 64 bits in the one form in which it is written: no spaces, no '+', no
 * leading zeros, no "-0". So a text is a number or none to every client, as to Redis, and a number
 * has one text. False: it is none, and *number is unchanged.
 */
bool okv_number_parse(const void *text, size_t length, int64_t *number);

#endif
