/* Suggestions for a misspelled word: "did you mean". */
#ifndef OKV_SHARED_BASE_SPELL_SUGGEST_H
#define OKV_SHARED_BASE_SPELL_SUGGEST_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

/* Words further apart than this are not a typing error. */
#define OKV_SPELL_DISTANCE_MAX 2

/* The Levenshtein distance of two words, in bytes; above OKV_SPELL_DISTANCE_MAX for words that are
 * too long to compare. */
size_t okv_spell_distance(const char *from, const char *to);

/* The long option of the parser or its children that is closest to `name` (without dashes), or NULL
 * if none is close. */
const char *okv_spell_option(const struct argp *parser, const char *name);

/* The option of the parser or its children that this word of a command line names or begins. NULL:
 * none. *takes_next: the word after it is its argument. */
const struct argp_option *okv_spell_known(const struct argp *parser, const char *word,
                                          bool *takes_next);

/* Writes a suggestion to `text` for the first long option in `argv` that the parser does not know.
 * `flags` are those of argp_parse(). False: every option is known, or none is close. */
#define OKV_SPELL_HINT_TEXT 128
bool okv_spell_hint(const struct argp *parser, unsigned flags, int argc, char **argv,
                    char text[OKV_SPELL_HINT_TEXT]);

#endif
