/* What every command does with its arguments: the common options, numbers and times. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/args.h"
#include "shared/base/default_uri.h"
#include "shared/base/duration.h"
#include "shared/base/size.h"
#include "shared/base/spell_suggest.h"

/* A day: longer waits are a mistake in the number. */
#define TIMEOUT_MS_MAX 86400000u

/* What a parser returns after --help and its like: there is nothing else to do. */
#define HELPED ECANCELED

enum { OPTION_COUNTERS = 0x100, OPTION_DATABASE, OPTION_USER, OPTION_KEY_FILE, OPTION_USAGE };

static const struct argp_option common_options[] = {
    {"server", 's', "URI", 0,
     "The server: rdma://HOST[:PORT][?source=ADDRESS], "
     "rdma://discover/NAME[?group=GROUP][&source=ADDRESS], "
     "ofi://HOST[:PORT][?provider=NAME][&source=ADDRESS] or local:///PATH",
     0},
    {"database", OPTION_DATABASE, "NAME", 0, "The database, for a URI without ?database=NAME", 0},
    {"user", OPTION_USER, "NAME", 0, "Who asks, for a server with users", 0},
    {"key-file", OPTION_KEY_FILE, "FILE", 0,
     "The file with the user's key, which `okv keygen' made", 0},
    {"timeout", 't', "TIME", 0, "Give up connecting, or an operation, after TIME, as 500ms or 10s",
     0},
    {"counters", OPTION_COUNTERS, NULL, 0, "At the end, print the client's counters on stderr", 0},
    /* argp's own would end a shell. */
    {"help", '?', NULL, 0, "Give this help", -1},
    {NULL, 'h', NULL, OPTION_HIDDEN, NULL, -1},
    {"usage", OPTION_USAGE, NULL, 0, "Give a short usage message", -1},
    {"version", 'V', NULL, 0, "Print the version and the transports", -1},
    {0},
};

static error_t parse_connection(int key, char *text, struct argp_state *state)
{
    struct cli *cli = state->input;

    cli->is_own = true;
    switch (key) {
    case 's':
        cli->server = text;
        cli->server_named = true;
        return 0;
    case OPTION_DATABASE:
        if (strlen(text) >= sizeof((struct okv_options *)0)->database)
            return cli_usage(state, "--database %s: a name has at most 31 characters", text);
        cli->database = text;
        return 0;
    case OPTION_USER:
        cli->user = text;
        return 0;
    case OPTION_KEY_FILE:
        cli->key_file = text;
        return 0;
    default:
        return cli_timeout(state, "--timeout", text, &cli->timeout_ms);
    }
}

static error_t parse_common(int key, char *text, struct argp_state *state)
{
    struct cli *cli = state->input;

    switch (key) {
    case 's':
    case 't':
    case OPTION_DATABASE:
    case OPTION_USER:
    case OPTION_KEY_FILE:
        return parse_connection(key, text, state);
    case OPTION_COUNTERS:
        cli->counters = true;
        return 0;
    case 'h':
    case '?':
        argp_state_help(state, state->out_stream, ARGP_HELP_STD_HELP);
        return HELPED;
    case OPTION_USAGE:
        argp_state_help(state, state->out_stream, ARGP_HELP_USAGE);
        return HELPED;
    case 'V':
        fprintf(state->out_stream, "okv %s\ntransports: %s\n", okv_version(), okv_transports());
        return HELPED;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp common_parser = {.options = common_options, .parser = parse_common};

const struct argp_child cli_common_options[] = {
    {&common_parser, 0, "Options of every command:", 1},
    {0},
};

void cli_parse_child(int key, struct argp_state *state, struct cli *cli)
{
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = cli;
}

int cli_parse(const struct argp *parser, unsigned flags, int argc, char **argv, void *input)
{
    char hint[OKV_SPELL_HINT_TEXT];

    if (okv_spell_hint(parser, flags, argc, argv, hint)) {
        fprintf(stderr, "%s: %s\n", argv[0], hint);
        return CLI_USAGE;
    }
    error_t error =
        argp_parse(parser, argc, argv, flags | ARGP_NO_EXIT | ARGP_NO_HELP, NULL, input);

    return error == 0 ? CLI_DONE : error == HELPED ? CLI_HELPED : CLI_USAGE;
}

/* NULL when the variable is empty, too. */
static const char *environment(const char *name)
{
    const char *text = getenv(name);

    return text && text[0] != '\0' ? text : NULL;
}

void cli_server_default(struct cli *cli)
{
    const char *named = environment("OKV_SERVER");

    cli->database = environment("OKV_DATABASE");
    cli->user = environment("OKV_USER");
    cli->key_file = environment("OKV_KEY_FILE");
    if (named) {
        cli->server = named;
        cli->server_named = true;
        return;
    }
    cli->server_found = okv_default_uri_find(cli->well_known, sizeof cli->well_known);
    cli->server = cli->well_known;
    cli->server_named = false;
}

error_t cli_number(struct argp_state *state, const char *option, const char *text, uint64_t low,
                   uint64_t high, uint64_t *out)
{
    char *end = NULL;

    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0 || text[0] < '0' || text[0] > '9' || *end != '\0' || number < low ||
        number > high)
        return cli_usage(state, "%s '%s': give a whole number from %llu to %llu", option, text,
                         (unsigned long long)low, (unsigned long long)high);
    *out = number;
    return 0;
}

error_t cli_size(struct argp_state *state, const char *option, const char *text, uint64_t low,
                 uint64_t high, uint64_t *out)
{
    char why[OKV_SIZE_WHY_TEXT];

    if (okv_size_read(text, low, high, out, why))
        return cli_usage(state, "%s '%s': %s", option, text, why);
    return 0;
}

error_t cli_signed_number(struct argp_state *state, const char *option, const char *text,
                          int64_t *out)
{
    const char *digits = text[0] == '-' ? text + 1 : text;
    char *end = NULL;

    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0 || digits[0] < '0' || digits[0] > '9' || *end != '\0')
        return cli_usage(state, "%s '%s': give a whole number from %lld to %lld", option, text,
                         (long long)INT64_MIN, (long long)INT64_MAX);
    *out = number;
    return 0;
}

error_t cli_timeout(struct argp_state *state, const char *option, const char *text, uint32_t *out)
{
    uint64_t ms = 0;

    if (okv_duration_parse(text, &ms) || ms < 1 || ms > TIMEOUT_MS_MAX)
        return cli_usage(state,
                         "%s '%s': give a time from 1ms to 24h with its unit, such as 500ms or 10s",
                         option, text);
    *out = (uint32_t)ms;
    return 0;
}

static error_t read_ttl(struct argp_state *state, const char *option, const char *text,
                        const char *otherwise, int64_t *out)
{
    uint64_t ms = 0;

    if (okv_duration_parse(text, &ms) || ms < 1 || ms > (uint64_t)OKV_TTL_MAX_MS)
        return cli_usage(state,
                         "%s '%s': give a time from 1ms to %llud, such as 500ms, 60s, 5m, 2h "
                         "or 7d, or %s",
                         option, text, (unsigned long long)OKV_TTL_MAX_MS / 86400000, otherwise);
    *out = (int64_t)ms;
    return 0;
}

error_t cli_ttl(struct argp_state *state, const char *option, const char *text, int64_t *out)
{
    return read_ttl(state, option, text, "leave it out for an item that stays", out);
}

error_t cli_ttl_or_none(struct argp_state *state, const char *option, const char *text,
                        int64_t *out)
{
    *out = OKV_TTL_NONE;
    if (strcmp(text, "none") == 0)
        return 0;
    return read_ttl(state, option, text, "none for an item that stays", out);
}
