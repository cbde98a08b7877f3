/* What commands print: failures, and items as text. */
#ifndef OKV_CLIENT_CLI_OUTPUT_H
#define OKV_CLIENT_CLI_OUTPUT_H

#include "client/cli/run.h"

/* Prints that `command` failed (on `key` unless NULL), why, and what to do. Returns the exit status
 * that belongs to `code`. */
int cli_fail(const struct cli *cli, const char *command, const void *key, size_t key_length,
             int code);
/* The same with advice for this case (NULL: none) instead of cli_advice(code). */
int cli_fail_with(const struct cli *cli, const char *command, const void *key, size_t key_length,
                  int code, const char *advice);
/* The same for a key from this line of standard input; 0: from the command line. */
int cli_fail_line(const struct cli *cli, const char *command, uint64_t line, const void *key,
                  size_t key_length, int code);
/* Prints that the key of this line of standard input has an unknown escape. */
void cli_fail_escape(const char *command, uint64_t line);
/* What to do about a code, or NULL when its text is enough. */
const char *cli_advice(int code);

/* True, after a message, if the URI names a database, for a command that visits all. */
bool cli_uri_names_database(const struct cli *cli, const char *command);

/* Asks at the terminal. True: the answer is yes. */
bool cli_confirm(const char *question);
/* The graver of two exit statuses: a failure is graver than a miss. */
int cli_worse(int status, int other);
/* True when the connection failed, so that every further operation would fail alike. */
bool cli_connection_failed(int code);
/* Flushes standard output. Returns CLI_DONE, or CLI_FAILED after printing why. */
int cli_output_end(const char *command);

/* The time to live of an item as text: milliseconds or "none". */
#define CLI_TTL_TEXT 24
const char *cli_ttl_text(int64_t ttl_ms, char text[CLI_TTL_TEXT]);
/* What makes a word of so many the plural: "1 item", "2 items". */
static inline const char *cli_s(uint64_t count)
{
    return count == 1 ? "" : "s";
}
/* With three digits, as 12.3M. */
const char *cli_short_number(double number, char text[16]);
/* Lists the keys that begin with `prefix`, as `okv scan` does, for this command. */
int cli_list_keys(struct cli *cli, const char *command, const char *prefix);

#endif
