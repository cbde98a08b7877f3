/*
 * The shell's history, shared by all shells of a user: the line HISTORY_HEAD, then an entry a line,
 * escaped as a field of TSV. A file that begins otherwise belongs to another program: it is left
 * alone, and no history is kept.
 */
#ifndef OKV_CLIENT_CLI_SHELL_HISTORY_FILE_H
#define OKV_CLIENT_CLI_SHELL_HISTORY_FILE_H

#include <limits.h>

#define HISTORY_HEAD "# history of okv shell\n"
#define HISTORY_ENTRIES 1000

struct history_file {
    char path[PATH_MAX]; /* "": nothing is kept */
};

typedef void history_visit(void *user, const char *entry);

/* Finds or creates the file, cuts a long one to its newest entries, and visits these, the oldest
 * first. */
void history_file_init(struct history_file *history, history_visit *visit, void *user);
/* Appends an entry. */
void history_file_add(const struct history_file *history, const char *entry);

#endif
