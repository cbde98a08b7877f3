/*
 * Requests of RESP: arrays and lines, in pieces, limits, and what is no request. Every request is
 * fed at once, byte by byte and in all splits into two, in memory that moves and has no byte more.
 */
#include <sys/mman.h>

#include "tests/support/test.h"

#include "server/resp/proto/parser.h"
#include "shared/base/error.h"

#define ARGS_SHOWN 4
#define BEHIND "*1\r\n" /* the next request has begun */

struct expected {
    const char *bytes;
    size_t length;
    int rc;
    uint32_t count;
    const char *args[ARGS_SHOWN];
    const char *problem;
};

static void check(const struct okv_resp_parser *parser, int rc, const uint8_t *bytes,
                  const struct expected *expected)
{
    assert_int_equal(rc, expected->rc);
    if (rc < 0) {
        assert_string_equal(parser->problem, expected->problem);
        return;
    }
    assert_int_equal(parser->count, expected->count);
    assert_int_equal(parser->position, expected->length);
    for (uint32_t i = 0; i < parser->count && i < ARGS_SHOWN; i++) {
        const struct okv_resp_arg *arg = &parser->args[i];
        assert_true(arg->text >= bytes && arg->text + arg->length <= bytes + expected->length);
        assert_int_equal(arg->length, strlen(expected->args[i]));
        assert_memory_equal(arg->text, expected->args[i], arg->length);
    }
}

/* Feeds what ends at each of the two lengths, and with `is_stepwise` at each before the second. */
static void feed(struct okv_resp_parser *parser, const struct expected *expected, size_t first,
                 size_t second, bool is_stepwise)
{
    uint8_t *moved = NULL;
    int rc = 0;

    for (size_t length = first; rc == 0 && length <= second;
         length = is_stepwise || length == second ? length + 1 : second) {
        free(moved);
        moved = malloc(length ? length : 1);
        assert_non_null(moved);
        memcpy(moved, expected->bytes, length);
        rc = okv_resp_parse(parser, moved, length);
        assert_true(rc != 0 || parser->needed <= expected->length);
    }
    check(parser, rc, moved, expected);
    okv_resp_parser_reset(parser);
    free(moved);
}

static void expect(const struct expected *expected, bool is_unauthenticated)
{
    struct okv_resp_parser parser = {.is_unauthenticated = is_unauthenticated};
    char behind[4096];

    feed(&parser, expected, expected->length, expected->length, false);
    feed(&parser, expected, 0, expected->length, true);
    for (size_t i = 0; i < expected->length; i++)
        feed(&parser, expected, i, expected->length, false);
    if (expected->rc == 1 && expected->length + sizeof BEHIND <= sizeof behind) {
        memcpy(behind, expected->bytes, expected->length);
        memcpy(behind + expected->length, BEHIND, sizeof BEHIND);
        struct expected with_next = *expected;
        with_next.bytes = behind;
        feed(&parser, &with_next, expected->length + sizeof BEHIND,
             expected->length + sizeof BEHIND, false);
    }
    okv_resp_parser_fini(&parser);
}

#define EXPECT(bytes, args_count, ...) \
    expect(&(struct expected){bytes, sizeof bytes - 1, 1, args_count, {__VA_ARGS__}, NULL}, false)
#define EXPECT_NONE(bytes) \
    expect(&(struct expected){bytes, sizeof bytes - 1, 1, 0, {NULL}, NULL}, false)
#define REFUSE(bytes, why) \
    expect(&(struct expected){bytes, sizeof bytes - 1, OKV_EPROTO, 0, {NULL}, why}, false)
#define REFUSE_STRANGER(bytes, why) \
    expect(&(struct expected){bytes, sizeof bytes - 1, OKV_EPROTO, 0, {NULL}, why}, true)

TEST(arrays_are_requests)
{
    EXPECT("*1\r\n$4\r\nPING\r\n", 1, "PING");
    EXPECT("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n", 3, "SET", "k", "value");
    EXPECT("*2\r\n$3\r\nGET\r\n$0\r\n\r\n", 2, "GET", "");
    /* Arguments are bytes. */
    EXPECT("*2\r\n$4\r\n\r\n*1\r\n$2\r\n'\"\r\n", 2, "\r\n*1", "'\"");
    EXPECT_NONE("*0\r\n");
    EXPECT_NONE("*-1\r\n");
    EXPECT_NONE("*-100\r\n");
}

TEST(lines_are_requests)
{
    EXPECT("PING\r\n", 1, "PING");
    EXPECT("PING\n", 1, "PING");
    EXPECT("  set\tk   value \r\n", 3, "set", "k", "value");
    EXPECT_NONE("\r\n");
    EXPECT_NONE("\n");
    EXPECT_NONE("  \t \r\n");
    EXPECT("a*1 $1\r\n", 2, "a*1", "$1");
}

TEST(words_have_quotes_and_escapes)
{
    EXPECT("set \"a b\" 'c d'\r\n", 3, "set", "a b", "c d");
    EXPECT("\"\" ''\r\n", 2, "", "");
    EXPECT("\"\\n\\r\\t\\b\\a\\\\\\\"\\q\"\r\n", 1, "\n\r\t\b\a\\\"q");
    EXPECT("\"\\x41\\x7a\\xZZ\\x4\"\r\n", 1, "AzxZZx4");
    EXPECT("'\\'\\n\"'\r\n", 1, "'\\n\"");
    EXPECT("ab\"c d\" e\r\n", 2, "abc d", "e");
    EXPECT("\"a\"\tb\r\n", 2, "a", "b");
    EXPECT("\"a'b\" 'c\"d'\r\n", 2, "a'b", "c\"d");
}

TEST(what_is_no_request_is_said)
{
    static const char unbalanced[] = "unbalanced quotes in request";

    REFUSE("*\r\n", "invalid multibulk length");
    REFUSE("*-\r\n", "invalid multibulk length");
    REFUSE("*1x\r\n", "invalid multibulk length");
    REFUSE("*+1\r\n", "invalid multibulk length");
    REFUSE("*01\r\n", "invalid multibulk length");
    REFUSE("*-0\r\n", "invalid multibulk length");
    REFUSE("*9999999999999999999\r\n", "invalid multibulk length");
    REFUSE("*111111111111111111111111111111111", "too big mbulk count string");
    REFUSE("*111111111111111111111111111111111\r\n", "too big mbulk count string");
    REFUSE("*1\r\nPING\r\n", "expected '$', got 'P'");
    REFUSE("*1\r\n$\r\n", "invalid bulk length");
    REFUSE("*1\r\n$-1\r\n", "invalid bulk length");
    REFUSE("*1\r\n$1 \r\n", "invalid bulk length");
    REFUSE("*1\r\n$01\r\n", "invalid bulk length");
    REFUSE("*1\r\n$-0\r\n", "invalid bulk length");
    REFUSE("*1\r\n$111111111111111111111111111111111", "too big bulk count string");
    REFUSE("*1\r\n$111111111111111111111111111111111\r\n", "too big bulk count string");
    REFUSE("\"a\r\n", unbalanced);
    REFUSE("'a\r\n", unbalanced);
    REFUSE("\"a\\\"\r\n", unbalanced);
    REFUSE("\"a\"b\r\n", unbalanced);
    REFUSE("'a'b\r\n", unbalanced);
}

/* ---- limits ---- */

TEST(the_number_of_arguments_has_a_limit)
{
    struct okv_resp_parser parser = {0};
    uint8_t head[] = "*1048576\r\n";

    REFUSE("*1048577\r\n", "invalid multibulk length");
    assert_int_equal(okv_resp_parse(&parser, head, sizeof head - 1), 0);
    assert_int_equal(parser.capacity, 0); /* it takes no memory before they come */
    okv_resp_parser_fini(&parser);
}

/* Calls until the parser needs more bytes, or has the request. Returns its last result. */
static int parse_all(struct okv_resp_parser *parser, uint8_t *bytes, size_t length)
{
    uint32_t count, set;
    int rc;

    do {
        count = parser->count;
        set = parser->set;
        rc = okv_resp_parse(parser, bytes, length);
        assert_true(parser->count - count <= OKV_RESP_ARGS_PER_CALL);
        assert_true(parser->set - set <= OKV_RESP_ARGS_PER_CALL);
    } while (rc == 0 && parser->has_more);
    return rc;
}

/* A call reads some of them; the others wait for the next one. */
TEST(many_arguments_come)
{
    const uint32_t count = 100000;
    struct okv_resp_parser parser = {0};
    char *bytes = malloc(count * 8 + 32);
    size_t length = (size_t)sprintf(bytes, "*%u\r\n", count);

    for (uint32_t i = 0; i < count; i++)
        length += (size_t)sprintf(bytes + length, "$1\r\n%c\r\n", 'a' + (int)(i % 26));
    size_t half = length / 2;
    assert_int_equal(okv_resp_parse(&parser, (uint8_t *)bytes, half), 0);
    assert_true(parser.has_more);
    assert_int_equal(parse_all(&parser, (uint8_t *)bytes, half), 0);
    assert_int_equal(parse_all(&parser, (uint8_t *)bytes, length), 1);
    okv_resp_parser_keep(&parser, (uint8_t *)bytes);
    assert_true(okv_resp_parser_is_fixed(&parser));
    assert_int_equal(okv_resp_parse(&parser, (uint8_t *)bytes, length), 1);
    assert_int_equal(parser.count, count);
    assert_int_equal(parser.position, length);
    for (uint32_t i = 0; i < count; i++)
        assert_true(parser.args[i].length == 1 && *parser.args[i].text == 'a' + i % 26);
    okv_resp_parser_fini(&parser);
    free(bytes);
}

/* Bytes of a request that is never there as a whole: those of arguments are not looked at. */
static uint8_t *map_request(void)
{
    void *bytes = mmap(NULL, OKV_RESP_REQUEST_MAX, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    assert_ptr_not_equal(bytes, MAP_FAILED);
    return bytes;
}

TEST(an_argument_has_a_limit)
{
    struct okv_resp_parser parser = {0};
    uint8_t *bytes = map_request();
    char text[64];

    size_t head = (size_t)snprintf(text, sizeof text, "*1\r\n$%u\r\n", OKV_RESP_BULK_MAX);
    memcpy(bytes, text, head);
    assert_int_equal(okv_resp_parse(&parser, bytes, head), 0);
    assert_int_equal(parser.needed, head + OKV_RESP_BULK_MAX + 2);
    assert_int_equal(okv_resp_parse(&parser, bytes, parser.needed - 1), 0);
    assert_int_equal(okv_resp_parse(&parser, bytes, parser.needed), 1);
    assert_int_equal(parser.args[0].length, OKV_RESP_BULK_MAX);
    okv_resp_parser_reset(&parser);
    head = (size_t)snprintf(text, sizeof text, "*1\r\n$%u\r\n", OKV_RESP_BULK_MAX + 1);
    assert_int_equal(okv_resp_parse(&parser, (uint8_t *)text, head), OKV_EPROTO);
    assert_string_equal(parser.problem, "invalid bulk length");
    okv_resp_parser_fini(&parser);
    munmap(bytes, OKV_RESP_REQUEST_MAX);
}

TEST(a_request_has_a_limit)
{
    struct okv_resp_parser parser = {0};
    uint8_t *bytes = map_request();
    const uint32_t two = (128u << 20) / 3;
    size_t at;
    char text[64];

    /* Three arguments: the third ends with the last byte, or one behind it. */
    for (uint32_t behind = 0; behind < 2; behind++) {
        at = (size_t)snprintf(text, sizeof text, "*3\r\n");
        memcpy(bytes, text, at);
        for (unsigned i = 0; i < 3; i++) {
            size_t head = 11; /* of "$12345678\r\n" */
            uint32_t size = i < 2 ? two : (uint32_t)(OKV_RESP_REQUEST_MAX - at - head - 2) + behind;
            assert_int_equal(snprintf(text, sizeof text, "$%u\r\n", size), head);
            memcpy(bytes + at, text, head);
            at += head + size + 2;
        }
        assert_int_equal(okv_resp_parse(&parser, bytes, OKV_RESP_REQUEST_MAX),
                         behind ? OKV_EPROTO : 1);
        okv_resp_parser_reset(&parser);
    }
    assert_string_equal(parser.problem, "the request has more than 128 MiB");
    okv_resp_parser_fini(&parser);
    munmap(bytes, OKV_RESP_REQUEST_MAX);
}

/* Lines of this many bytes before the end, with and without it, and in pieces. */
static void expect_line(size_t length, bool is_unauthenticated, int rc)
{
    struct okv_resp_parser parser = {.is_unauthenticated = is_unauthenticated};
    uint8_t *bytes = malloc(length + 1);

    memset(bytes, 'a', length);
    bytes[length] = '\n';
    assert_int_equal(okv_resp_parse(&parser, bytes, length + 1), rc);
    okv_resp_parser_reset(&parser);
    assert_int_equal(okv_resp_parse(&parser, bytes, length / 2), 0);
    assert_int_equal(okv_resp_parse(&parser, bytes, length), rc < 0 ? rc : 0);
    if (rc < 0)
        assert_string_equal(parser.problem, "too big inline request");
    else
        assert_int_equal(okv_resp_parse(&parser, bytes, length + 1), rc);
    okv_resp_parser_fini(&parser);
    free(bytes);
}

TEST(a_line_has_a_limit)
{
    expect_line(OKV_RESP_INLINE_MAX, false, 1);
    expect_line(OKV_RESP_INLINE_MAX + 1, false, OKV_EPROTO);
    expect_line(OKV_RESP_UNAUTHENTICATED_BULK_MAX, true, 1);
    expect_line(OKV_RESP_UNAUTHENTICATED_BULK_MAX + 1, true, OKV_EPROTO);
}

static void expect_words(unsigned count, bool is_unauthenticated, int rc)
{
    struct okv_resp_parser parser = {.is_unauthenticated = is_unauthenticated};
    uint8_t *bytes = malloc(2 * count);
    int first;

    for (unsigned i = 0; i < count; i++)
        memcpy(bytes + 2 * i, i + 1 < count ? "a " : "a\n", 2);
    while ((first = okv_resp_parse(&parser, bytes, 2 * count)) == 0 && parser.has_more)
        ;
    assert_int_equal(first, rc);
    if (rc < 0)
        assert_string_equal(parser.problem, "too many words in an inline request");
    okv_resp_parser_fini(&parser);
    free(bytes);
}

/* It is read in one step. */
TEST(a_line_has_a_limit_of_words)
{
    expect_words(OKV_RESP_INLINE_ARGS_MAX, false, 1);
    expect_words(OKV_RESP_INLINE_ARGS_MAX + 1, false, OKV_EPROTO);
    expect_words(OKV_RESP_UNAUTHENTICATED_ARGS_MAX, true, 1);
    expect_words(OKV_RESP_UNAUTHENTICATED_ARGS_MAX + 1, true, OKV_EPROTO);
}

TEST(strangers_have_lower_limits)
{
    REFUSE_STRANGER("*11\r\n", "unauthenticated multibulk length");
    REFUSE_STRANGER("*1\r\n$16385\r\n", "unauthenticated bulk length");
    const struct expected most = {"*10\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n$1\r\ne\r\n"
                                  "$1\r\nf\r\n$1\r\ng\r\n$1\r\nh\r\n$1\r\ni\r\n$1\r\nj\r\n",
                                  75,
                                  1,
                                  10,
                                  {"a", "b", "c", "d"},
                                  NULL};
    expect(&most, true);
    struct okv_resp_parser parser = {.is_unauthenticated = true};
    uint8_t longest[] = "*1\r\n$16384\r\n";
    assert_int_equal(okv_resp_parse(&parser, longest, sizeof longest - 1), 0);
    okv_resp_parser_fini(&parser);
}

/* ---- the same request again ---- */

TEST(a_request_is_kept_while_its_bytes_move)
{
    static const char *const requests[] = {"set \"a b\" 'c d'\r\n",
                                           "*3\r\n$3\r\nset\r\n$3\r\na b\r\n$3\r\nc d\r\n", "\r\n"};

    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        struct okv_resp_parser parser = {0};
        size_t length = strlen(requests[i]);
        struct expected expected = {requests[i],           length, 1, i < 2 ? 3 : 0,
                                    {"set", "a b", "c d"}, NULL};
        uint8_t *bytes = malloc(length);
        memcpy(bytes, requests[i], length);
        assert_int_equal(okv_resp_parse(&parser, bytes, length), 1);
        for (unsigned times = 0; times < 3; times++) {
            uint8_t *moved = malloc(length);
            okv_resp_parser_keep(&parser, bytes);
            memcpy(moved, bytes, length);
            free(bytes);
            bytes = moved;
            check(&parser, okv_resp_parse(&parser, bytes, length), bytes, &expected);
        }
        okv_resp_parser_keep(&parser, bytes);
        okv_resp_parser_reset(&parser);
        assert_int_equal(okv_resp_parse(&parser, bytes, 0), 0);
        okv_resp_parser_fini(&parser);
        free(bytes);
    }
}
