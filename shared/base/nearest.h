/* What a word was meant to be, for programs that refuse it. */
#ifndef OKV_SHARED_BASE_NEAREST_H
#define OKV_SHARED_BASE_NEAREST_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

/* More edits than these are no slip of the fingers. */
#define OKV_EDITS_MAX 2

/* Bytes that are to be inserted, removed or replaced to make one word of the other (Levenshtein);
 * above OKV_EDITS_MAX for words that are too long to compare. */
size_t okv_edits(const char *from, const char *to);

/* The long option of the parser, or of a child, that is nearest to `name`, which has no dashes;
 * NULL: none is near. */
const char *okv_option_nearest(const struct argp *parser, const char *name);

/* Writes a sentence to `text` when the first long option that the parser will not know is near to
 * one that it does. `flags` are those of argp_parse(). Returns whether there is one. */
#define OKV_HINT_TEXT 128
bool okv_options_hint(const struct argp *parser, unsigned flags, int argc, char **argv,
                      char text[OKV_HINT_TEXT]);

#endif
