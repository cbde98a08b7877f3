/* A trace has the requests, keys and sizes that its text says, or says where that is wrong. */
#include "tests/support/test.h"
#include <okv.h>

#include "tests/support/trace_text.h"

#define MANY 20000

static struct trace read_text(const char *text)
{
    char why[TRACE_WHY_TEXT] = "";
    struct trace trace;

    if (trace_text_read(text, strlen(text), &trace, why) != OKV_OK)
        fail_msg("%s", why);
    return trace;
}

static void assert_requests(const struct trace *trace, size_t count, const uint32_t *ids)
{
    assert_int_equal(trace->count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(trace->requests[i], ids[i]);
}

static void assert_key(const struct trace *trace, uint32_t id, const char *key)
{
    size_t length;
    const char *bytes = trace_key(trace, id, &length);

    assert_int_equal(length, strlen(key));
    assert_memory_equal(bytes, key, length);
}

TEST(lines_are_requests_of_keys_in_the_order_in_which_they_appear)
{
    struct trace trace = read_text("# comment\n"
                                   "one 100\n"
                                   "\n"
                                   "  two\t200  \r\n"
                                   "one 100\n"
                                   "#one 7\n"
                                   "a#b 4K\n"
                                   "two 200");

    assert_requests(&trace, 5, (uint32_t[]){0, 1, 0, 2, 1});
    assert_int_equal(trace.keys, 3);
    assert_key(&trace, 0, "one");
    assert_key(&trace, 1, "two");
    assert_key(&trace, 2, "a#b");
    assert_int_equal(trace.sizes[0], 100);
    assert_int_equal(trace.sizes[1], 200);
    assert_int_equal(trace.sizes[2], 4096);
    assert_int_equal(trace.key_least, 3);
    assert_int_equal(trace.key_most, 3);
    assert_int_equal(trace.value_least, 100);
    assert_int_equal(trace.value_most, 4096);
    trace_fini(&trace);
}

TEST(the_first_line_of_a_key_decides_its_size)
{
    struct trace trace = read_text("a 50\nb\na 60\na\nb 70\n");
    size_t length;

    assert_requests(&trace, 5, (uint32_t[]){0, 1, 0, 0, 1});
    assert_int_equal(trace.sizes[0], 50);
    assert_int_not_equal(trace.sizes[1], 70);
    trace_key(&trace, 1, &length);
    assert_true(length == 24 || length == 32);
    trace_fini(&trace);
}

/* A value proves what it is by 16 bytes. */
TEST(the_smallest_values_have_16_bytes)
{
    struct trace trace = read_text("a 0\nb 15\nc 17\n");

    assert_int_equal(trace.sizes[0], 16);
    assert_int_equal(trace.sizes[1], 16);
    assert_int_equal(trace.sizes[2], 17);
    trace_fini(&trace);
}

/* Keys are filled up from the front, and stay different from each other and from longer ones. */
TEST(without_a_size_keys_and_values_have_one_by_their_hash)
{
    static const char longest[] = "a-word-of-more-than-32-bytes-stays-as-it-is";
    struct trace trace = read_text("7\n17\n7\n117\na#7 20\n"
                                   "a-word-of-more-than-32-bytes-stays-as-it-is\n17\n");

    assert_requests(&trace, 7, (uint32_t[]){0, 1, 0, 2, 3, 4, 1});
    for (uint32_t id = 0; id < 3; id++) {
        size_t length;
        const char *key = trace_key(&trace, id, &length);
        assert_true(length == 24 || length == 32);
        assert_int_equal(key[0], '#');
        assert_int_equal(key[length - 1], '7');
        assert_in_range(trace.sizes[id], 100, 1024);
    }
    assert_key(&trace, 3, "a#7");
    assert_key(&trace, 4, longest);
    trace_fini(&trace);
}

TEST(many_keys_are_found_again)
{
    size_t room = (size_t)MANY * 2 * 8, length = 0, both[2] = {0};
    char *text = malloc(room), why[TRACE_WHY_TEXT];
    struct trace trace;

    for (int i = 0; i < 2 * MANY; i++)
        length += (size_t)snprintf(text + length, room - length, "%d\n", i % MANY);
    assert_int_equal(trace_text_read(text, length, &trace, why), OKV_OK);
    assert_int_equal(trace.keys, MANY);
    assert_int_equal(trace.count, 2 * MANY);
    for (uint32_t i = 0; i < 2 * MANY; i++)
        assert_int_equal(trace.requests[i], i % MANY);
    for (uint32_t id = 0; id < MANY; id++) {
        size_t bytes;
        trace_key(&trace, id, &bytes);
        both[bytes == 32]++;
    }
    assert_int_equal(trace.value_least, 100);
    assert_int_equal(trace.value_most, 1024);
    assert_in_range(both[0], MANY * 2 / 5, MANY * 3 / 5);
    assert_int_equal(both[0] + both[1], MANY);
    trace_fini(&trace);
    free(text);
}

/* Fails unless these bytes are refused with these words. */
static void assert_refused(const char *text, size_t length, const char *words)
{
    char why[TRACE_WHY_TEXT] = "";
    struct trace trace;

    assert_int_equal(trace_text_read(text, length, &trace, why), OKV_EINVAL);
    if (!strstr(why, words))
        fail_msg("'%s' does not say '%s'", why, words);
    trace_fini(&trace);
}

TEST(what_is_wrong_is_refused_with_its_line)
{
    static const struct {
        const char *text, *words;
    } wrong[] = {
        {"", "no request: give lines of KEY or KEY SIZE"},
        {"# nothing\n\n", ": no request"},
        {"a 1 2\n", ":1: more than KEY and SIZE"},
        {"a\nb x\n", ":2: SIZE 'x': give a size from 0 B to 1 GiB"},
        {"a\n\n# c\nb -1\n", ":4: SIZE '-1'"},
        {"a 1.5\n", ":1: SIZE '1.5'"},
        {"a 99999999999999999999999\n", ":1: SIZE '9999"},
        {"a 1025M\n", ":1: SIZE '1025M'"},
        {"a\x01 5\n", ":1: the key has a control character"},
        {"a\x7f\n", ":1: the key has a control character"},
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_refused(wrong[i].text, strlen(wrong[i].text), wrong[i].words);
    assert_refused("a\nb\0c\n", 6, ":2: longer than a key of 1024 bytes and a size, or no text");
    assert_refused("\0\n", 2, ":1: longer");
}

TEST(a_key_has_1024_bytes_at_most)
{
    char text[4096];
    struct trace trace;

    memset(text, 'k', sizeof text);
    assert_refused(text, 1025, ":1: the key has 1025 bytes: give at most 1024");
    assert_refused(text, sizeof text, ":1: longer than a key of 1024 bytes");
    text[1024] = '\0';
    trace = read_text(text);
    assert_int_equal(trace.key_most, 1024);
    trace_fini(&trace);
}

TEST(a_file_that_is_not_there_is_named)
{
    char why[TRACE_WHY_TEXT];
    struct trace trace;

    assert_int_equal(trace_read("/no/such/trace", &trace, why), OKV_EINVAL);
    assert_string_equal(why, "/no/such/trace: No such file or directory");
    trace_fini(&trace);
}
