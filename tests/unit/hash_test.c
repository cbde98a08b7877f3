/* Checksums are XXH3-64 with any vectors and in any number of pieces. */
#include "tests/support/test.h"
#include <xxhash.h>

#include "shared/format/bucket.h"
#include "shared/format/hash.h"

#define LONG 20000u

static uint8_t bytes[LONG + 64];

static void fill(void)
{
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
}

TEST(checksum_is_of_its_length_alone)
{
    fill();
    for (unsigned length = 0; length <= LONG; length += length < 2100 ? 1 : 997) {
        const uint8_t *at = bytes + length % 64;
        assert_int_equal(okv_hash_checksum(at, length, 7), XXH3_64bits(at, length) ^ 7);
    }
}

TEST(checksum_of_two_is_that_of_both)
{
    static const unsigned lengths[] = {1, 240, 241, 255, 256, 1023, 1024, 1025, 4096, LONG};
    static const unsigned firsts[] = {0, 1, 16, 64, 255, 256, 257, 1024};

    fill();
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (unsigned k = 0; k < sizeof firsts / sizeof *firsts; k++) {
            unsigned length = lengths[i], first = firsts[k] < length ? firsts[k] : length;
            uint8_t elsewhere[1024];
            memcpy(elsewhere, bytes, first);
            assert_int_equal(
                okv_hash_checksum_of_two(elsewhere, first, bytes + first, length - first, 9),
                okv_hash_checksum(bytes, length, 9));
        }
    }
}

TEST(checksum_of_a_stream_is_that_of_all)
{
    static const unsigned pieces[] = {1, 64, 239, 241, 1023, 1024, 4096, LONG};
    struct okv_hash_stream stream;

    fill();
    for (unsigned i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        okv_hash_stream_begin(&stream);
        for (unsigned at = 0; at < LONG; at += pieces[i]) {
            assert_int_equal(okv_hash_stream_checksum(&stream, 9), okv_hash_checksum(bytes, at, 9));
            okv_hash_stream_add(&stream, bytes + at, at + pieces[i] < LONG ? pieces[i] : LONG - at);
        }
        assert_int_equal(okv_hash_stream_checksum(&stream, 9), okv_hash_checksum(bytes, LONG, 9));
    }
}

/* The values of a build without vectors. */
TEST(values_of_long_inputs)
{
    memset(bytes, 'o', sizeof bytes);
    assert_int_equal(okv_hash_checksum(bytes, 1023, 0), UINT64_C(0xfe13e7360bd9fe4c));
    assert_int_equal(okv_hash_checksum(bytes, 1024, 0), UINT64_C(0x92d9ab49f6d8d1ee));
    assert_int_equal(okv_hash_checksum(bytes, 4096, 0), UINT64_C(0x579d277129a1a9b0));
}

/* Published values of XXH3-64 pin the hash itself: an empty input, seed 0. */
TEST(hash_values)
{
    assert_int_equal(okv_hash_checksum("", 0, 0), 0x2d06800538d394c2);
    assert_int_equal(okv_hash_checksum("", 0, 1), 0x2d06800538d394c3);
    assert_int_equal(okv_hash_bucket(0xffffffffffffffff, 3), 7);
    assert_int_equal(okv_hash_bucket(0xffffffffffffffff, 0), 0);
    assert_int_equal(okv_hash_tag(0xabcd000000000000), 0xabcd);
    assert_int_equal(okv_hash_key("key", 3, 0x99aabbccddeeff00), 0x88760e81f20f52af);
    assert_int_equal(okv_extent_checksum((const uint8_t *)"keyvalue", 8, 0x1122334455667788),
                     0xb8a40539c1abd5b4);
}
