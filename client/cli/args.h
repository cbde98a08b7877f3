/* Arguments: the options of every command, numbers and times. */
#ifndef OKV_CLIENT_CLI_ARGS_H
#define OKV_CLIENT_CLI_ARGS_H

#include <argp.h>
#include <errno.h>
#include <stddef.h>

#include "client/cli/run.h"
#include "shared/base/options.h"

/* Hands the struct cli over to the options that every command takes, first thing in a parser. */
void cli_parse_child(int key, struct argp_state *state, struct cli *cli);
/* Parses arguments, with the options of every command as children of `parser`; flags are those of
 * argp_parse(). Returns CLI_DONE, or the status to end with after printing why, or help. */
int cli_parse(const struct argp *parser, unsigned flags, int argc, char **argv, void *input);
/* The same. After the first argument, one that begins with '-' and a digit is no option. */
int cli_parse_negative(const struct argp *parser, int argc, char **argv, void *input);
/* Reads the option's text into its field, or is a usage error. Returns what the parser is to
 * return. */
error_t cli_read_option(const struct okv_option *option, const char *text, void *fields,
                        struct argp_state *state);

/* The kind of an option, and its field of a command's arguments. */
#define CLI_FIELD(type, member) .offset = offsetof(type, member), .size = sizeof((type *)0)->member
#define CLI_FLAG(type, member) OKV_OPTION_FLAG, CLI_FIELD(type, member)
#define CLI_TEXT(type, member) OKV_OPTION_TEXT, CLI_FIELD(type, member)
#define CLI_NUMBER(type, member, from, to)                                    \
    OKV_OPTION_OTHER, CLI_FIELD(type, member), .least = (from), .most = (to), \
                                               .read = cli_read_number
#define CLI_SIZE(type, member, from, to) \
    OKV_OPTION_SIZE, CLI_FIELD(type, member), .least = (from), .most = (to)
#define CLI_TIME(type, member)                                                         \
    OKV_OPTION_DURATION, CLI_FIELD(type, member), .least = 1, .most = CLI_TIME_MAX_MS, \
                                                  .example = "500ms or 10s"
#define CLI_TTL(type, member) OKV_OPTION_OTHER, CLI_FIELD(type, member), .read = cli_read_ttl
#define CLI_TTL_OR_NONE(type, member) \
    OKV_OPTION_OTHER, CLI_FIELD(type, member), .read = cli_read_ttl_or_none

/* A day: longer waits are a mistake in the number. */
#define CLI_TIME_MAX_MS 86400000u

/* Readers of struct okv_option: a whole number, as uint64_t; a time to live in milliseconds, as
 * int64_t, the second with OKV_TTL_NONE for "none". */
int cli_read_number(const struct okv_option *option, const char *text, void *fields,
                    struct okv_diag *why);
int cli_read_ttl(const struct okv_option *option, const char *text, void *fields,
                 struct okv_diag *why);
int cli_read_ttl_or_none(const struct okv_option *option, const char *text, void *fields,
                         struct okv_diag *why);

/* The command line of a command, whose arguments are a struct that begins with the struct cli *. */
struct cli_parser {
    const struct okv_option *options; /* their fields are those of the arguments; NULL: none */
    const char *args_doc, *doc;       /* of struct argp */
    unsigned least, most;             /* arguments */
    bool has_rest;                    /* any number of arguments: `most` does not count */
    bool may_be_negative;             /* arguments after the first one; not with has_rest */
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

/* Reads an argument called `name`; a usage error unless it is a whole number of 64 bits, or a time
 * to live in milliseconds or "none". Returns what the parser is to return. */
error_t cli_signed_number(struct argp_state *state, const char *name, const char *text,
                          int64_t *out);
error_t cli_ttl_or_none(struct argp_state *state, const char *name, const char *text, int64_t *out);

#endif
