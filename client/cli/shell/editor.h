/* Lines from a terminal, with editing, history and completion. */
#ifndef OKV_CLIENT_CLI_SHELL_EDITOR_H
#define OKV_CLIENT_CLI_SHELL_EDITOR_H

#include <stdbool.h>

struct editor;

/* LINE_DROPPED: discard this input line and those that it continues; more may follow. */
enum line_read { LINE_NONE, LINE_READ, LINE_DROPPED };

/* The prompt stays the caller's. False: out of memory, or the terminal cannot be used. */
bool editor_create(const char *prompt, bool has_history, struct editor **out);
/* Accepts NULL. */
void editor_destroy(struct editor *editor);

/* Reads the next line, with its newline, valid until the next call. LINE_DROPPED: ^C, or invalid
 * characters, after a message. `goes_on`: it continues the previous line. */
enum line_read editor_read(struct editor *editor, bool goes_on, const char **line);
/* Keeps the line and those that it continues in the history. */
void editor_keep(struct editor *editor);

#endif
