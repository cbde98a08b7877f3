/* okv get and exists: read one key. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/args.h"
#include "client/cli/output.h"

enum { OPTION_TOUCH = 256, OPTION_OFFSET, OPTION_LENGTH };

struct get_arguments {
    struct cli *cli;
    char *key;
    char *file;
    int64_t touch_ms; /* get: 0: the item expires when it would */
    uint64_t offset;  /* get: of a part */
    uint64_t length;  /* get: of it; 0: to the end */
    bool is_part;
    bool verbose;
};

/* By okv_get_touch(). */
static int fetch_and_touch(okv *handle, const struct get_arguments *arguments, char **value,
                           size_t *length)
{
    struct okv_info info;

    okv_info(handle, &info);
    *value = malloc(info.max_value);
    if (!*value)
        return OKV_ENOMEM;
    int rc = okv_get_touch(handle, arguments->key, strlen(arguments->key), arguments->touch_ms,
                           *value, info.max_value, length, NULL);
    if (rc != OKV_OK)
        free(*value);
    return rc;
}

/* A part, by okv_get_range(). */
static int fetch_part(okv *handle, const struct get_arguments *arguments, char **value,
                      size_t *length)
{
    struct okv_info info;
    size_t whole = 0;

    okv_info(handle, &info);
    size_t size = arguments->length && arguments->length < info.max_value ? arguments->length
                                                                          : info.max_value;
    *value = malloc(size);
    if (!*value)
        return OKV_ENOMEM;
    int rc = okv_get_range(handle, arguments->key, strlen(arguments->key), arguments->offset,
                           *value, size, &whole, NULL);
    if (rc != OKV_OK) {
        free(*value);
        return rc;
    }
    *length = arguments->offset < whole ? whole - arguments->offset : 0;
    if (*length > size)
        *length = size;
    return OKV_OK;
}

static error_t parse_one_key(int key, char *text, struct argp_state *state)
{
    struct get_arguments *arguments = state->input;

    cli_parse_child(key, state, arguments->cli);
    switch (key) {
    case 'o':
        arguments->file = text;
        return 0;
    case OPTION_TOUCH:
        return cli_ttl_or_none(state, "--touch", text, &arguments->touch_ms);
    case OPTION_OFFSET:
        arguments->is_part = true;
        return cli_size(state, "--offset", text, 0, UINT64_MAX, &arguments->offset);
    case OPTION_LENGTH:
        arguments->is_part = true;
        return cli_size(state, "--length", text, 1, UINT64_MAX, &arguments->length);
    case 'v':
        arguments->verbose = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 0)
            return cli_usage(state, "unexpected argument '%s': give one KEY", text);
        arguments->key = text;
        return 0;
    case ARGP_KEY_NO_ARGS:
        return cli_usage(state, "give a KEY");
    case ARGP_KEY_END:
        if (arguments->touch_ms && arguments->is_part)
            return cli_usage(state,
                             "--touch fetches the whole value: leave out --offset and --length");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- get ---------------------------------------------------------------- */

static const struct argp_option get_options[] = {
    {"output", 'o', "FILE", 0, "Write the value to FILE; it is left alone on a miss", 0},
    {"touch", OPTION_TOUCH, "TIME", 0,
     "Let the item expire after TIME, such as 60s, or never (none); in the same request", 0},
    {"offset", OPTION_OFFSET, "SIZE", 0, "Begin at this offset of the value, such as 64K", 0},
    {"length", OPTION_LENGTH, "SIZE", 0,
     "Write at most this many bytes; no more of a long value is fetched", 0},
    {0},
};

static int fetch(okv *handle, const struct get_arguments *arguments, char **value, size_t *length)
{
    if (arguments->touch_ms)
        return fetch_and_touch(handle, arguments, value, length);
    if (arguments->is_part)
        return fetch_part(handle, arguments, value, length);
    return cli_fetch(handle, arguments->key, strlen(arguments->key), value, length, NULL);
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

int cli_get(struct cli *cli, int argc, char **argv)
{
    static const struct argp parser = {
        .options = get_options,
        .parser = parse_one_key,
        .args_doc = "KEY",
        .doc = "Write the value of a key to standard output: its bytes, and a newline after them "
               "on a terminal and in a shell only.\v"
               "Exit status 1 says that the key is not there.\n\n"
               "Examples:\n  okv get greeting\n  okv get photo -o photo.jpg\n"
               "  okv get session:7 --touch 5m\n"
               "  okv get log --offset 1M --length 4K\n"
               "  okv --counters get greeting >/dev/null",
        .children = cli_common_options};
    struct get_arguments arguments = {.cli = cli};
    char *value = NULL;
    size_t length = 0;

    int status = cli_begin(cli, &parser, argc, argv, &arguments);
    if (status != CLI_DONE)
        return status;

    size_t key_length = strlen(arguments.key);
    int rc = fetch(cli->handle, &arguments, &value, &length);
    if (rc == OKV_EVALUESIZE)
        return cli_fail_with(cli, "get", arguments.key, key_length, rc,
                             "--touch is for a value that fits a message: get it, and touch it");
    if (rc != OKV_OK)
        return cli_fail(cli, "get", arguments.key, key_length, rc);

    if (arguments.file) {
        status = write_file(arguments.file, value, length);
    } else {
        fwrite(value, 1, length, stdout);
        bool ends_line = cli->shared || isatty(STDOUT_FILENO);
        if (ends_line && (length == 0 || value[length - 1] != '\n'))
            putchar('\n');
        status = cli_output_end("get");
    }
    free(value);
    return status;
}

/* ---- exists ------------------------------------------------------------- */

static const struct argp_option exists_options[] = {
    {"verbose", 'v', NULL, 0, "Print the item's version, its value's length and its time to live",
     0},
    {0},
};

int cli_exists(struct cli *cli, int argc, char **argv)
{
    static const struct argp parser = {
        .options = exists_options,
        .parser = parse_one_key,
        .args_doc = "KEY",
        .doc = "Tell by the exit status whether a key is there, without fetching its value.\v"
               "Exit status 0 says that it is there, 1 that it is not; nothing is printed. With -v "
               "three lines of a name and a number: version, length (bytes), and ttl "
               "(milliseconds, or none).\n\n"
               "Examples:\n  okv exists greeting && echo yes\n"
               "  version=$(okv exists -v greeting | sed -n 's/^version //p')\n"
               "  okv put greeting changed --if-version \"$version\"",
        .children = cli_common_options};
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
