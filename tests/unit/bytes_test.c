/* Short bytes compared and copied without a call (shared/base/bytes.h): as memcmp() and memcpy()
 * do. */
#include "tests/support/test.h"

#include "shared/base/bytes.h"

/* Lengths on both sides of OKV_BYTES_SHORT. */
#define LENGTHS (OKV_BYTES_SHORT + 16u)
#define GUARD 16u
/* Offsets within a word at which they begin. */
#define SHIFTS 8u

static uint8_t pattern(uint32_t at)
{
    return (uint8_t)(at * 37 + 11);
}

TEST(bytes_differ_wherever_they_differ)
{
    uint8_t a[LENGTHS], b[LENGTHS + SHIFTS];

    memset(b, 0xee, sizeof b);
    for (uint32_t i = 0; i < LENGTHS; i++)
        a[i] = pattern(i);
    for (uint32_t shift = 0; shift < SHIFTS; shift++)
        for (uint32_t length = 0; length < LENGTHS; length++) {
            memcpy(b + shift, a, length);
            assert_true(okv_bytes_equal(a, b + shift, length));
            for (uint32_t at = 0; at < length; at++) {
                b[shift + at] ^= 0x40;
                assert_false(okv_bytes_equal(a, b + shift, length));
                b[shift + at] ^= 0x40;
            }
        }
}

TEST(as_many_are_copied_as_were_asked_for)
{
    uint8_t from[LENGTHS + SHIFTS], to[LENGTHS + SHIFTS + GUARD];

    for (uint32_t i = 0; i < sizeof from; i++)
        from[i] = pattern(i);
    for (uint32_t shift = 0; shift < SHIFTS; shift++)
        for (uint32_t length = 0; length < LENGTHS; length++) {
            memset(to, 0xee, sizeof to);
            okv_bytes_copy(to + shift, from + SHIFTS - shift, length);
            assert_memory_equal(to + shift, from + SHIFTS - shift, length);
            for (uint32_t i = 0; i < sizeof to; i++)
                if (i < shift || i >= shift + length)
                    assert_int_equal(to[i], 0xee);
        }
}
