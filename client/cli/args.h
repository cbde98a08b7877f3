/* Arguments: the options of every command, numbers and times. */
#ifndef OKV_CLIENT_CLI_ARGS_H
#define OKV_CLIENT_CLI_ARGS_H

#include <argp.h>
#include <errno.h>
#include <stddef.h>

#include "client/cli/run.h"

/* The options that every command takes too; their input is the struct cli, which a parser hands
 * over with cli_parse_child(), first thing. */
extern const struct argp_child cli_common_options[];
void cli_parse_child(int key, struct argp_state *state, struct cli *cli);
/* Parses arguments; flags are those of argp_parse(). Returns CLI_DONE, or the status to end with
 * after printing why, or help. */
int cli_parse(const struct argp *parser, unsigned flags, int argc, char **argv, void *input);

/* The type of an option's field. */
enum cli_kind {
    CLI_FLAG,        /* bool */
    CLI_TEXT,        /* const char * */
    CLI_NUMBER,      /* uint64_t, from `low` to `high`; the same for a size */
    CLI_SIZE,        /* uint64_t */
    CLI_TIME,        /* uint32_t, ms */
    CLI_TTL,         /* int64_t, ms */
    CLI_TTL_OR_NONE, /* int64_t, ms or OKV_TTL_NONE */
};

struct cli_option {
    const char *name; /* NULL: the end of the list */
    int letter;       /* 0: none */
    const char *argument, *help;
    enum cli_kind kind;
    size_t offset; /* of the field in the command's arguments */
    uint64_t low, high;
};
#define CLI_OPTIONS_MAX 8

/* The command line of a command, whose arguments are a struct that begins with the struct cli *. */
struct cli_parser {
    const struct cli_option *options; /* up to CLI_OPTIONS_MAX; NULL: none */
    const char *args_doc, *doc;       /* of struct argp */
    unsigned least, most;             /* arguments */
    bool has_rest;                    /* any number of arguments: `most` does not count */
    size_t arguments[2];              /* offsets: a char * each, or with has_rest char ** and int */
    const char *missing;              /* said of fewer than `least` */
    const char *unexpected;           /* said of more than `most`; a format for the argument */
    error_t (*check)(struct argp_state *state, void *arguments); /* at the end; NULL: nothing */
};

/* Reads the arguments of a command. Returns as cli_parse(). */
int cli_read(const struct cli_parser *parser, int argc, char **argv, void *arguments);
/* Prints what is wrong with the arguments and how to correct it. Returns what the parser is to
 * return. */
#define cli_usage(state, ...) (argp_error(state, __VA_ARGS__), EINVAL)

/* Points cli->server to $OKV_SERVER or the well-known local socket, the others to $OKV_DATABASE,
 * $OKV_USER and $OKV_KEY_FILE. */
void cli_server_default(struct cli *cli);

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

#endif
