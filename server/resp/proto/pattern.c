#include "server/resp/proto/pattern.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/error.h"

#define BITS 64u /* of a word */
#define WORDS_MAX (OKV_RESP_PATTERN_MAX / BITS)
#define NOWHERE SIZE_MAX

/* ---- compiling ---- */

/* Values of a byte. */
struct set {
    uint64_t words[256 / BITS];
};

static void set_add(struct set *set, unsigned first, unsigned last)
{
    for (unsigned i = first / BITS; i <= last / BITS; i++) {
        uint64_t from = i == first / BITS ? ~UINT64_C(0) << first % BITS : ~UINT64_C(0);
        uint64_t to = i == last / BITS ? ~UINT64_C(0) >> (BITS - 1 - last % BITS) : ~UINT64_C(0);
        set->words[i] |= from & to;
    }
}

static void set_invert(struct set *set)
{
    for (unsigned i = 0; i < sizeof set->words / sizeof *set->words; i++)
        set->words[i] = ~set->words[i];
}

/* Reads what is between '[' and ']', which may be missing at the end. Returns where it ends. */
static size_t read_set(const uint8_t *text, size_t length, size_t at, struct set *set)
{
    bool is_inverted = at < length && text[at] == '^';

    for (at += is_inverted; at < length && text[at] != ']'; at++) {
        uint8_t a = text[at], b = a;
        if (a == '\\' && at + 1 < length) {
            a = b = text[++at];
        } else if (at + 2 < length && text[at + 1] == '-') {
            b = text[at + 2];
            at += 2;
        }
        set_add(set, a < b ? a : b, a < b ? b : a);
    }
    if (is_inverted)
        set_invert(set);
    return at < length ? at + 1 : length;
}

/* Reads the item at `at`, which is no star. Returns where it ends. */
static size_t read_item(const uint8_t *text, size_t length, size_t at, struct set *set)
{
    if (text[at] == '[')
        return read_set(text, length, at + 1, set);
    if (text[at] == '?') {
        set_invert(set);
        return at + 1;
    }
    if (text[at] == '\\' && at + 1 < length)
        at++;
    set_add(set, text[at], text[at]);
    return at + 1;
}

/* Notes at which values of a byte the set begins and ends, which are fewer than its members. */
static void add_item(struct okv_resp_pattern *pattern, const struct set *set)
{
    uint64_t *mask = pattern->masks + pattern->items / BITS;
    uint64_t bit = UINT64_C(1) << pattern->items % BITS, carry = 0;

    for (unsigned i = 0; i < sizeof set->words / sizeof *set->words; i++) {
        uint64_t ends = set->words[i] ^ (set->words[i] << 1 | carry);
        carry = set->words[i] >> (BITS - 1);
        for (; ends; ends &= ends - 1)
            mask[(i * BITS + (unsigned)__builtin_ctzll(ends)) * pattern->words] ^= bit;
    }
    pattern->items++;
}

/* Makes members of beginnings and ends. */
static void fill_masks(struct okv_resp_pattern *pattern)
{
    for (size_t i = pattern->words; i < 256 * (size_t)pattern->words; i++)
        pattern->masks[i] ^= pattern->masks[i - pattern->words];
}

int okv_resp_pattern_init(struct okv_resp_pattern *pattern, const uint8_t *text, size_t length)
{
    *pattern = (struct okv_resp_pattern){.words = (unsigned)(length / BITS) + 1};
    if (length > OKV_RESP_PATTERN_MAX)
        return OKV_EINVAL;
    pattern->masks = calloc(1, okv_resp_pattern_bytes(pattern));
    if (!pattern->masks)
        return OKV_ENOMEM;
    pattern->stars = (uint32_t *)(pattern->masks + 256 * (size_t)pattern->words);
    for (size_t at = 0; at < length;) {
        struct set set = {{0}};
        if (text[at] != '*') {
            at = read_item(text, length, at, &set);
            add_item(pattern, &set);
            continue;
        }
        at++;
        if (pattern->star_count == 0 || pattern->stars[pattern->star_count - 1] < pattern->items)
            pattern->stars[pattern->star_count++] = pattern->items;
    }
    fill_masks(pattern);
    return 0;
}

void okv_resp_pattern_fini(struct okv_resp_pattern *pattern)
{
    free(pattern->masks);
    *pattern = (struct okv_resp_pattern){.words = 0};
}

/* As many stars fit as items. */
size_t okv_resp_pattern_bytes(const struct okv_resp_pattern *pattern)
{
    return pattern->words * (256 * sizeof *pattern->masks + BITS * sizeof *pattern->stars);
}

/* ---- matching ---- */

/* Whether each item of a segment matches the byte at its place. */
static bool segment_matches(const struct okv_resp_pattern *pattern, uint32_t first, uint32_t end,
                            const uint8_t *text, uint64_t *work)
{
    for (uint32_t i = first; i < end; i++, text++) {
        ++*work;
        if (!(pattern->masks[*text * pattern->words + i / BITS] >> i % BITS & 1))
            return false;
    }
    return true;
}

/* The end of the leftmost match of a segment. An item is live while those of its segment up to it
 * match the last bytes. */
static size_t segment_find(const struct okv_resp_pattern *pattern, uint32_t first, uint32_t end,
                           const uint8_t *text, size_t length, uint64_t *work)
{
    const unsigned low = first / BITS, high = (end - 1) / BITS;
    uint64_t live[WORDS_MAX];

    memset(live + low, 0, (high - low + 1) * sizeof *live);
    for (size_t i = 0; i < length; i++) {
        const uint64_t *mask = pattern->masks + text[i] * pattern->words;
        uint64_t carry = UINT64_C(1) << first % BITS;
        for (unsigned word = low; word <= high; word++) {
            uint64_t next = live[word] << 1 | carry;
            carry = live[word] >> (BITS - 1);
            live[word] = next & mask[word];
        }
        *work += high - low + 1;
        if (live[high] >> (end - 1) % BITS & 1)
            return i + 1;
    }
    return NOWHERE;
}

bool okv_resp_pattern_matches(const struct okv_resp_pattern *pattern, const uint8_t *text,
                              size_t length, uint64_t *work)
{
    const uint32_t *stars = pattern->stars, items = pattern->items;
    const unsigned count = pattern->star_count;

    if (length < items || (count == 0 && length > items))
        return false;
    if (count == 0)
        return segment_matches(pattern, 0, items, text, work);
    const uint8_t *at = text, *end = text + length - (items - stars[count - 1]);
    if (!segment_matches(pattern, 0, stars[0], text, work) ||
        !segment_matches(pattern, stars[count - 1], items, end, work))
        return false;
    at += stars[0];
    for (unsigned i = 1; i < count; i++) {
        size_t found = segment_find(pattern, stars[i - 1], stars[i], at, (size_t)(end - at), work);
        if (found == NOWHERE)
            return false;
        at += found;
    }
    return true;
}
