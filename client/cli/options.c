/* What every command does with its arguments: the common options, numbers and times. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/args.h"
#include "client/cli/dashes.h"
#include "shared/base/default_uri.h"
#include "shared/base/duration.h"
#include "shared/base/number.h"
#include "shared/base/spell_suggest.h"

/* What a parser returns after --help and its like: there is nothing else to do. */
#define HELPED ECANCELED

#define USAGE 0x1000 /* key of --usage, which has no letter */

/* The field is okv_options.database of the library. */
static int read_database(const struct okv_option *option, const char *text, void *fields,
                         struct okv_diag *why)
{
    struct cli *cli = fields;

    (void)option;
    if (strlen(text) >= sizeof((struct okv_options *)0)->database)
        return okv_diag_set(why, OKV_EINVAL, " %s: a name has at most 31 characters", text);
    cli->database = text;
    return 0;
}

static const struct okv_option common_options[] = {
    {"server", 's', "URI",
     .help = "The server: rdma://HOST[:PORT][?source=ADDRESS], "
             "rdma://discover/NAME[?group=GROUP][&source=ADDRESS], "
             "ofi://HOST[:PORT][?provider=NAME][&source=ADDRESS], "
             "tcp://HOST[:PORT][?source=ADDRESS], tcps://HOST[:PORT][?ca=FILE], local:///PATH, or "
             "okv://HOST[:PORT],.../NAME of a cluster; tcp and tcps have discover/NAME, "
             "too",
     CLI_TEXT(struct cli, server)},
    {"database", 0, "NAME", .help = "The database, for a URI without ?database=NAME",
     OKV_OPTION_OTHER, .read = read_database},
    {"user", 0, "NAME", .help = "Who asks, for a server with users", CLI_TEXT(struct cli, user)},
    {"key-file", 0, "FILE", .help = "The file with the user's key, which `okv keygen' made",
     CLI_TEXT(struct cli, key_file)},
    {"tls-ca", 0, "FILE",
     .help = "tcps://: CA certificates to trust, as PEM, else those of $OKV_TLS_CA, else what "
             "the system trusts",
     CLI_TEXT(struct cli, tls_ca)},
    {"tls-cert", 0, "FILE", .help = "tcps://: a certificate to show, with --tls-key",
     CLI_TEXT(struct cli, tls_cert)},
    {"tls-key", 0, "FILE", .help = "tcps://: the key of that certificate",
     CLI_TEXT(struct cli, tls_key)},
    {"tls-server-name", 0, "NAME",
     .help =
         "tcps://: the name that the server's certificate must match, if not the host of the URI",
     CLI_TEXT(struct cli, tls_server_name)},
    {"timeout", 't', "TIME",
     .help = "Give up connecting, or an operation, after TIME, as 500ms or 10s; a number alone is "
             "seconds",
     CLI_TIME(struct cli, timeout_ms)},
    {"counters", .help = "At the end, print the client's counters on stderr",
     CLI_FLAG(struct cli, counters)},
    /* argp's own would end a shell. */
    {"help", '?', .group = -1, .help = "Give this help"},
    {.letter = 'h', .group = -1},
    {"usage", USAGE, .group = -1, .help = "Give a short usage message"},
    {"version", 'V', .group = -1, .help = "Print the version and the transports"},
    {0},
};

error_t cli_read_option(const struct okv_option *option, const char *text, void *fields,
                        struct argp_state *state)
{
    struct okv_diag why;

    if (okv_option_read(option, text, fields, &why) == 0)
        return 0;
    if (why.text[0] == ' ')
        return cli_usage(state, "--%s%s", option->name, why.text);
    return cli_usage(state, "--%s '%s': %s", option->name, text, why.text);
}

static error_t parse_common(int key, char *text, struct argp_state *state)
{
    const struct okv_option *option = okv_option_of_key(common_options, key);
    struct cli *cli = state->input;

    switch (key) {
    case 'h':
    case '?':
        argp_state_help(state, state->out_stream, ARGP_HELP_STD_HELP);
        return HELPED;
    case USAGE:
        argp_state_help(state, state->out_stream, ARGP_HELP_USAGE);
        return HELPED;
    case 'V':
        fprintf(state->out_stream, "okv %s\ntransports: %s\n", okv_version(), okv_transports());
        return HELPED;
    }
    if (!option)
        return ARGP_ERR_UNKNOWN;
    cli->is_own |= option->argument != NULL;
    cli->server_named |= key == 's';
    return cli_read_option(option, text, cli, state);
}

void cli_parse_child(int key, struct argp_state *state, struct cli *cli)
{
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = cli;
}

static int refuse_word(const char *command, const char *word, const char *what, bool has_arguments)
{
    fprintf(stderr, "%s: '%s': %s: see `%s --help'%s\n", command, word, what, command,
            has_arguments ? ", or put -- before an argument that begins with a dash" : "");
    return CLI_USAGE;
}

/* `whole`: with all its children. */
static int parse_whole(const struct argp *whole, unsigned flags, int argc, char **argv, void *input)
{
    char hint[OKV_SPELL_HINT_TEXT];
    const char *word;

    if (okv_spell_hint(whole, flags, argc, argv, hint)) {
        fprintf(stderr, "%s: %s\n", argv[0], hint);
        return CLI_USAGE;
    }
    if (!(flags & ARGP_IN_ORDER) && whole->args_doc &&
        (word = cli_dashes_unknown(whole, argc, argv)))
        return refuse_word(argv[0], word, "no such option", true);
    if (!(flags & ARGP_IN_ORDER) && (word = cli_dashes_help(whole, argc, argv)))
        return refuse_word(argv[0], word, "an option for help stands alone", whole->args_doc);
    error_t error = argp_parse(whole, argc, argv, flags | ARGP_NO_EXIT | ARGP_NO_HELP, NULL, input);

    return error == 0 ? CLI_DONE : error == HELPED ? CLI_HELPED : CLI_USAGE;
}

static int parse_negative(const struct argp *whole, int argc, char **argv, void *input)
{
    char **words = calloc((size_t)argc + 2, sizeof *words);

    if (!words) {
        fprintf(stderr, "okv: %s: out of memory\n", argv[0] + strlen("okv "));
        return CLI_FAILED;
    }
    int count = cli_dashes_order(whole, argc, argv, words);
    int status = parse_whole(whole, 0, count, words, input);
    free(words);
    return status;
}

static int parse_with_children(const struct argp *parser, unsigned flags, bool may_be_negative,
                               int argc, char **argv, void *input)
{
    struct okv_options_argp options;
    const struct argp common = {.options = options.list, .parser = parse_common};
    const struct argp_child children[] = {{&common, 0, "Options of every command:", 1}, {0}};
    struct argp whole = *parser;

    okv_options_argp(common_options, &options);
    whole.children = children;
    return may_be_negative ? parse_negative(&whole, argc, argv, input)
                           : parse_whole(&whole, flags, argc, argv, input);
}

int cli_parse(const struct argp *parser, unsigned flags, int argc, char **argv, void *input)
{
    return parse_with_children(parser, flags, false, argc, argv, input);
}

int cli_parse_negative(const struct argp *parser, int argc, char **argv, void *input)
{
    return parse_with_children(parser, 0, true, argc, argv, input);
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

int cli_read_number(const struct okv_option *option, const char *text, void *fields,
                    struct okv_diag *why)
{
    char *end = NULL;

    errno = 0;
    uint64_t number = strtoull(text, &end, 10);
    if (errno != 0 || text[0] < '0' || text[0] > '9' || *end != '\0' || number < option->least ||
        number > option->most)
        return okv_diag_set(why, OKV_EINVAL, "give a whole number from %llu to %llu",
                            (unsigned long long)option->least, (unsigned long long)option->most);
    memcpy((char *)fields + option->offset, &number, sizeof number);
    return 0;
}

error_t cli_signed_number(struct argp_state *state, const char *name, const char *text,
                          int64_t *out)
{
    if (!okv_number_parse(text, strlen(text), out))
        return cli_usage(state,
                         "%s '%s': give a whole number from %lld to %lld, without a leading 0",
                         name, text, (long long)INT64_MIN, (long long)INT64_MAX);
    return 0;
}

static int read_ttl(const char *text, const char *otherwise, int64_t *out, struct okv_diag *why)
{
    uint64_t ms = 0;

    if (okv_duration_parse(text, &ms) || ms < 1 || ms > (uint64_t)OKV_TTL_MAX_MS)
        return okv_diag_set(
            why, OKV_EINVAL,
            "give a time from 1ms to %llud, such as 500ms, 60s, 5m, 2h or 7d (a number alone is "
            "seconds), or %s",
            (unsigned long long)OKV_TTL_MAX_MS / 86400000, otherwise);
    *out = (int64_t)ms;
    return 0;
}

static int read_ttl_or_none(const char *text, int64_t *out, struct okv_diag *why)
{
    *out = OKV_TTL_NONE;
    return strcmp(text, "none") == 0 ? 0 : read_ttl(text, "none for an item that stays", out, why);
}

int cli_read_ttl(const struct okv_option *option, const char *text, void *fields,
                 struct okv_diag *why)
{
    return read_ttl(text, "leave it out for an item that stays",
                    (int64_t *)((char *)fields + option->offset), why);
}

int cli_read_ttl_or_none(const struct okv_option *option, const char *text, void *fields,
                         struct okv_diag *why)
{
    return read_ttl_or_none(text, (int64_t *)((char *)fields + option->offset), why);
}

error_t cli_ttl_or_none(struct argp_state *state, const char *name, const char *text, int64_t *out)
{
    struct okv_diag why;

    return read_ttl_or_none(text, out, &why) ? cli_usage(state, "%s '%s': %s", name, text, why.text)
                                             : 0;
}
