/* Counts the replies in a stream of RESP2 or RESP3, without keeping them. */
#ifndef OKV_TESTS_RESP_COUNT_H
#define OKV_TESTS_RESP_COUNT_H

#include <stddef.h>
#include <stdint.h>

/* Zeroes: nothing has come. */
struct resp_count {
    unsigned replies; /* whole ones: an array is one with all that it has */
    uint64_t missing; /* elements of the reply that has begun */
    uint64_t bulk;    /* bytes of a string that are still to come, with their CR LF */
    char line[32];    /* the start of the line that has begun */
    size_t line_used;
};

/* The bytes that come next, in pieces of any length. Fails the test when they are no replies. */
void resp_count_add(struct resp_count *count, const char *bytes, size_t length);

#endif
