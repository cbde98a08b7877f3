/*
 * Items as lines of text: KEY TAB VALUE NEWLINE, and of an item that expires KEY TAB VALUE TAB TIME
 * NEWLINE. TIME is the wall clock's: ms since 1970, in decimal digits. So it means the same in a
 * file that is read later.
 *
 * Keys and values are any bytes, so four of them are written as two: a tab is
 * "\t", a newline "\n", a carriage return "\r" and a backslash "\\". Everything
 * else stands for itself, NUL included. Reading what was written gives the same
 * bytes again. A carriage return right before the newline belongs to the end of
 * the line: one that is data is always written as "\r".
 *
 * Editors put a byte order mark in front of a text, which is no part of its first key. So a key
 * that begins with one is written with its first byte as "\xef", and "\xHH" is read as any byte.
 */
#ifndef OKV_CLIENT_CLI_TSV_H
#define OKV_CLIENT_CLI_TSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct tsv_item {
    const char *key;
    const char *value;
    size_t key_length;
    size_t value_length;
    int64_t expires_at_ms; /* by the wall clock, since 1970; 0: it does not expire */
};

/*
 * Decodes one line, with or without its line end, in place: the item points into
 * `line`. Returns NULL, or a static sentence that says what is wrong with the
 * line; the item and the line's bytes are then unspecified.
 */
const char *tsv_parse(char *line, size_t length, struct tsv_item *item);

/* Decodes one field in place; false when an escape is unknown or cut off. */
bool tsv_decode(char *field, size_t *length);
/* The bytes of a byte order mark at the begin of a text: 3 or 0. */
size_t tsv_mark_length(const char *text, size_t length);

/* Writes one field with its escapes. */
void tsv_write_field(FILE *out, const char *field, size_t length);
/* The same for a key, which may be the first of a text. */
void tsv_write_key(FILE *out, const char *key, size_t length);

/* Writes the item as one line. Returns 0, or -1 when the stream has an error. */
int tsv_write(FILE *out, const struct tsv_item *item);

#endif
