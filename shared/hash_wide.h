/* XXH3-64 by vectors of 32 bytes: only for a CPU that has AVX2. The values are those of any other.
 */
#ifndef OKV_SHARED_HASH_WIDE_H
#define OKV_SHARED_HASH_WIDE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __x86_64__
#define OKV_HAVE_HASH_WIDE
/* Of more than 240 bytes (XXH3_MIDSIZE_MAX): of fewer there is nothing to be done by vectors. */
uint64_t okv_hash_wide(const void *bytes, size_t length);
/* Of the first bytes followed by the second. */
uint64_t okv_hash_wide_of_two(const void *first, size_t first_length, const void *second,
                              size_t second_length);
#endif

#endif
