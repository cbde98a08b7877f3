/* okv del: removes items. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/tsv.h"

enum { OPTION_IF_VERSION = 0x700 };

struct del_arguments {
    struct cli *cli;
    char **keys; /* the tail of argv */
    int count;
    bool if_version;
    uint64_t version;
    bool is_null; /* stdin is of raw keys, each before a NUL */
};

static const struct argp_option del_options[] = {
    {"if-version", OPTION_IF_VERSION, "V", 0, "Only if the item has version V", 0},
    {"null", '0', NULL, 0, "With -, keys are as they are, with a NUL behind each", 0},
    {0},
};

static bool takes_stdin(const struct del_arguments *arguments)
{
    return arguments->count == 1 && strcmp(arguments->keys[0], "-") == 0;
}

static error_t parse_del(int key, char *text, struct argp_state *state)
{
    struct del_arguments *arguments = state->input;

    cli_parse_child(key, state, arguments->cli);
    switch (key) {
    case OPTION_IF_VERSION:
        arguments->if_version = true;
        return cli_number(state, "--if-version", text, 1, UINT64_MAX, &arguments->version);
    case '0':
        arguments->is_null = true;
        return 0;
    case ARGP_KEY_ARGS:
        arguments->keys = state->argv + state->next;
        arguments->count = state->argc - state->next;
        return 0;
    case ARGP_KEY_NO_ARGS:
        return cli_usage(state, "give KEYs, or - to take them from stdin");
    case ARGP_KEY_END:
        if (arguments->if_version && arguments->count > 1)
            return cli_usage(state, "--if-version is about one item: give one KEY");
        if (arguments->is_null && !takes_stdin(arguments))
            return cli_usage(state, "--null is about keys from stdin: give - for KEY");
        arguments->cli->took_stdin = takes_stdin(arguments);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Whether the next key is to be tried. The key is of this line of stdin; 0: an argument. *status:
 * the worst so far. */
static bool del_one(const struct del_arguments *arguments, uint64_t line, const char *key,
                    size_t length, int *status)
{
    struct cli *cli = arguments->cli;
    int rc = arguments->if_version ? okv_delete_if(cli->handle, key, length, arguments->version)
                                   : okv_delete(cli->handle, key, length);

    if (rc != OKV_OK)
        *status = cli_worse(*status, cli_fail_line(cli, "del", line, key, length, rc));
    return !cli_connection_failed(rc) && !cli_interrupted();
}

/* Takes what ends a key of stdin from its end, and escapes out of it. */
static bool take_key(const struct del_arguments *arguments, char *line, size_t *length)
{
    char end = arguments->is_null ? '\0' : '\n';

    *length -= *length > 0 && line[*length - 1] == end;
    if (arguments->is_null)
        return true;
    *length -= *length > 0 && line[*length - 1] == '\r';
    return tsv_decode(line, length);
}

static int del_lines(const struct del_arguments *arguments)
{
    int end = arguments->is_null ? '\0' : '\n', status = CLI_DONE;
    char *line = NULL;
    size_t size = 0;
    bool goes_on = true;
    ssize_t got;

    /* A signal or an error amid a line leaves a part of it, which is nobody's key. */
    for (uint64_t number = 1;
         goes_on && (got = getdelim(&line, &size, end, stdin)) >= 0 && !ferror(stdin); number++) {
        size_t length = (size_t)got;
        if (take_key(arguments, line, &length)) {
            goes_on = del_one(arguments, number, line, length, &status);
        } else {
            cli_fail_escape("del", number);
            status = CLI_FAILED;
        }
    }
    free(line);
    if (goes_on && ferror(stdin) && !cli_interrupted()) {
        perror("okv: del: cannot read stdin");
        status = CLI_FAILED;
    } else if (!feof(stdin)) {
        status = CLI_FAILED;
        fputs("okv: del: stopped: the keys that follow on standard input were not tried\n", stderr);
    }
    return status;
}

static int del_all(const struct del_arguments *arguments)
{
    int status = CLI_DONE;

    cli_interrupt_catch(true);
    if (arguments->cli->took_stdin)
        return del_lines(arguments);
    for (int i = 0; i < arguments->count; i++) {
        if (del_one(arguments, 0, arguments->keys[i], strlen(arguments->keys[i]), &status))
            continue;
        if (i + 1 < arguments->count)
            fprintf(stderr, "okv: del: stopped: %d of %d keys were not tried\n",
                    arguments->count - i - 1, arguments->count);
        break;
    }
    return status;
}

int cli_del(struct cli *cli, int argc, char **argv)
{
    static const struct argp parser = {
        .options = del_options,
        .parser = parse_del,
        .args_doc = "KEY...\n-",
        .doc = "Remove keys.\v"
               "With - the keys come from standard input, one a line and escaped as `okv scan` "
               "writes them.\n\n"
               "All keys are tried, also after one that failed, unless the connection fails: how "
               "many were not tried is then told.\n\n"
               "Exit status: 3 if a key could not be removed, else 1 if one was not there or had "
               "another version.\n\n"
               "Examples:\n  okv del greeting\n  okv del photo-1 photo-2\n"
               "  okv scan --prefix tmp: | okv del -\n  okv scan -0 | grep -z '^tmp' | okv del -0 "
               "-\n  okv del lock --if-version 17",
        .children = cli_common_options};
    struct del_arguments arguments = {.cli = cli};

    int status = cli_begin(cli, &parser, argc, argv, &arguments);
    if (status != CLI_DONE)
        return status;
    return del_all(&arguments);
}
