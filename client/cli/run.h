/* How a command of okv(1) runs: its connection, its exit status, SIGINT. */
#ifndef OKV_CLIENT_CLI_RUN_H
#define OKV_CLIENT_CLI_RUN_H

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
    bool server_found;                     /* not named, but a socket is at the well-known path */
    char well_known[OKV_DEFAULT_URI_TEXT]; /* what `server` points to when it was not named */
    const char *database;                  /* NULL: that of the URI, else the default */
    const char *user, *key_file;           /* NULL: nobody */
    const char *tls_ca, *tls_cert, *tls_key, *tls_server_name; /* of tcps://; or NULL */
    uint32_t timeout_ms;                                       /* 0: the library's defaults */
    bool counters;                                             /* print them at the end */
    bool observes;              /* okv_options.observe; for a connection of its own */
    bool may_observe;           /* the same, if the server is a copy: the command reads no items */
    bool is_own;                /* not to use the connection of the shell */
    okv **shared;               /* the shell's; NULL outside of a shell */
    okv *handle;                /* NULL until cli_connect() */
    struct okv_counters before; /* of `handle`, when the command began */
    bool took_stdin;            /* standard input was the command's, read or not */
    /* Runs lines of standard input as commands. Called by pointer: it runs any command, and
     * `okv shell' is one. */
    int (*shell)(struct cli *cli, bool keeps_going, bool has_history);
};

/* A command: parses its own arguments (argv[0] is "okv NAME"), connects, works.
 * Returns an enum cli_status. */
typedef int cli_command(struct cli *cli, int argc, char **argv);
cli_command cli_put, cli_append;          /* command/put.c */
cli_command cli_get, cli_exists;          /* command/get.c */
cli_command cli_mget;                     /* command/mget.c */
cli_command cli_del, cli_incr, cli_touch; /* command/del.c; command/change.c */
cli_command cli_ttl;                      /* command/ttl.c */
cli_command cli_scan, cli_export;         /* command/list.c */
cli_command cli_import;                   /* command/import.c */
cli_command cli_flush;                    /* command/flush.c */
cli_command cli_stat;                     /* command/stat.c */
cli_command cli_top;                      /* command/top.c */
cli_command cli_watch;                    /* command/watch.c */
cli_command cli_clients;                  /* command/clients.c */
cli_command cli_admin;                    /* command/admin.c */
cli_command cli_cluster;                  /* command/cluster.c */
cli_command cli_discover;                 /* command/discover.c */
cli_command cli_keygen;                   /* command/keygen.c */
cli_command cli_ping, cli_probe;          /* command/timing.c */
cli_command cli_doctor;                   /* doctor/doctor.c */
cli_command cli_shell;                    /* command/shell.c */

/* ---- connect.c ---- */

/* Opens cli->handle, its own. Returns the code, with a sentence in `why`. */
#define CLI_WHY_TEXT 512
int cli_open(struct cli *cli, uint32_t depth, char *why, size_t size);
/* Opens cli->handle, or takes the shell's; `depth` 0 means the library's default. Returns CLI_DONE,
 * or the exit status to end with after printing why. */
int cli_connect(struct cli *cli, uint32_t depth);
/* cli_read() of args.h, and connects with the library's default depth. */
struct cli_parser;
int cli_begin(struct cli *cli, const struct cli_parser *parser, int argc, char **argv, void *input);
/* Prints the counters if they were asked for and closes the handle, if it is open. The shell's
 * stays open unless the command left something under way on it. */
void cli_disconnect(struct cli *cli);
/* Connects to each of these databases, a name a line, so that the server decides whether the user
 * may see it. Cuts `names` up. Returns the worst status. */
int cli_each_database(struct cli *cli, char *names,
                      int (*visit)(struct cli *cli, const char *name, void *user), void *user);
/* Fetches a value, however large, into *value to free(), and its version unless that is NULL.
 * Returns the code. */
int cli_fetch(okv *handle, const void *key, size_t key_length, char **value, size_t *length,
              uint64_t *version);

/* ---- interrupt.c ---- */

/* From here on SIGINT (^C) sets a flag, for a command that ends properly when it sees it. `once`: a
 * second one ends the process. An ignored SIGINT stays ignored. */
void cli_interrupt_catch(bool once);
/* The same for a command that only writes: once, and no write is cut short. */
void cli_interrupt_catch_in_output(void);
/* Back to what SIGINT does by default. */
void cli_interrupt_release(void);
bool cli_interrupted(void);
void cli_interrupt_clear(void);
/* Ends the process by SIGINT if there was one. */
void cli_interrupt_end(void);
/* Sleeps. False: it was interrupted. */
bool cli_pause(uint32_t ms);

#endif
