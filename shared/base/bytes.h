/*
 * Little-endian integers at any address: the only way okv reads or writes
 * bytes that both sides share (docs/format.md section 1).
 */
#ifndef OKV_SHARED_BASE_BYTES_H
#define OKV_SHARED_BASE_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Above this length memcmp() and memcpy() are worth the call. */
#define OKV_BYTES_SHORT 64u

static inline uint16_t okv_get_u16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return le16toh(v);
}

static inline uint32_t okv_get_u32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return le32toh(v);
}

static inline uint64_t okv_get_u64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return le64toh(v);
}

static inline void okv_put_u16(uint8_t *p, uint16_t v)
{
    v = htole16(v);
    memcpy(p, &v, sizeof v);
}

static inline void okv_put_u32(uint8_t *p, uint32_t v)
{
    v = htole32(v);
    memcpy(p, &v, sizeof v);
}

static inline void okv_put_u64(uint8_t *p, uint64_t v)
{
    v = htole64(v);
    memcpy(p, &v, sizeof v);
}

/* As memcmp() == 0. Keys are short, mostly equal, and compared in loops where a call would be a
 * good part of the work. */
static inline bool okv_bytes_equal(const uint8_t *a, const uint8_t *b, uint32_t length)
{
    uint32_t last = length - (uint32_t)sizeof(uint64_t);

    if (length < sizeof(uint64_t) || length > OKV_BYTES_SHORT)
        return memcmp(a, b, length) == 0;
    for (uint32_t i = 0; i < last; i += (uint32_t)sizeof(uint64_t))
        if (okv_get_u64(a + i) != okv_get_u64(b + i))
            return false;
    return okv_get_u64(a + last) == okv_get_u64(b + last);
}

/* As memcpy(), for short copies of a length known only at run time. Compilers turn those into a
 * call, or into an instruction that is slow to start. */
static inline void okv_bytes_copy(uint8_t *to, const uint8_t *from, uint32_t length)
{
    uint32_t last = length - (uint32_t)sizeof(uint64_t);

    if (length < sizeof(uint64_t) || length > OKV_BYTES_SHORT) {
        memcpy(to, from, length);
        return;
    }
    for (uint32_t i = 0; i < last; i += (uint32_t)sizeof(uint64_t))
        okv_put_u64(to + i, okv_get_u64(from + i));
    okv_put_u64(to + last, okv_get_u64(from + last));
}

/*
 * Fields of shared structures. They are byte arrays: no padding, no alignment,
 * and no way to read one without saying its byte order.
 */
typedef struct {
    uint8_t bytes[2];
} okv_le16;
typedef struct {
    uint8_t bytes[4];
} okv_le32;
typedef struct {
    uint8_t bytes[6];
} okv_le48;
#define OKV_LE48_MAX ((UINT64_C(1) << 48) - 1)
typedef struct {
    uint8_t bytes[8];
} okv_le64;

static inline uint16_t okv_le16_get(okv_le16 field)
{
    return okv_get_u16(field.bytes);
}

static inline uint32_t okv_le32_get(okv_le32 field)
{
    return okv_get_u32(field.bytes);
}

static inline uint64_t okv_le48_get(okv_le48 field)
{
    return okv_get_u32(field.bytes) | (uint64_t)okv_get_u16(field.bytes + 4) << 32;
}

static inline uint64_t okv_le64_get(okv_le64 field)
{
    return okv_get_u64(field.bytes);
}

static inline okv_le16 okv_le16_of(uint16_t v)
{
    okv_le16 field;
    okv_put_u16(field.bytes, v);
    return field;
}

static inline okv_le32 okv_le32_of(uint32_t v)
{
    okv_le32 field;
    okv_put_u32(field.bytes, v);
    return field;
}

/* The low 48 bits of `v`. */
static inline okv_le48 okv_le48_of(uint64_t v)
{
    okv_le48 field;
    okv_put_u32(field.bytes, (uint32_t)v);
    okv_put_u16(field.bytes + 4, (uint16_t)(v >> 32));
    return field;
}

static inline okv_le64 okv_le64_of(uint64_t v)
{
    okv_le64 field;
    okv_put_u64(field.bytes, v);
    return field;
}

static inline bool okv_bytes_are_zero(const uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (bytes[i])
            return false;
    return true;
}

/* True when [offset, offset + length) lies inside [0, limit); never overflows. */
static inline int okv_range_inside(uint64_t offset, uint64_t length, uint64_t limit)
{
    return length <= limit && offset <= limit - length;
}

#endif
