/* What the commands of okv(1) have in common: one connection, one way to fail. */
#ifndef OKV_CLIENT_CLI_CLI_H
#define OKV_CLIENT_CLI_CLI_H

#include <argp.h>
#include <errno.h>
#include <okv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/default_uri.h"

/* Exit statuses; CLI_HELPED, of a command that was asked for --help, ends as CLI_DONE. */
enum cli_status { CLI_HELPED = -1, CLI_DONE = 0, CLI_MISS = 1, CLI_USAGE = 2, CLI_FAILED = 3 };

/* Depth of the connection that commands of a shell share. */
#define CLI_SHARED_DEPTH 128

struct cli {
    const char *server;                    /* URI */
    bool server_named;                     /* by -s or OKV_SERVER, not the well-known path */
    bool server_found;                     /* it was not, but there is such a socket */
    char well_known[OKV_DEFAULT_URI_TEXT]; /* what `server` points to when it was not named */
    const char *database;                  /* NULL: that of the URI, else the default */
    const char *user, *key_file;           /* NULL: nobody */
    uint32_t timeout_ms;                   /* 0: the library's defaults */
    bool counters;                         /* print them at the end */
    bool is_own;                           /* not to use the connection of the shell */
    okv **shared;                          /* the shell's; NULL outside of a shell */
    okv *handle;                           /* NULL until cli_connect() */
    struct okv_counters before;            /* of `handle`, as the command began */
    bool took_stdin;                       /* it was the command's, read or not */
};

/* A command: parses its own arguments (argv[0] is "okv NAME"), connects, works.
 * Returns an enum cli_status. */
typedef int cli_command(struct cli *cli, int argc, char **argv);
cli_command cli_put, cli_append;          /* put.c */
cli_command cli_get, cli_exists;          /* get.c */
cli_command cli_mget;                     /* mget.c */
cli_command cli_del, cli_incr, cli_touch; /* del.c; change.c */
cli_command cli_scan, cli_export;         /* list.c */
cli_command cli_import;                   /* import.c */
cli_command cli_flush;                    /* flush.c */
cli_command cli_stat;                     /* stat.c */
cli_command cli_top;                      /* top.c */
cli_command cli_watch;                    /* watch.c */
cli_command cli_clients;                  /* clients.c */
cli_command cli_admin;                    /* admin.c */
cli_command cli_discover;                 /* discover.c */
cli_command cli_keygen;                   /* keygen.c */
cli_command cli_ping, cli_probe;          /* timing.c */
cli_command cli_doctor;                   /* doctor/doctor.c */
cli_command cli_shell;                    /* shell.c */

/* The options that every command takes too; input is the struct cli. A command
 * lists this among its argp children and hands the input over with
 * cli_parse_child(), first thing in its parser. */
extern const struct argp_child cli_common_options[];
void cli_parse_child(int key, struct argp_state *state, struct cli *cli);

/* Parses the arguments of a command; flags are those of argp_parse(). Returns CLI_DONE, or the
 * status to end with, having said why or given help. */
int cli_parse(const struct argp *parser, unsigned flags, int argc, char **argv, void *input);
/* The same, and connects with the library's default depth. */
int cli_begin(struct cli *cli, const struct argp *parser, int argc, char **argv, void *input);
/* Says what is wrong with the arguments and how it is right. Is what the parser is to return. */
#define cli_usage(state, ...) (argp_error(state, __VA_ARGS__), EINVAL)

/* Points cli->server to $OKV_SERVER or the well-known local socket, the others to $OKV_DATABASE,
 * $OKV_USER and $OKV_KEY_FILE. */
void cli_server_default(struct cli *cli);

/* Opens cli->handle, its own. Returns the code, with a sentence in `why`. */
#define CLI_WHY_TEXT 512
int cli_open(struct cli *cli, uint32_t depth, char *why, size_t size);

/* Opens cli->handle, or takes the one of the shell; `depth` 0 means the library's default. Returns
 * CLI_DONE, or the exit status to end with, having said why. */
int cli_connect(struct cli *cli, uint32_t depth);

/* Prints the counters if they were asked for and closes the handle, if it is open. The shell's
 * stays open unless the command left something under way on it. */
void cli_disconnect(struct cli *cli);

/* Says that `command` failed (on `key` unless NULL) with what the handle knows
 * about it and what to do. Returns the exit status that belongs to `code`. */
int cli_fail(const struct cli *cli, const char *command, const void *key, size_t key_length,
             int code);
/* The same with advice for this case (NULL: none) instead of cli_advice(code). */
int cli_fail_with(const struct cli *cli, const char *command, const void *key, size_t key_length,
                  int code, const char *advice);

/* The same of a key from this line of standard input; 0: from the command line. */
int cli_fail_line(const struct cli *cli, const char *command, uint64_t line, const void *key,
                  size_t key_length, int code);

/* Says that the key of this line of standard input has an unknown escape. */
void cli_fail_escape(const char *command, uint64_t line);

/* What to do about a code, or NULL when its text says it all. */
const char *cli_advice(int code);

/* The graver of two exit statuses: a failure goes before a miss. */
int cli_worse(int status, int other);
/* Whether the connection failed, in the time that an operation has: every further one would fail
 * alike. */
bool cli_connection_failed(int code);

/* From here on SIGINT (^C) sets a flag, for a command that ends properly when it sees it. `once`: a
 * second one ends the process. One that is ignored stays so. */
void cli_interrupt_catch(bool once);
/* The same for a command that only writes: once, and no write is cut short. */
void cli_interrupt_catch_in_output(void);
/* Back to what SIGINT does by default. */
void cli_interrupt_release(void);
bool cli_interrupted(void);
void cli_interrupt_clear(void);
/* Ends the process by SIGINT if there was one. */
void cli_interrupt_end(void);

/* Sleeps, or less if interrupted, for commands that look again and again. */
void cli_pause(uint32_t ms);
/* Flushes standard output. Returns CLI_DONE, or CLI_FAILED having said why. */
int cli_output_end(const char *command);

/* Fetches a value, however large, into *value to free(), and its version unless that is NULL.
 * Returns the code. */
int cli_fetch(okv *handle, const void *key, size_t key_length, char **value, size_t *length,
              uint64_t *version);

/* Fetches the statistics, or the answer to a command of okv_admin(), into *text to free(). Returns
 * the code. */
int cli_fetch_stat(okv *handle, const char *command, char **text);

/* Lists the keys that begin with `prefix`, as `okv scan` does, for this command. */
int cli_list_keys(struct cli *cli, const char *command, const char *prefix);

/* The number in `text`; a usage error that names the option unless it is whole and from `low` to
 * `high`. Returns what the parser is to return. */
error_t cli_number(struct argp_state *state, const char *option, const char *text, uint64_t low,
                   uint64_t high, uint64_t *out);

/* Likewise for a size in bytes, as 512 or 4K; `high` UINT64_MAX: any. */
error_t cli_size(struct argp_state *state, const char *option, const char *text, uint64_t low,
                 uint64_t high, uint64_t *out);

/* Likewise for a number that may have a sign, of 64 bits. */
error_t cli_signed_number(struct argp_state *state, const char *option, const char *text,
                          int64_t *out);
/* Likewise for a time, in milliseconds. */
error_t cli_timeout(struct argp_state *state, const char *option, const char *text, uint32_t *out);
/* Likewise for a time to live, in milliseconds. */
error_t cli_ttl(struct argp_state *state, const char *option, const char *text, int64_t *out);
/* The same, and OKV_TTL_NONE for "none". */
error_t cli_ttl_or_none(struct argp_state *state, const char *option, const char *text,
                        int64_t *out);

/* How long an item will live, as text: milliseconds or "none". */
#define CLI_TTL_TEXT 24
const char *cli_ttl_text(int64_t ttl_ms, char text[CLI_TTL_TEXT]);

/* With three digits, as 12.3M. */
const char *cli_short_number(double number, char text[16]);

/* Says so if the URI names a database, for a command that goes through all. */
bool cli_uri_names_database(const struct cli *cli, const char *command);

/* Sorts the samples; cli_percentile() needs them sorted and count above 0. */
void cli_samples_sort(uint64_t *samples, size_t count);
uint64_t cli_percentile(const uint64_t *samples, size_t count, double percent);

#endif
