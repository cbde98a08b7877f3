/* Patterns of RESP commands: they mean what Redis says, and no match takes more than its price. */
#include "tests/support/test.h"

#include "server/resp/proto/pattern.h"
#include "shared/base/error.h"
#include "shared/format/entry.h"
#include "tests/support/random.h"
#include "tests/support/slow_pattern.h"

/* Comparisons of the last match. */
static uint64_t work;

static bool bytes_match(const void *pattern, size_t pattern_length, const void *text, size_t length)
{
    struct okv_resp_pattern compiled;

    work = 0;
    assert_int_equal(okv_resp_pattern_init(&compiled, pattern, pattern_length), 0);
    bool does = okv_resp_pattern_matches(&compiled, text, length, &work);
    assert_true(work <= length * okv_resp_pattern_price(&compiled));
    okv_resp_pattern_fini(&compiled);
    return does;
}

static bool matches(const char *pattern, const char *text)
{
    return bytes_match(pattern, strlen(pattern), text, strlen(text));
}

/* ---- meaning ---- */

/* Text number `number` of this length and these letters. */
static void make_text(uint64_t number, unsigned length, const char *letters, char *out)
{
    unsigned base = (unsigned)strlen(letters);

    for (unsigned i = 0; i < length; i++, number /= base)
        out[i] = letters[number % base];
    out[length] = '\0';
}

static unsigned power(unsigned base, unsigned exponent)
{
    return exponent ? base * power(base, exponent - 1) : 1;
}

static void compare(const char *pattern, const char *text)
{
    bool expected = slow_pattern_matches((const uint8_t *)pattern, strlen(pattern),
                                         (const uint8_t *)text, strlen(text));

    if (matches(pattern, text) != expected)
        fail_msg("'%s' and '%s': expected %d", pattern, text, expected);
}

TEST(all_short_patterns_match_what_they_mean)
{
    char pattern[8], text[8];

    for (unsigned p = 0; p <= 5; p++)
        for (unsigned i = 0; i < power(4, p); i++) {
            make_text(i, p, "ab*?", pattern);
            for (unsigned t = 0; t <= 4; t++)
                for (unsigned k = 0; k < power(2, t); k++) {
                    make_text(k, t, "ab", text);
                    compare(pattern, text);
                }
        }
}

TEST(random_patterns_match_what_they_mean)
{
    uint64_t seed = random_seed();
    char pattern[16], text[16];
    unsigned matching = 0;

    for (unsigned i = 0; i < 100000; i++) {
        make_text(random_next(&seed), (unsigned)random_below(&seed, 15), "abc**?[]^-\\", pattern);
        make_text(random_next(&seed), (unsigned)random_below(&seed, 10), "aabbc]-\\", text);
        compare(pattern, text);
        matching += matches(pattern, text);
    }
    assert_in_range(matching, 1000, 99000);
}

TEST(sets_and_escapes_match)
{
    assert_true(matches("h[ae]llo", "hello") && !matches("h[ae]llo", "hillo"));
    assert_true(matches("h[^e]llo", "hallo") && !matches("h[^e]llo", "hello"));
    assert_true(matches("k[0-9]", "k7") && !matches("k[0-9]", "kx"));
    assert_true(matches("k[9-0]", "k7")); /* in either order */
    assert_true(matches("[a\\]b]", "]") && !matches("[a\\]b]", "\\"));
    assert_true(matches("[a\\]b]", "a") && !matches("[a\\]b]", "ab]"));
    assert_true(matches("\\*a", "*a") && !matches("\\*a", "xa"));
    assert_true(matches("a\\", "a\\"));
    assert_true(matches("*[ab]*[cd]", "xxaxxd") && !matches("*[ab]*[cd]", "xxdxxa"));
    /* Sets without an end have one at the end of the pattern. */
    assert_true(matches("[ab", "b") && !matches("[ab", "c"));
    assert_false(matches("[", "a"));
    assert_true(matches("[^", "a"));
    assert_false(matches("[]", "a"));
    assert_true(bytes_match("a?c", 3, "a\0c", 3));
}

TEST(a_set_has_the_bytes_of_its_ranges)
{
    for (unsigned first = 0; first < 256; first += 51)
        for (unsigned last = 0; last < 256; last += 15) {
            const uint8_t pattern[] = {'[', (uint8_t)first, '-', (uint8_t)last, '\\', 'x', ']'};
            for (unsigned byte = 0; byte < 256; byte++) {
                const uint8_t text = (uint8_t)byte;
                assert_int_equal(bytes_match(pattern, sizeof pattern, &text, 1),
                                 slow_pattern_matches(pattern, sizeof pattern, &text, 1));
            }
        }
}

/* Items beyond a word of a mask. */
TEST(long_patterns_match)
{
    char pattern[OKV_RESP_PATTERN_MAX + 1], text[OKV_RESP_PATTERN_MAX + 1];
    struct okv_resp_pattern compiled;

    for (unsigned at = 1; at < 200; at++) {
        memset(text, 'a', sizeof text);
        memset(pattern, 'a', sizeof pattern);
        pattern[0] = pattern[at] = pattern[201] = '*';
        text[150] = pattern[at + 1] = 'b';
        assert_int_equal(bytes_match(pattern, 202, text, 1000), at - 1 <= 150);
        text[150] = 'a';
        assert_false(bytes_match(pattern, 202, text, 1000));
    }
    memset(pattern, '?', sizeof pattern);
    memset(text, 'x', sizeof text);
    assert_true(bytes_match(pattern, OKV_RESP_PATTERN_MAX, text, OKV_RESP_PATTERN_MAX));
    assert_false(bytes_match(pattern, OKV_RESP_PATTERN_MAX, text, OKV_RESP_PATTERN_MAX - 1));
    assert_int_equal(okv_resp_pattern_init(&compiled, (uint8_t *)pattern, sizeof pattern),
                     OKV_EINVAL);
}

/* ---- work ---- */

/* One of many forms with the key of the most bytes: `piece` as often as it fits, between two
 * ends. Returns how many comparisons it took. */
static uint64_t work_of(const char *begin, const char *piece, const char *end, const char *key)
{
    char pattern[OKV_RESP_PATTERN_MAX], text[OKV_KEY_MAX];
    size_t used = (size_t)snprintf(pattern, sizeof pattern, "%s", begin);

    while (used + strlen(piece) + strlen(end) < sizeof pattern) {
        memcpy(pattern + used, piece, strlen(piece));
        used += strlen(piece);
    }
    memcpy(pattern + used, end, strlen(end));
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = key[i % strlen(key)];
    bytes_match(pattern, used + strlen(end), text, sizeof text);
    return work;
}

/* Byte by byte these take a quarter of a million comparisons, or more than can be counted. */
TEST(no_pattern_takes_long)
{
    static const char *const pieces[] = {"a",    "a*",    "*a",     "?",      "?*",      "a?",
                                         "[^b]", "[a-c]", "[a-c]*", "*aaaaa", "ab*",     "",
                                         "a*b",  "aa",    "[^b]*?", "*a*?",   "aaaaaaa*"};
    static const char *const ends[] = {"b", "*b", "*b*", "", "*"};
    char half[OKV_KEY_MAX / 2 + 3] = "*";
    const uint64_t most = OKV_KEY_MAX * (OKV_KEY_MAX / 64 + 3);

    memset(half + 1, 'a', sizeof half - 3);
    for (unsigned i = 0; i < sizeof pieces / sizeof *pieces; i++)
        for (unsigned k = 0; k < sizeof ends / sizeof *ends; k++)
            if (pieces[i][0]) {
                assert_true(work_of("", pieces[i], ends[k], "a") <= most);
                assert_true(work_of("*", pieces[i], ends[k], "a") <= most);
                assert_true(work_of("*", pieces[i], ends[k], "ab") <= most);
            }
    char end[sizeof half + 4];
    snprintf(end, sizeof end, "%sb*", half);
    char text[OKV_KEY_MAX];
    memset(text, 'a', sizeof text);
    assert_false(bytes_match(end, strlen(end), text, sizeof text));
    assert_in_range(work, OKV_KEY_MAX, most);
}

TEST(many_stars_are_tried_once)
{
    assert_false(
        matches("a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*c",
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"));
    assert_true(work <= 2);
    assert_true(matches("*a*b*c*", "xxaxxbxxcxx"));
    assert_int_equal(work, 9);
}

int main(void)
{
    return test_run();
}
