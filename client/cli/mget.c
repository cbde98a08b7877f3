/* okv mget: many keys over one connection. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/tsv.h"

struct mget {
    struct cli *cli;
    char **keys; /* of the command line */
    unsigned key_count;
    char *buffer; /* max_value bytes */
    size_t size;
    int status; /* the worst so far */
};

static error_t parse_mget(int key, char *text, struct argp_state *state)
{
    struct mget *mget = state->input;

    (void)text;
    cli_parse_child(key, state, mget->cli);
    switch (key) {
    case ARGP_KEY_ARGS:
        mget->keys = state->argv + state->next;
        mget->key_count = (unsigned)(state->argc - state->next);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "give KEYs, or - to take them from stdin");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Looks one key up and writes its line. Returns an enum cli_status. */
static int show(struct mget *mget, const char *key, size_t key_length)
{
    struct tsv_item item = {.key = key, .key_length = key_length, .value = mget->buffer};
    int rc = okv_get(mget->cli->handle, key, key_length, mget->buffer, mget->size,
                     &item.value_length, NULL);

    if (rc == OKV_ENOTFOUND)
        return CLI_MISS; /* among many keys no news: its line is not there */
    if (rc != OKV_OK)
        return cli_fail(mget->cli, "mget", key, key_length, rc);
    return tsv_write(stdout, &item) == 0 ? CLI_DONE : cli_flush("mget");
}

/* Returns false when further keys would fail alike. */
static bool show_next(struct mget *mget, const char *key, size_t key_length)
{
    mget->status = cli_worse(mget->status, show(mget, key, key_length));
    return cli_usable(mget->cli) && !ferror(stdout);
}

static void show_lines(struct mget *mget)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;

    while ((length = getline(&line, &room, stdin)) > 0) {
        if (line[length - 1] == '\n')
            length--;
        if (!show_next(mget, line, (size_t)length))
            break;
    }
    if (ferror(stdin)) {
        fprintf(stderr, "okv: mget: cannot read stdin: %s\n", strerror(errno));
        mget->status = CLI_FAILED;
    }
    free(line);
}

static void show_all(struct mget *mget)
{
    if (mget->key_count == 1 && strcmp(mget->keys[0], "-") == 0) {
        show_lines(mget);
        return;
    }
    for (unsigned i = 0; i < mget->key_count; i++)
        if (!show_next(mget, mget->keys[i], strlen(mget->keys[i])))
            return;
}

int cli_mget(struct cli *cli, int argc, char **argv)
{
    static const struct argp parser = {
        .parser = parse_mget,
        .args_doc = "KEY...\n-",
        .doc = "Write each key that is there, and its value, as a KEY TAB VALUE line.\v"
               "With - the keys come from standard input, one a line, and each is answered as it "
               "comes. Lines are escaped as those of `okv export`.\n\n"
               "All keys are tried, also after one that failed, unless the server is gone.\n\n"
               "Exit status: 3 if a key could not be looked up, else 1 if one was not there.\n\n"
               "Examples:\n  okv mget user:1 user:2\n  cut -f 1 items.tsv | okv mget - >found.tsv",
        .children = cli_common_options};
    struct mget mget = {.cli = cli};
    struct okv_info info;

    argp_parse(&parser, argc, argv, 0, NULL, &mget);
    int connected = cli_connect(cli, 0);
    if (connected != CLI_DONE)
        return connected;
    okv_info(cli->handle, &info);
    mget.size = info.max_value;
    mget.buffer = malloc(mget.size);
    if (!mget.buffer)
        return cli_fail(cli, "mget", NULL, 0, OKV_ENOMEM);
    setvbuf(stdout, NULL, _IOLBF, 0);
    show_all(&mget);
    free(mget.buffer);
    return ferror(stdout) ? CLI_FAILED : cli_worse(mget.status, cli_flush("mget"));
}
