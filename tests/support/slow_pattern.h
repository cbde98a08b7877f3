/* What a glob pattern means, word for word: it tries all ways to divide a text among its stars, so
 * the texts are to be short. */
#ifndef OKV_TESTS_SLOW_PATTERN_H
#define OKV_TESTS_SLOW_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether a set, whose '[' is at *at, has the byte. *at is then behind it. */
static inline bool slow_set_has(const uint8_t *pattern, size_t length, size_t *at, uint8_t byte)
{
    size_t i = *at + 1;
    bool is_inverted = i < length && pattern[i] == '^';
    bool has = false;

    for (i += is_inverted; i < length && pattern[i] != ']'; i++) {
        if (pattern[i] == '\\' && i + 1 < length) {
            has = pattern[++i] == byte || has;
        } else if (i + 2 < length && pattern[i + 1] == '-') {
            uint8_t a = pattern[i], b = pattern[i + 2];
            has = has || (a <= b ? byte >= a && byte <= b : byte >= b && byte <= a);
            i += 2;
        } else {
            has = has || pattern[i] == byte;
        }
    }
    *at = i < length ? i + 1 : length;
    return has != is_inverted;
}

/* Whether what is at *at, which is no '*', matches the byte. *at is then behind it. */
static inline bool slow_item_matches(const uint8_t *pattern, size_t length, size_t *at,
                                     uint8_t byte)
{
    if (pattern[*at] == '[')
        return slow_set_has(pattern, length, at, byte);
    bool is_any = pattern[*at] == '?';
    *at += pattern[*at] == '\\' && *at + 1 < length;
    return pattern[(*at)++] == byte || is_any;
}

static inline bool slow_pattern_matches(const uint8_t *pattern, size_t pattern_length,
                                        const uint8_t *text, size_t length)
{
    size_t at = 0;

    if (pattern_length == 0)
        return length == 0;
    if (*pattern == '*')
        return slow_pattern_matches(pattern + 1, pattern_length - 1, text, length) ||
               (length > 0 && slow_pattern_matches(pattern, pattern_length, text + 1, length - 1));
    return length > 0 && slow_item_matches(pattern, pattern_length, &at, *text) &&
           slow_pattern_matches(pattern + at, pattern_length - at, text + 1, length - 1);
}

#endif
