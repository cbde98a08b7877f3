/* XXH3-64 by vectors of 32 bytes: only for a CPU that has AVX2. The values are those of any other.
 */
#ifndef OKV_SHARED_FORMAT_CHECKSUM_AVX2_H
#define OKV_SHARED_FORMAT_CHECKSUM_AVX2_H

#include <stddef.h>
#include <stdint.h>

#ifdef __x86_64__
#define OKV_HAVE_HASH_WIDE
/* `length` must be above XXH3_MIDSIZE_MAX, 240: XXH3 does no less by vectors, and nothing else is
 * compiled. */
uint64_t okv_hash_wide(const void *bytes, size_t length);
/* Of the first bytes followed by the second, of any lengths. */
uint64_t okv_hash_wide_of_two(const void *first, size_t first_length, const void *second,
                              size_t second_length);
#endif

#endif
