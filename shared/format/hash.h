/*
 * The two uses of XXH3-64 (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md):
 * which bucket a key belongs to, and whether bytes that were read are whole.
 */
#ifndef OKV_SHARED_FORMAT_HASH_H
#define OKV_SHARED_FORMAT_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Hash of a key under the table's seed: its low bits name the bucket, its top
 * 16 bits are the entry's tag. */
uint64_t okv_hash_key(const void *key, size_t length, uint64_t seed);

static inline uint16_t okv_hash_tag(uint64_t hash)
{
    return (uint16_t)(hash >> 48);
}

/* Bucket of a hash at a depth of 0 to 63: hash mod 2^depth. */
static inline uint64_t okv_hash_bucket(uint64_t hash, unsigned depth)
{
    return hash & ((UINT64_C(1) << depth) - 1);
}

/* XXH3-64 of the bytes, combined with `seed` so that the same bytes of another bucket or another
 * boot do not pass (docs/format.md section 3). */
uint64_t okv_hash_checksum(const void *bytes, size_t length, uint64_t seed);
/* The checksum of two pieces of memory, as if the second followed the first. */
uint64_t okv_hash_checksum_of_two(const void *first, size_t first_length, const void *second,
                                  size_t second_length, uint64_t seed);

/* The checksum of bytes that come in pieces of any length. */
struct okv_hash_stream {
    uint8_t state[576]; /* XXH3's own, which needs another alignment */
};

void okv_hash_stream_begin(struct okv_hash_stream *stream);
void okv_hash_stream_add(struct okv_hash_stream *stream, const void *bytes, size_t length);
/* As okv_hash_checksum() of all pieces. */
uint64_t okv_hash_stream_checksum(const struct okv_hash_stream *stream, uint64_t seed);

#endif
