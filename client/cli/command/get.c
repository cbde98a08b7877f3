/* okv get and exists: read one key. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/args.h"
#include "client/cli/item_json.h"
#include "client/cli/output.h"

struct get_arguments {
    struct cli *cli;
    char *key;
    char *file;
    int64_t touch_ms; /* get: 0: the item expires when it would */
    uint64_t offset;  /* get: of a part */
    uint64_t length;  /* get: of it; 0: to the end */
    bool is_part;
    bool json;    /* get */
    bool verbose; /* exists */
};

struct fetched {
    char *value; /* to free() */
    size_t length;
    uint64_t version;
};
#define NO_OFFSET UINT64_MAX

/* By okv_get_touch(). */
static int fetch_and_touch(okv *handle, const struct get_arguments *arguments,
                           struct fetched *fetched)
{
    struct okv_info info;

    okv_info(handle, &info);
    fetched->value = malloc(info.max_value);
    if (!fetched->value)
        return OKV_ENOMEM;
    return okv_get_touch(handle, arguments->key, strlen(arguments->key), arguments->touch_ms,
                         fetched->value, info.max_value, &fetched->length, &fetched->version);
}

/* A part, by okv_get_range(). */
static int fetch_part(okv *handle, const struct get_arguments *arguments, struct fetched *fetched)
{
    struct okv_info info;
    size_t whole = 0;

    okv_info(handle, &info);
    size_t size = arguments->length && arguments->length < info.max_value ? arguments->length
                                                                          : info.max_value;
    fetched->value = malloc(size);
    if (!fetched->value)
        return OKV_ENOMEM;
    int rc = okv_get_range(handle, arguments->key, strlen(arguments->key), arguments->offset,
                           fetched->value, size, &whole, &fetched->version);
    if (rc != OKV_OK)
        return rc;
    fetched->length = arguments->offset < whole ? whole - arguments->offset : 0;
    if (fetched->length > size)
        fetched->length = size;
    return OKV_OK;
}

/* ---- get ---------------------------------------------------------------- */

static const struct okv_option get_options[] = {
    {"output", 'o', "FILE",
     .help = "Write the value to FILE, or with - to standard output; FILE is left alone on a miss",
     CLI_TEXT(struct get_arguments, file)},
    {"touch", 0, "TIME",
     .help = "Let the item expire after TIME, such as 60s (a number alone is seconds), or never "
             "(none); in the same request",
     CLI_TTL_OR_NONE(struct get_arguments, touch_ms)},
    {"offset", 0, "SIZE", .help = "Begin at this offset of the value, such as 64K",
     CLI_SIZE(struct get_arguments, offset, 0, NO_OFFSET - 1)},
    {"length", 0, "SIZE",
     .help = "Write at most this many bytes; no more of a long value is fetched",
     CLI_SIZE(struct get_arguments, length, 1, UINT64_MAX)},
    {"json", 0, NULL, .help = "A JSON object instead, with key, value and version",
     CLI_FLAG(struct get_arguments, json)},
    {0},
};

static error_t check_get(struct argp_state *state, void *input)
{
    struct get_arguments *arguments = input;

    arguments->is_part = arguments->offset != NO_OFFSET || arguments->length;
    if (arguments->offset == NO_OFFSET)
        arguments->offset = 0;
    if (arguments->touch_ms && arguments->is_part)
        return cli_usage(state, "--touch fetches the whole value: leave out --offset and --length");
    if (arguments->json && arguments->file)
        return cli_usage(state, "--json prints to standard output: leave out --output");
    return 0;
}

static int fetch(okv *handle, const struct get_arguments *arguments, struct fetched *fetched)
{
    if (arguments->touch_ms)
        return fetch_and_touch(handle, arguments, fetched);
    if (arguments->is_part)
        return fetch_part(handle, arguments, fetched);
    return cli_fetch(handle, arguments->key, strlen(arguments->key), &fetched->value,
                     &fetched->length, &fetched->version);
}

static int write_file(const char *path, const char *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        goto fail;
    size_t written = fwrite(bytes, 1, length, file);
    if (fclose(file) == 0 && written == length)
        return CLI_DONE;

fail:
    fprintf(stderr, "okv: get: cannot write '%s': %s\n", path, strerror(errno));
    return CLI_FAILED;
}

static void print_value(const struct cli *cli, const char *value, size_t length)
{
    bool ends_line = cli->shared || isatty(STDOUT_FILENO);

    fwrite(value, 1, length, stdout);
    if (ends_line && (length == 0 || value[length - 1] != '\n'))
        putchar('\n');
}

/* Where the arguments say. */
static int show(const struct get_arguments *arguments, const struct fetched *fetched)
{
    int status = CLI_DONE;

    if (arguments->file && strcmp(arguments->file, "-") != 0)
        return write_file(arguments->file, fetched->value, fetched->length);
    if (arguments->json)
        status = cli_print_json_line("get", cli_json_item(arguments->key, strlen(arguments->key),
                                                          fetched->value, fetched->length,
                                                          fetched->version));
    else
        print_value(arguments->cli, fetched->value, fetched->length);
    return cli_worse(status, cli_output_end("get"));
}

int cli_get(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .options = get_options,
        .least = 1,
        .most = 1,
        .arguments = {offsetof(struct get_arguments, key)},
        .missing = "give a KEY",
        .unexpected = "unexpected argument '%s': give one KEY",
        .check = check_get,
        .args_doc = "KEY",
        .doc = "Write the value of a key to standard output: its bytes, and a newline after them "
               "on a terminal and in a shell only.\v"
               "On a terminal control characters other than newlines and tabs, marks of the "
               "direction of text, and bytes that are no UTF-8 are shown as \\xHH: by this command "
               "and all others. With --json a key or value that is no UTF-8 is in key_base64 or "
               "value_base64 instead.\n\n"
               "Exit status 1 says that the key is not there.\n\n"
               "Examples:\n  okv get greeting\n  okv get photo -o photo.jpg\n"
               "  okv get session:7 --touch 5m\n"
               "  okv get log --offset 1M --length 4K\n"
               "  okv get greeting --json | jq -r .value\n"
               "  okv --counters get greeting >/dev/null"};
    struct get_arguments arguments = {.cli = cli, .offset = NO_OFFSET};
    struct fetched fetched = {0};

    int status = cli_begin(cli, &parser, argc, argv, &arguments);
    if (status != CLI_DONE)
        return status;

    int rc = fetch(cli->handle, &arguments, &fetched);
    if (rc == OKV_OK)
        status = show(&arguments, &fetched);
    else
        status =
            cli_fail_with(cli, "get", arguments.key, strlen(arguments.key), rc,
                          rc == OKV_EVALUESIZE
                              ? "--touch is for a value that fits a message: get it, and touch it"
                              : cli_advice(rc));
    free(fetched.value);
    return status;
}

/* ---- exists ------------------------------------------------------------- */

static const struct okv_option exists_options[] = {
    {"verbose", 'v', NULL,
     .help = "Print the item's version, its value's length and its time to live",
     CLI_FLAG(struct get_arguments, verbose)},
    {0},
};

int cli_exists(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .options = exists_options,
        .least = 1,
        .most = 1,
        .arguments = {offsetof(struct get_arguments, key)},
        .missing = "give a KEY",
        .unexpected = "unexpected argument '%s': give one KEY",
        .args_doc = "KEY",
        .doc = "Tell by the exit status whether a key is there, without fetching its value.\v"
               "Exit status 0 says that it is there, 1 that it is not; nothing is printed. With -v "
               "three lines of a name and a number: version, length (bytes), and ttl "
               "(milliseconds, or none).\n\n"
               "Examples:\n  okv exists greeting && echo yes\n"
               "  version=$(okv exists -v greeting | sed -n 's/^version //p')\n"
               "  okv put greeting changed --if-version \"$version\""};
    struct get_arguments arguments = {.cli = cli};
    struct okv_item_info info;
    char ttl[CLI_TTL_TEXT];

    int status = cli_begin(cli, &parser, argc, argv, &arguments);
    if (status != CLI_DONE)
        return status;

    size_t key_length = strlen(arguments.key);
    int rc = okv_head(cli->handle, arguments.key, key_length, &info);
    if (rc == OKV_ENOTFOUND)
        return CLI_MISS;
    if (rc != OKV_OK)
        return cli_fail(cli, "exists", arguments.key, key_length, rc);
    if (arguments.verbose)
        printf("version %llu\nlength %zu\nttl %s\n", (unsigned long long)info.version, info.length,
               cli_ttl_text(info.ttl_ms, ttl));
    return cli_output_end("exists");
}
