/* Arguments: the options of every command, numbers and times. */
#ifndef OKV_CLIENT_CLI_ARGS_H
#define OKV_CLIENT_CLI_ARGS_H

#include <argp.h>
#include <errno.h>

#include "client/cli/run.h"

/* The options that every command takes too; input is the struct cli. A command lists this among its
 * argp children and hands the input over with cli_parse_child(), first thing in its parser. */
extern const struct argp_child cli_common_options[];
void cli_parse_child(int key, struct argp_state *state, struct cli *cli);

/* Parses the arguments of a command; flags are those of argp_parse(). Returns CLI_DONE, or the
 * status to end with after printing why, or help. */
int cli_parse(const struct argp *parser, unsigned flags, int argc, char **argv, void *input);
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
