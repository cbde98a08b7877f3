/* Lines from a terminal, with editing, history and completion. */
#ifndef OKV_CLIENT_CLI_EDITOR_H
#define OKV_CLIENT_CLI_EDITOR_H

#include <stdbool.h>

struct editor;

/* The prompt stays the caller's. False: out of memory, or the terminal cannot be used. */
bool editor_create(const char *prompt, bool has_history, struct editor **out);
/* Saves the history. Accepts NULL. */
void editor_destroy(struct editor *editor);

/* The next line, with its newline, valid until the next call. NULL: the end, or ^C. `goes_on`: it
 * continues the one before. */
const char *editor_read(struct editor *editor, bool goes_on);

#endif
