/*
 * The file of the shell's history, entries of earlier shells and of those beside this one: the line
 * PAST_HEAD, then an entry a line, escaped as a field of TSV. A file that begins otherwise is
 * someone else's: it stays as it is, and nothing is kept.
 */
#ifndef OKV_CLIENT_CLI_PAST_H
#define OKV_CLIENT_CLI_PAST_H

#include <limits.h>

#define PAST_HEAD "# history of okv shell\n"
#define PAST_ENTRIES 1000

struct past {
    char path[PATH_MAX]; /* "": nothing is kept */
};

typedef void past_visit(void *user, const char *entry);

/* Finds the file, creates it if it is not there, cuts it to its newest entries if it is long, and
 * shows these, the oldest first. */
void past_init(struct past *past, past_visit *visit, void *user);
/* Adds an entry at the end, for shells that come and those beside this one. */
void past_add(const struct past *past, const char *entry);

#endif
