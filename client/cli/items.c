/* okv put, get and del: one item at a time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"

/* A first guess that covers most values; larger ones are fetched a second time. */
#define GET_BUFFER_BYTES 65536

struct item_arguments {
    struct cli *cli;
    char *key;
    char *value;
    char *file;
};

/* ---- put ---------------------------------------------------------------- */

static error_t parse_put(int key, char *text, struct argp_state *state)
{
    struct item_arguments *arguments = state->input;

    cli_parse_child(key, state, arguments->cli);
    switch (key) {
    case ARGP_KEY_ARG:
        if (state->arg_num == 0)
            arguments->key = text;
        else if (state->arg_num == 1)
            arguments->value = text;
        else
            argp_error(state, "'%s' is too much: quote a value that has spaces", text);
        return 0;
    case ARGP_KEY_END:
        if (state->arg_num < 2)
            argp_error(state, "give KEY and VALUE, or KEY and - for stdin");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

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
        if (used > limit || (got == 0 && feof(stdin)))
            break;
        if (ferror(stdin)) {
            error = errno;
            goto free_bytes;
        }
    }
    *out = bytes;
    *length = used;
    return 0;

free_bytes:
    free(bytes);
    return error;
}

static int put_stdin(struct cli *cli, const char *key)
{
    struct okv_info info;
    char *value = NULL;
    size_t length = 0;
    int status = CLI_DONE;

    okv_info(cli->handle, &info);
    int error = read_stdin(info.max_value, &value, &length);
    if (error) {
        fprintf(stderr, "okv: put '%s': cannot read stdin: %s\n", key, strerror(error));
        return CLI_FAILED;
    }
    int rc = okv_put(cli->handle, key, strlen(key), value, length, NULL);
    if (rc != OKV_OK)
        status = cli_fail(cli, "put", key, strlen(key), rc);
    free(value);
    return status;
}

int cli_put(struct cli *cli, int argc, char **argv)
{
    static const struct argp parser = {
        .parser = parse_put,
        .args_doc = "KEY VALUE\nKEY -",
        .doc = "Store a value under a key, replacing what was there.\v"
               "A VALUE of - takes the value from standard input, to its end. Put -- before a key "
               "or value that begins with a dash.\n\n"
               "Examples:\n  okv put greeting hello\n  okv put photo - <photo.jpg\n"
               "  okv put -- -5 minus",
        .children = cli_common_options};
    struct item_arguments arguments = {.cli = cli};

    argp_parse(&parser, argc, argv, 0, NULL, &arguments);
    int connected = cli_connect(cli, 0);
    if (connected != CLI_DONE)
        return connected;
    if (strcmp(arguments.value, "-") == 0)
        return put_stdin(cli, arguments.key);

    int rc = okv_put(cli->handle, arguments.key, strlen(arguments.key), arguments.value,
                     strlen(arguments.value), NULL);
    if (rc != OKV_OK)
        return cli_fail(cli, "put", arguments.key, strlen(arguments.key), rc);
    return CLI_DONE;
}

/* ---- get ---------------------------------------------------------------- */

static const struct argp_option get_options[] = {
    {"output", 'o', "FILE", 0, "Write the value to FILE; it is left alone on a miss", 0},
    {0},
};

static error_t parse_get(int key, char *text, struct argp_state *state)
{
    struct item_arguments *arguments = state->input;

    cli_parse_child(key, state, arguments->cli);
    switch (key) {
    case 'o':
        arguments->file = text;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 0)
            argp_error(state, "'%s' is too much: give one KEY", text);
        arguments->key = text;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "give a KEY");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Fetches the value, however large, into *value to free(). Returns the code. */
static int fetch(okv *handle, const char *key, char **value, size_t *length)
{
    size_t size = GET_BUFFER_BYTES;

    for (;;) {
        char *buffer = malloc(size);
        if (!buffer)
            return OKV_ENOMEM;
        int rc = okv_get(handle, key, strlen(key), buffer, size, length, NULL);
        if (rc == OKV_OK) {
            *value = buffer;
            return OKV_OK;
        }
        free(buffer);
        if (rc != OKV_ETOOSMALL)
            return rc;
        size = *length;
    }
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
        .parser = parse_get,
        .args_doc = "KEY",
        .doc = "Write the value of a key to standard output: its bytes, and no newline after "
               "them.\v"
               "Exit status 1 says that the key is not there.\n\n"
               "Examples:\n  okv get greeting\n  okv get photo -o photo.jpg\n"
               "  okv --counters get greeting >/dev/null",
        .children = cli_common_options};
    struct item_arguments arguments = {.cli = cli};
    char *value = NULL;
    size_t length = 0;

    argp_parse(&parser, argc, argv, 0, NULL, &arguments);
    int connected = cli_connect(cli, 0);
    if (connected != CLI_DONE)
        return connected;

    int rc = fetch(cli->handle, arguments.key, &value, &length);
    if (rc != OKV_OK)
        return cli_fail(cli, "get", arguments.key, strlen(arguments.key), rc);

    int status;
    if (arguments.file) {
        status = write_file(arguments.file, value, length);
    } else {
        fwrite(value, 1, length, stdout);
        status = cli_flush("get");
    }
    free(value);
    return status;
}

/* ---- del ---------------------------------------------------------------- */

struct del_arguments {
    struct cli *cli;
    char **keys; /* the tail of argv */
    int count;
};

static error_t parse_del(int key, char *text, struct argp_state *state)
{
    struct del_arguments *arguments = state->input;

    (void)text;
    cli_parse_child(key, state, arguments->cli);
    switch (key) {
    case ARGP_KEY_ARGS:
        arguments->keys = state->argv + state->next;
        arguments->count = state->argc - state->next;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "give at least one KEY");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int cli_del(struct cli *cli, int argc, char **argv)
{
    static const struct argp parser = {
        .parser = parse_del,
        .args_doc = "KEY...",
        .doc = "Remove keys.\v"
               "All keys are tried, also after one that failed, unless the server is gone.\n\n"
               "Exit status: 3 if a key could not be removed, else 1 if one was not there.\n\n"
               "Examples:\n  okv del greeting\n  okv del photo-1 photo-2",
        .children = cli_common_options};
    struct del_arguments arguments = {.cli = cli};
    int status = CLI_DONE;

    argp_parse(&parser, argc, argv, 0, NULL, &arguments);
    int connected = cli_connect(cli, 0);
    if (connected != CLI_DONE)
        return connected;
    for (int i = 0; i < arguments.count && cli_usable(cli); i++) {
        const char *key = arguments.keys[i];
        int rc = okv_delete(cli->handle, key, strlen(key));
        if (rc != OKV_OK)
            status = cli_worse(status, cli_fail(cli, "del", key, strlen(key), rc));
    }
    return status;
}
