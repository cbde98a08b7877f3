/* okv put and append: store a value. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/args.h"
#include "client/cli/output.h"

enum { OPTION_TTL = 0x600, OPTION_IF_ABSENT, OPTION_IF_VERSION };

struct put_arguments {
    struct cli *cli;
    char *key;
    char *value; /* "-": standard input */
    struct okv_put_options options;
};

/*
 * Reads standard input up to its end or one byte more than `limit`, so that the
 * caller can tell what is too large. Returns 0 with *out to free(), or an errno.
 */
static int read_stdin(size_t limit, char **out, size_t *length)
{
    size_t size = 0;
    size_t used = 0;
    char *bytes = NULL;
    int error;

    for (;;) {
        if (used == size) {
            size = size ? size * 2 : 65536;
            char *larger = realloc(bytes, size);
            if (!larger) {
                error = ENOMEM;
                goto free_bytes;
            }
            bytes = larger;
        }
        size_t got = fread(bytes + used, 1, size - used, stdin);
        used += got;
        if (ferror(stdin) || cli_interrupted()) {
            error = cli_interrupted() ? EINTR : errno;
            goto free_bytes;
        }
        if (used > limit || feof(stdin))
            break;
    }
    *out = bytes;
    *length = used;
    return 0;

free_bytes:
    free(bytes);
    return error;
}

static int fail_stdin(const struct put_arguments *arguments, const char *command, int error)
{
    if (error == EINTR)
        fprintf(stderr, "okv: %s '%s': interrupted: nothing was changed\n", command,
                arguments->key);
    else
        fprintf(stderr, "okv: %s '%s': cannot read stdin: %s\n", command, arguments->key,
                strerror(error));
    return CLI_FAILED;
}

/* Stores the value of the arguments or of standard input. */
static int store_value(const struct put_arguments *arguments, const char *command,
                       int (*store)(const struct put_arguments *arguments, const char *value,
                                    size_t length))
{
    struct okv_info info;
    char *bytes = NULL;
    size_t length = 0;

    if (!arguments->cli->took_stdin)
        return store(arguments, arguments->value, strlen(arguments->value));
    okv_info(arguments->cli->handle, &info);
    int error = read_stdin(info.max_value, &bytes, &length);
    if (error)
        return fail_stdin(arguments, command, error);
    int status = store(arguments, bytes, length);
    free(bytes);
    return status;
}

static error_t parse_key_and_value(int key, char *text, struct argp_state *state)
{
    struct put_arguments *arguments = state->input;

    switch (key) {
    case ARGP_KEY_ARG:
        if (state->arg_num == 0)
            arguments->key = text;
        else if (state->arg_num == 1)
            arguments->value = text;
        else
            return cli_usage(state, "unexpected argument '%s': quote a value that has spaces",
                             text);
        return 0;
    case ARGP_KEY_END:
        if (state->arg_num < 2)
            return cli_usage(state, "give KEY and VALUE, or KEY and - for stdin");
        arguments->cli->took_stdin = strcmp(arguments->value, "-") == 0;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- put ---------------------------------------------------------------- */

static const struct argp_option put_options[] = {
    {"ttl", OPTION_TTL, "TIME", 0, "The item expires after TIME, as 500ms, 60s, 5m, 2h or 7d", 0},
    {"if-absent", OPTION_IF_ABSENT, NULL, 0, "Only if the key is not there", 0},
    {"if-version", OPTION_IF_VERSION, "V", 0, "Only if the item there has version V", 0},
    {0},
};

static error_t parse_put(int key, char *text, struct argp_state *state)
{
    struct put_arguments *arguments = state->input;
    struct okv_put_options *options = &arguments->options;

    cli_parse_child(key, state, arguments->cli);
    switch (key) {
    case OPTION_TTL:
        options->flags |= OKV_WITH_TTL;
        return cli_ttl(state, "--ttl", text, &options->ttl_ms);
    case OPTION_IF_ABSENT:
        options->flags |= OKV_IF_ABSENT;
        return 0;
    case OPTION_IF_VERSION:
        options->flags |= OKV_IF_VERSION;
        return cli_number(state, "--if-version", text, 1, UINT64_MAX, &options->version);
    case ARGP_KEY_END:
        if ((options->flags & OKV_IF_ABSENT) && (options->flags & OKV_IF_VERSION))
            return cli_usage(state, "--if-absent and --if-version exclude each other: give one");
        return parse_key_and_value(key, text, state);
    default:
        return parse_key_and_value(key, text, state);
    }
}

static int put(const struct put_arguments *arguments, const char *value, size_t length)
{
    size_t key_length = strlen(arguments->key);
    int rc = okv_put_with(arguments->cli->handle, arguments->key, key_length, value, length,
                          &arguments->options, NULL);

    return rc == OKV_OK ? CLI_DONE
                        : cli_fail(arguments->cli, "put", arguments->key, key_length, rc);
}

int cli_put(struct cli *cli, int argc, char **argv)
{
    static const struct argp parser = {
        .options = put_options,
        .parser = parse_put,
        .args_doc = "KEY VALUE\nKEY -",
        .doc = "Store a value under a key, replacing what was there.\v"
               "A VALUE of - takes the value from standard input, to its end. Put -- before a key "
               "or value that begins with a dash. Without --ttl the item stays until it is "
               "deleted, whatever the one before it had. The version for --if-version is what "
               "`okv exists -v KEY` prints.\n\n"
               "Exit status 1 says that the condition was not met; nothing was changed.\n\n"
               "Examples:\n  okv put greeting hello\n  okv put photo - <photo.jpg\n"
               "  okv put session:7 alice --ttl 60s\n"
               "  okv put lock \"$HOSTNAME\" --if-absent --ttl 10s || echo taken\n"
               "  okv put -- -5 minus",
        .children = cli_common_options};
    struct put_arguments arguments = {.cli = cli};
    int status = cli_begin(cli, &parser, argc, argv, &arguments);

    return status == CLI_DONE ? store_value(&arguments, "put", put) : status;
}

/* ---- append ------------------------------------------------------------- */

static error_t parse_append(int key, char *text, struct argp_state *state)
{
    struct put_arguments *arguments = state->input;

    cli_parse_child(key, state, arguments->cli);
    return parse_key_and_value(key, text, state);
}

static int append(const struct put_arguments *arguments, const char *value, size_t length)
{
    struct cli *cli = arguments->cli;
    size_t key_length = strlen(arguments->key);
    struct okv_info info;

    okv_info(cli->handle, &info);
    if (length > info.max_message_value) {
        fprintf(stderr,
                "okv: append '%s': one append takes up to %u bytes, and these are more: append "
                "them in parts\n",
                arguments->key, info.max_message_value);
        return CLI_FAILED;
    }
    int rc = okv_append(cli->handle, arguments->key, key_length, value, length, NULL, NULL);
    if (rc == OKV_OK)
        return CLI_DONE;
    return cli_fail_with(cli, "append", arguments->key, key_length, rc,
                         rc == OKV_EVALUESIZE
                             ? "the limit of the whole value is connection_max_value in `okv stat`"
                             : cli_advice(rc));
}

int cli_append(struct cli *cli, int argc, char **argv)
{
    static const struct argp parser = {
        .parser = parse_append,
        .args_doc = "KEY VALUE\nKEY -",
        .doc = "Add to the end of a value, or store it when the key is not there.\v"
               "A VALUE of - takes what is to be added from standard input. One append takes as "
               "much as fits a message (about 15000 bytes), and the whole value has the server's "
               "limit. Its time to live does not change.\n\n"
               "Examples:\n  okv append log 'one more line '\n  date | okv append log -",
        .children = cli_common_options};
    struct put_arguments arguments = {.cli = cli};
    int status = cli_begin(cli, &parser, argc, argv, &arguments);

    return status == CLI_DONE ? store_value(&arguments, "append", append) : status;
}
