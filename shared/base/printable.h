/*
 * Bytes of a peer on a terminal, which they could command: keys, values, the answers of a server.
 *
 * Control characters are shown as \xHH, a byte each: those below 0x20, 0x7f, and U+0080 to U+009F.
 * So are marks of the direction of text, which let it look like another one: U+061C, U+200E,
 * U+200F, U+202A to U+202E and U+2066 to U+2069; and bytes that are no UTF-8, among them the single
 * bytes 0x80 to 0x9f. The result is UTF-8.
 */
#ifndef OKV_SHARED_BASE_PRINTABLE_H
#define OKV_SHARED_BASE_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The most that one byte becomes. */
#define OKV_PRINTABLE_MAX 4

/* Writes the bytes to `out`, which has room for OKV_PRINTABLE_MAX times `length`. Newlines and tabs
 * stay if `keeps_lines`. Returns the length of the result. */
size_t okv_printable_copy(const void *bytes, size_t length, bool keeps_lines, char *out);

/* The state of a stream. */
struct okv_printable {
    int fd;
    unsigned char rest[3]; /* the begin of a character, whose end is to come */
    size_t rest_length;
};

/* Replaces stdout or stderr, if it is a terminal, by a stream that writes everything as
 * okv_printable_copy() with `keeps_lines`. Returns false when there is no memory. Call it before
 * anything is written. `state` is in use until the process ends. */
bool okv_printable_stream(struct okv_printable *state, FILE **stream);
/* Clears the line of the terminal that stderr is, which that stream would not let through. */
void okv_printable_clear_line(void);

#endif
