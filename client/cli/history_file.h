/*
 * The file of the shell's history, entries of earlier shells and of those beside this one: the line
 * HISTORY_HEAD, then an entry a line, escaped as a field of TSV. A file that begins otherwise is
 * someone else's: it stays as it is, and nothing is kept.
 */
#ifndef OKV_CLIENT_CLI_HISTORY_FILE_H
#define OKV_CLIENT_CLI_HISTORY_FILE_H

#include <limits.h>

#define HISTORY_HEAD "# history of okv shell\n"
#define HISTORY_ENTRIES 1000

struct history_file {
    char path[PATH_MAX]; /* "": nothing is kept */
};

typedef void history_visit(void *user, const char *entry);

/* Finds the file, creates it if it is not there, cuts it to its newest entries if it is long, and
 * shows these, the oldest first. */
void history_file_init(struct history_file *history, history_visit *visit, void *user);
/* Adds an entry at the end, for shells that come and those beside this one. */
void history_file_add(const struct history_file *history, const char *entry);

#endif
