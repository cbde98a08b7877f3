/* XXH3-64 with AVX2 vectors, for CPUs that have them. The results are the same as without. */
#ifndef OKV_SHARED_FORMAT_CHECKSUM_AVX2_H
#define OKV_SHARED_FORMAT_CHECKSUM_AVX2_H

#include <stddef.h>
#include <stdint.h>

#ifdef __x86_64__
#define OKV_HAVE_HASH_AVX2
/* `length` must be above XXH3_MIDSIZE_MAX, 240: XXH3 uses vectors only there, and only that part is
 * compiled. */
uint64_t okv_hash_avx2(const void *bytes, size_t length);
/* The hash of both pieces in sequence; any lengths. */
uint64_t okv_hash_avx2_of_two(const void *first, size_t first_length, const void *second,
                              size_t second_length);
/* As okv_hash_stream_add(). */
void okv_hash_avx2_add(void *stream, const void *bytes, size_t length);
#endif

#endif
