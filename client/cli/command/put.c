/* okv put and append: store a value. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/args.h"
#include "client/cli/output.h"

struct put_arguments {
    struct cli *cli;
    char *key;
    char *value;    /* "-": standard input; NULL: of the file */
    char *file;     /* put: "-": standard input; NULL: none */
    FILE *input;    /* of the value; NULL: it is an argument */
    int64_t ttl_ms; /* 0: the item stays */
    bool keep_ttl;
    bool if_absent;
    uint64_t if_version; /* 0: any */
};

/*
 * Reads up to the end of the input or one byte more than `limit`, so that the
 * caller can tell what is too large. Returns 0 with *out to free(), or an errno.
 */
static int read_input(FILE *input, size_t limit, char **out, size_t *length)
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
        size_t got = fread(bytes + used, 1, size - used, input);
        used += got;
        if (ferror(input) || cli_interrupted()) {
            error = cli_interrupted() ? EINTR : errno;
            goto free_bytes;
        }
        if (used > limit || feof(input))
            break;
    }
    *out = bytes;
    *length = used;
    return 0;

free_bytes:
    free(bytes);
    return error;
}

static int fail_input(const struct put_arguments *arguments, const char *command, int error)
{
    const char *quote = arguments->file ? "'" : "";

    if (error == EINTR)
        fprintf(stderr, "okv: %s '%s': interrupted: nothing was changed\n", command,
                arguments->key);
    else
        fprintf(stderr, "okv: %s '%s': cannot read %s%s%s: %s\n", command, arguments->key, quote,
                arguments->file ? arguments->file : "stdin", quote, strerror(error));
    return CLI_FAILED;
}

typedef int store_function(const struct put_arguments *arguments, const char *value, size_t length);

/* Stores the value of the arguments or of the input. */
static int store_value(const struct put_arguments *arguments, const char *command,
                       store_function *store)
{
    struct okv_info info;
    char *bytes = NULL;
    size_t length = 0;

    if (!arguments->input)
        return store(arguments, arguments->value, strlen(arguments->value));
    okv_info(arguments->cli->handle, &info);
    int error = read_input(arguments->input, info.max_value, &bytes, &length);
    if (error)
        return fail_input(arguments, command, error);
    int status = store(arguments, bytes, length);
    free(bytes);
    return status;
}

/* Opens the input before it connects, and stores the value. */
static int run(struct put_arguments *arguments, const char *command, store_function *store)
{
    bool has_file = arguments->file && !arguments->cli->took_stdin;

    if (arguments->cli->took_stdin)
        arguments->input = stdin;
    else if (has_file && !(arguments->input = fopen(arguments->file, "rb")))
        return fail_input(arguments, command, errno);
    int status = cli_connect(arguments->cli, 0);
    if (status == CLI_DONE)
        status = store_value(arguments, command, store);
    if (has_file)
        fclose(arguments->input);
    return status;
}

/* For struct cli_parser. */
#define KEY_AND_VALUE                                                                          \
    .most = 2, .may_be_negative = true,                                                        \
    .arguments = {offsetof(struct put_arguments, key), offsetof(struct put_arguments, value)}, \
    .unexpected = "unexpected argument '%s': quote a value that has spaces"

/* ---- put ---------------------------------------------------------------- */

static const struct okv_option put_options[] = {
    {"file", 'f', "FILE", .help = "The value is what FILE has, or with - standard input",
     CLI_TEXT(struct put_arguments, file)},
    {"ttl", 0, "TIME",
     .help = "The item expires after TIME, as 500ms, 60s, 5m, 2h or 7d; a number alone is seconds",
     CLI_TTL(struct put_arguments, ttl_ms)},
    {"keep-ttl", 0, NULL, .help = "The item expires when the one before it would have",
     CLI_FLAG(struct put_arguments, keep_ttl)},
    {"if-absent", 0, NULL, .help = "Only if the key is not there",
     CLI_FLAG(struct put_arguments, if_absent)},
    {"if-version", 0, "V", .help = "Only if the item there has version V",
     CLI_NUMBER(struct put_arguments, if_version, 1, UINT64_MAX)},
    {0},
};

static error_t check_put(struct argp_state *state, void *input)
{
    struct put_arguments *arguments = input;

    if (arguments->if_absent && arguments->if_version)
        return cli_usage(state, "--if-absent and --if-version exclude each other: give one");
    if (arguments->ttl_ms && arguments->keep_ttl)
        return cli_usage(state, "--ttl and --keep-ttl exclude each other: give one");
    if (arguments->value && arguments->file)
        return cli_usage(state, "VALUE and --file exclude each other: give one");
    if (!arguments->value && !arguments->file)
        return cli_usage(state, "give KEY and VALUE, KEY and - for stdin, or KEY and --file");
    const char *source = arguments->file ? arguments->file : arguments->value;
    arguments->cli->took_stdin = strcmp(source, "-") == 0;
    return 0;
}

static int put(const struct put_arguments *arguments, const char *value, size_t length)
{
    const struct okv_put_options options = {.flags = (arguments->ttl_ms ? OKV_WITH_TTL : 0u) |
                                                     (arguments->keep_ttl ? OKV_KEEP_TTL : 0u) |
                                                     (arguments->if_absent ? OKV_IF_ABSENT : 0u) |
                                                     (arguments->if_version ? OKV_IF_VERSION : 0u),
                                            .version = arguments->if_version,
                                            .ttl_ms = arguments->ttl_ms};
    size_t key_length = strlen(arguments->key);
    int rc = okv_put_with(arguments->cli->handle, arguments->key, key_length, value, length,
                          &options, NULL);

    return rc == OKV_OK ? CLI_DONE
                        : cli_fail(arguments->cli, "put", arguments->key, key_length, rc);
}

int cli_put(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .options = put_options,
        .least = 1,
        KEY_AND_VALUE,
        .missing = "give KEY and VALUE, KEY and - for stdin, or KEY and --file",
        .args_doc = "KEY VALUE\nKEY -\nKEY --file=FILE",
        .check = check_put,
        .doc = "Store a value under a key, replacing what was there.\v"
               "A VALUE of - takes the value from standard input, to its end. One that begins with "
               "a dash and a digit is the value; put -- before another value, or a key, that "
               "begins with a dash. Without --ttl or --keep-ttl the item stays until "
               "it is deleted, whatever the one before it had. The version for --if-version is "
               "what `okv exists -v KEY` prints.\n\n"
               "Exit status 1 says that the condition was not met; nothing was changed.\n\n"
               "Examples:\n  okv put greeting hello\n  okv put photo -f photo.jpg\n"
               "  date | okv put started -\n"
               "  okv put session:7 alice --ttl 60s\n"
               "  okv put lock \"$HOSTNAME\" --if-absent --ttl 10s || echo taken\n"
               "  okv put temperature -5\n  okv put -- rule --all"};
    struct put_arguments arguments = {.cli = cli};
    int status = cli_read(&parser, argc, argv, &arguments);

    return status == CLI_DONE ? run(&arguments, "put", put) : status;
}

/* ---- append ------------------------------------------------------------- */

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
    static const struct cli_parser parser = {
        .least = 2,
        KEY_AND_VALUE,
        .missing = "give KEY and VALUE, or KEY and - for stdin",
        .args_doc = "KEY VALUE\nKEY -",
        .check = check_put,
        .doc = "Add to the end of a value, or store it when the key is not there.\v"
               "A VALUE of - takes what is to be added from standard input. One append takes as "
               "much as fits a message (about 15000 bytes), and the whole value has the server's "
               "limit. Its time to live does not change. Put -- before a VALUE that begins with a "
               "dash, but for a dash and a digit.\n\n"
               "Examples:\n  okv append log 'one more line '\n  date | okv append log -"};
    struct put_arguments arguments = {.cli = cli};
    int status = cli_read(&parser, argc, argv, &arguments);

    return status == CLI_DONE ? run(&arguments, "append", append) : status;
}
