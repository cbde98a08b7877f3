/*
 * Glob patterns as in Redis: ? is any byte, [abc] and [a-z] are one of a set, [^a] is one that is
 * not, * is any number of bytes, and \ takes the meaning from the byte that follows.
 *
 * A pattern is compiled once. Each of its items except stars matches one byte, and is a bit of the
 * masks, of which each value of a byte has one. Stars divide the items into segments. The first
 * segment belongs at the beginning of a text and the last one at its end; of each other one the
 * leftmost place is right, and a search for it reads every byte of the text once (Baeza-Yates and
 * Gonnet 1992, "A new approach to text searching"). So no pattern takes more than a comparison of
 * a word for each byte and each 64 items.
 */
#ifndef OKV_SERVER_RESP_PROTO_PATTERN_H
#define OKV_SERVER_RESP_PROTO_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the longest pattern. */
#define OKV_RESP_PATTERN_MAX 2048u

struct okv_resp_pattern {
    uint64_t *masks; /* [256][words]: which items a byte matches */
    unsigned words;  /* of 64 items */
    uint32_t *stars; /* [star_count]: how many items are before each */
    unsigned star_count;
    uint32_t items;
};

/* OKV_EINVAL: it is longer than OKV_RESP_PATTERN_MAX; OKV_ENOMEM. */
int okv_resp_pattern_init(struct okv_resp_pattern *pattern, const uint8_t *text, size_t length);
/* Does nothing to zeros. */
void okv_resp_pattern_fini(struct okv_resp_pattern *pattern);

/* Whether the whole text matches. Adds the number of comparisons to *work. */
bool okv_resp_pattern_matches(const struct okv_resp_pattern *pattern, const uint8_t *text,
                              size_t length, uint64_t *work);
/* Comparisons for a byte of a text, at most. */
static inline unsigned okv_resp_pattern_price(const struct okv_resp_pattern *pattern)
{
    return pattern->items / 64 + 3;
}
/* Bytes of memory. */
size_t okv_resp_pattern_bytes(const struct okv_resp_pattern *pattern);

#endif
