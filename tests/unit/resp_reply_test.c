/* Bytes of replies, of each type in RESP2 and RESP3, and the buffer that they go to. */
#include "tests/support/test.h"

#include "server/resp/proto/reply.h"
#include "tests/support/sanitized.h"

struct replies {
    struct okv_resp_buffer out;
    struct okv_resp_reply to;
};

static const struct okv_resp_reply *begin(struct replies *replies, unsigned protocol)
{
    *replies = (struct replies){.to = {&replies->out, protocol}};
    return &replies->to;
}

static void end(struct replies *replies, const char *bytes, size_t length)
{
    assert_int_equal(replies->out.used, length);
    assert_memory_equal(replies->out.bytes, bytes, length);
    assert_false(replies->out.has_failed);
    okv_resp_buffer_fini(&replies->out);
}

/* What `call` of `to` adds in each protocol. */
#define EXPECT(call, in_2, in_3)              \
    do {                                      \
        struct replies replies;               \
        const struct okv_resp_reply *to;      \
        to = begin(&replies, 2);              \
        call;                                 \
        end(&replies, in_2, sizeof in_2 - 1); \
        to = begin(&replies, 3);              \
        call;                                 \
        end(&replies, in_3, sizeof in_3 - 1); \
    } while (0)
#define EXPECT_BOTH(call, bytes) EXPECT(call, bytes, bytes)

TEST(numbers_are_decimal)
{
    EXPECT_BOTH(okv_resp_integer(to, 0), ":0\r\n");
    EXPECT_BOTH(okv_resp_integer(to, -1), ":-1\r\n");
    EXPECT_BOTH(okv_resp_integer(to, 1234567890), ":1234567890\r\n");
    EXPECT_BOTH(okv_resp_integer(to, INT64_MAX), ":9223372036854775807\r\n");
    EXPECT_BOTH(okv_resp_integer(to, INT64_MIN), ":-9223372036854775808\r\n");
}

TEST(strings_have_their_length)
{
    EXPECT_BOTH(okv_resp_simple(to, "OK"), "+OK\r\n");
    EXPECT_BOTH(okv_resp_bulk(to, "", 0), "$0\r\n\r\n");
    EXPECT_BOTH(okv_resp_bulk(to, "a\r\n\0b", 5), "$5\r\na\r\n\0b\r\n");
    EXPECT_BOTH(okv_resp_text(to, "ten bytes."), "$10\r\nten bytes.\r\n");
    EXPECT(okv_resp_verbatim(to, "a\nb", 3), "$3\r\na\nb\r\n", "=7\r\ntxt:a\nb\r\n");
    EXPECT(okv_resp_verbatim(to, "", 0), "$0\r\n\r\n", "=4\r\ntxt:\r\n");
}

TEST(nothing_has_a_type_in_resp3)
{
    EXPECT(okv_resp_null(to), "$-1\r\n", "_\r\n");
    EXPECT(okv_resp_null_array(to), "*-1\r\n", "_\r\n");
}

TEST(lists_have_their_count)
{
    EXPECT_BOTH(okv_resp_array(to, 0), "*0\r\n");
    EXPECT_BOTH(okv_resp_array(to, 12), "*12\r\n");
    EXPECT(okv_resp_set(to, 3), "*3\r\n", "~3\r\n");
    EXPECT(okv_resp_map(to, 7), "*14\r\n", "%7\r\n");
    EXPECT(okv_resp_map(to, 0), "*0\r\n", "%0\r\n");
}

/* An argument in an error must not look like the next reply. */
TEST(an_error_is_one_line)
{
    char name[2000];

    EXPECT_BOTH(okv_resp_error(to, "ERR no %s", "such key"), "-ERR no such key\r\n");
    EXPECT_BOTH(okv_resp_error(to, "ERR '%s'", "a\r\n+OK\r\n\n\r"), "-ERR 'a  +OK    '\r\n");
    memset(name, '\n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    struct replies replies;
    okv_resp_error(begin(&replies, 3), "ERR %s", name);
    assert_in_range(replies.out.used, 100, sizeof name);
    assert_memory_equal(replies.out.bytes, "-ERR  ", 6);
    for (size_t i = 0; i < replies.out.used - 2; i++)
        assert_true(replies.out.bytes[i] != '\r' && replies.out.bytes[i] != '\n');
    assert_memory_equal(replies.out.bytes + replies.out.used - 2, "\r\n", 2);
    okv_resp_buffer_fini(&replies.out);
}

/* ---- the buffer ---- */

TEST(a_buffer_grows_and_keeps_its_bytes)
{
    struct okv_resp_buffer buffer = {.used = 0};
    struct okv_resp_trash trash = {.first = NULL};
    uint8_t piece[700];

    for (unsigned i = 0; i < 50; i++) {
        memset(piece, (int)i, sizeof piece);
        okv_resp_buffer_add(&buffer, piece, sizeof piece);
    }
    okv_resp_buffer_drop(&buffer, 10 * sizeof piece + 1, &trash);
    assert_int_equal(buffer.used, 40 * sizeof piece - 1);
    for (size_t i = 0; i < buffer.used; i++)
        assert_int_equal(buffer.bytes[i], 10 + (i + 1) / sizeof piece);
    okv_resp_buffer_drop(&buffer, buffer.used, &trash);
    assert_int_equal(buffer.used, 0);
    okv_resp_buffer_fini(&buffer);
    assert_null(buffer.bytes);
}

/* The rest of a buffer that is mapped stays where it is. */
TEST(the_begin_of_a_long_buffer_goes_in_steps)
{
    static uint8_t piece[OKV_RESP_TRASH_STEP];
    struct okv_resp_buffer buffer = {.used = 0};
    struct okv_resp_trash trash = {.first = NULL};
    size_t all = 0, step;

    for (unsigned i = 0; i < 5; i++) {
        memset(piece, (int)i, sizeof piece);
        okv_resp_buffer_add(&buffer, piece, sizeof piece);
    }
    const uint8_t *last = buffer.bytes + 4 * sizeof piece;
    assert_int_equal(okv_resp_buffer_drop(&buffer, 3 * sizeof piece + 1, &trash), 3 * sizeof piece);
    assert_int_equal(buffer.used, 2 * sizeof piece);
    while ((step = okv_resp_trash_empty(&trash)) > 0) {
        assert_true(step <= OKV_RESP_TRASH_STEP);
        all += step;
    }
    assert_int_equal(all, 3 * sizeof piece);
    assert_memory_equal(last, piece, sizeof piece);
    okv_resp_buffer_discard(&buffer, &trash);
    assert_null(buffer.bytes);
    while (okv_resp_trash_empty(&trash) > 0)
        continue;
}

/* When many clients end at once. */
TEST(all_that_is_discarded_at_once_is_one_step)
{
    struct okv_resp_trash trash = {.first = NULL};
    size_t left = 0;

    for (unsigned i = 0; i < 5; i++) {
        struct okv_resp_buffer buffer = {.used = 0};
        assert_non_null(okv_resp_buffer_room(&buffer, OKV_RESP_TRASH_STEP / 2));
        okv_resp_buffer_discard(&buffer, &trash);
    }
    assert_int_equal(trash.unmapped, OKV_RESP_TRASH_STEP);
    for (size_t step; (step = okv_resp_trash_empty(&trash)) > 0; left += step)
        assert_true(step <= OKV_RESP_TRASH_STEP);
    assert_int_equal(left, 3 * OKV_RESP_TRASH_STEP / 2);
}

TEST(each_page_is_new_once)
{
    static const uint8_t piece[OKV_RESP_MAPPED_MIN];
    struct okv_resp_buffer buffer = {.used = 0};
    struct okv_resp_trash trash = {.first = NULL};

    okv_resp_buffer_add(&buffer, piece, sizeof piece / 2);
    assert_int_equal(okv_resp_buffer_fresh(&buffer), 0); /* the allocator's */
    okv_resp_buffer_add(&buffer, piece, sizeof piece);
    assert_int_equal(okv_resp_buffer_fresh(&buffer), 3 * sizeof piece / 2);
    assert_int_equal(okv_resp_buffer_fresh(&buffer), 0);
    buffer.used = 0;
    okv_resp_buffer_add(&buffer, piece, sizeof piece);
    assert_int_equal(okv_resp_buffer_fresh(&buffer), 0);
    okv_resp_buffer_add(&buffer, piece, sizeof piece);
    assert_int_equal(okv_resp_buffer_fresh(&buffer), sizeof piece / 2);
    okv_resp_buffer_drop(&buffer, sizeof piece, &trash);
    okv_resp_buffer_add(&buffer, piece, sizeof piece);
    assert_int_equal(okv_resp_buffer_fresh(&buffer), sizeof piece);
    okv_resp_buffer_fini(&buffer);
}

TEST(nothing_is_added_without_memory)
{
    struct okv_resp_buffer buffer = {.used = 0};

    if (OKV_SANITIZED)
        skip(); /* there such an allocation ends the program */
    okv_resp_buffer_add(&buffer, "ab", 2);
    assert_null(okv_resp_buffer_room(&buffer, SIZE_MAX / 4));
    assert_true(buffer.has_failed);
    assert_int_equal(buffer.used, 2);
    assert_memory_equal(buffer.bytes, "ab", 2);
    okv_resp_buffer_fini(&buffer);
}
