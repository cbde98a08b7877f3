/* okv mget: many keys over one connection, many of them at a time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/args.h"
#include "client/cli/item_json.h"
#include "client/cli/output.h"
#include "client/cli/tsv.h"

#define BATCH 128
/* Room for each value of a batch; larger ones are fetched on their own. */
#define BATCH_VALUE_BYTES 8192
/* More than the longest line has. */
#define INPUT_BYTES 65536

struct mget {
    struct cli *cli;
    char **keys; /* of the command line */
    int key_count;
    bool is_null;
    bool json;
    char end; /* of a key on stdin: a newline or, with --null, a NUL */

    struct okv_command commands[BATCH];
    struct okv_result results[BATCH];
    uint64_t lines[BATCH]; /* of stdin; 0: an argument */
    size_t count;          /* commands of the batch that is being filled */
    char *buffers;         /* BATCH_VALUE_BYTES for each of them */

    char *input; /* INPUT_BYTES: what was read of stdin and not yet looked up */
    size_t used;
    uint64_t line; /* of stdin */
    bool input_ended;
    int stopped; /* how the connection failed; 0 */
    int status;  /* the worst so far */
};

static const struct okv_option mget_options[] = {
    {"null", '0', NULL, .help = "With -, keys are raw and end with a NUL",
     CLI_FLAG(struct mget, is_null)},
    {"json", 0, NULL, .help = "Lines of JSON instead: objects with key, value and version",
     CLI_FLAG(struct mget, json)},
    {0},
};

static bool takes_stdin(const struct mget *mget)
{
    return mget->key_count == 1 && strcmp(mget->keys[0], "-") == 0;
}

static error_t check_mget(struct argp_state *state, void *input)
{
    struct mget *mget = input;

    if (mget->is_null && !takes_stdin(mget))
        return cli_usage(state, "--null is about keys from stdin: give - for KEY");
    mget->end = mget->is_null ? '\0' : '\n';
    mget->cli->took_stdin = takes_stdin(mget);
    return 0;
}

/* ---- a batch ------------------------------------------------------------ */

static void note(struct mget *mget, int status)
{
    mget->status = cli_worse(mget->status, status);
}

static void write_line(struct mget *mget, const struct tsv_item *item, uint64_t version)
{
    if (mget->json)
        note(mget,
             cli_print_json_line("mget", cli_json_item(item->key, item->key_length, item->value,
                                                       item->value_length, version)));
    else
        tsv_write(stdout, item);
}

/* Writes the line of one key, or says why there is none. */
static void show(struct mget *mget, size_t i)
{
    const struct okv_command *command = &mget->commands[i];
    const struct okv_result *result = &mget->results[i];
    struct tsv_item item = {.key = command->key,
                            .key_length = command->key_length,
                            .value = command->buffer,
                            .value_length = result->length};
    uint64_t version = result->version;
    char *large = NULL;
    int rc = result->status;

    /* Once the connection has failed, waiting for it with each large value would take long. */
    if (rc == OKV_ETOOSMALL && mget->stopped) {
        rc = mget->stopped;
    } else if (rc == OKV_ETOOSMALL) {
        rc = cli_fetch(mget->cli->handle, item.key, item.key_length, &large, &item.value_length,
                       &version);
        item.value = large;
    }
    if (rc == OKV_OK)
        write_line(mget, &item, version);
    else if (rc == OKV_ENOTFOUND)
        note(mget, CLI_MISS); /* no message among many keys: its line is missing */
    else
        note(mget, cli_fail_line(mget->cli, "mget", mget->lines[i], item.key, item.key_length, rc));
    if (cli_connection_failed(rc))
        mget->stopped = rc;
    free(large);
}

/* True unless further keys would fail too. */
static bool goes_on(const struct mget *mget)
{
    return !mget->stopped && !ferror(stdout) && !cli_interrupted();
}

/* None of the batch has a result. */
static void fail_batch(struct mget *mget, int code)
{
    note(mget, cli_fail_line(mget->cli, "mget", mget->lines[0], mget->commands[0].key,
                             mget->commands[0].key_length, code));
    if (mget->count > 1)
        fprintf(stderr, "okv: mget: and the %zu keys after it\n", mget->count - 1);
    mget->stopped = code;
}

/* Looks the batch up and shows the results. */
static void finish_batch(struct mget *mget)
{
    if (mget->count == 0)
        return;
    int rc = okv_call_many(mget->cli->handle, mget->commands, mget->results, mget->count);
    if (rc != OKV_OK)
        fail_batch(mget, rc);
    cli_interrupt_catch_in_output();
    for (size_t i = 0; i < mget->count && rc == OKV_OK && !ferror(stdout); i++)
        show(mget, i);
    mget->count = 0;
    note(mget, cli_output_end("mget"));
}

/* Adds a key, whose bytes stay where they are until finish_batch(). */
static void add(struct mget *mget, const char *key, size_t key_length)
{
    if (key_length < 1 || key_length > OKV_KEY_MAX_BYTES) {
        finish_batch(mget); /* in the order of the keys */
        note(mget, cli_fail_line(mget->cli, "mget", mget->line, key, key_length, OKV_EKEYSIZE));
        return;
    }
    mget->lines[mget->count] = mget->line;
    mget->commands[mget->count] =
        (struct okv_command){.kind = OKV_GET,
                             .key = key,
                             .key_length = key_length,
                             .buffer = mget->buffers + mget->count * BATCH_VALUE_BYTES,
                             .buffer_size = BATCH_VALUE_BYTES};
    if (++mget->count == BATCH)
        finish_batch(mget);
}

/* ---- keys from standard input ------------------------------------------- */

static void add_line(struct mget *mget, char *line, size_t length)
{
    size_t mark = mget->line++ == 0 && mget->end == '\n' ? tsv_mark_length(line, length) : 0;

    line += mark;
    length -= mark;
    if (mget->end == '\n' && length > 0 && line[length - 1] == '\r')
        length--;
    if (mget->end == '\0' || tsv_decode(line, &length)) {
        add(mget, line, length);
        return;
    }
    finish_batch(mget);
    cli_fail_escape("mget", mget->line);
    note(mget, CLI_FAILED);
}

/* Looks up the whole lines of what was read so far and keeps the rest. */
static void take_lines(struct mget *mget)
{
    char *line = mget->input;
    char *end = mget->input + mget->used;
    char *newline;

    while (goes_on(mget) && (newline = memchr(line, mget->end, (size_t)(end - line)))) {
        add_line(mget, line, (size_t)(newline - line));
        line = newline + 1;
    }
    finish_batch(mget);
    mget->used = (size_t)(end - line);
    memmove(mget->input, line, mget->used);
}

/* Reads what is there, at least a byte. False: the end. */
static bool read_some(struct mget *mget)
{
    if (mget->used == INPUT_BYTES) {
        fprintf(stderr, "okv: mget: line %llu of stdin is longer than a key may be\n",
                (unsigned long long)mget->line + 1);
        note(mget, CLI_FAILED);
        return false;
    }
    ssize_t got;
    cli_interrupt_catch(true);
    do
        got = read(STDIN_FILENO, mget->input + mget->used, INPUT_BYTES - mget->used);
    while (got < 0 && errno == EINTR && !cli_interrupted());
    if (got < 0 && !cli_interrupted()) {
        fprintf(stderr, "okv: mget: cannot read stdin: %s\n", strerror(errno));
        note(mget, CLI_FAILED);
    }
    if (got < 0)
        return false;
    mget->used += (size_t)got;
    mget->input_ended = got == 0;
    return got > 0;
}

/* The one without a newline. */
static void take_last_line(struct mget *mget)
{
    add_line(mget, mget->input, mget->used);
    mget->used = 0;
}

static void show_lines(struct mget *mget)
{
    mget->input = malloc(INPUT_BYTES);
    if (!mget->input) {
        note(mget, cli_fail(mget->cli, "mget", NULL, 0, OKV_ENOMEM));
        return;
    }
    while (goes_on(mget) && read_some(mget))
        take_lines(mget);
    if (mget->used > 0 && mget->input_ended && goes_on(mget)) /* else a part of a line */
        take_last_line(mget);
    finish_batch(mget);
    if ((mget->stopped || cli_interrupted()) && (mget->used > 0 || !mget->input_ended)) {
        note(mget, CLI_FAILED);
        fputs("okv: mget: stopped: the keys that follow on standard input were not looked up\n",
              stderr);
    }
    free(mget->input);
}

static void show_arguments(struct mget *mget)
{
    int i = 0;

    for (; i < mget->key_count && goes_on(mget); i++)
        add(mget, mget->keys[i], strlen(mget->keys[i]));
    finish_batch(mget);
    if (i < mget->key_count)
        fprintf(stderr, "okv: mget: stopped: %d of %d keys were not looked up\n",
                mget->key_count - i, mget->key_count);
}

int cli_mget(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .options = mget_options,
        .has_rest = true,
        .least = 1,
        .arguments = {offsetof(struct mget, keys), offsetof(struct mget, key_count)},
        .missing = "give KEYs, or - to take them from stdin",
        .check = check_mget,
        .args_doc = "KEY...\n-",
        .doc = "Write each key that is there, and its value, as a KEY TAB VALUE line.\v"
               "With - the keys come from standard input, one a line and escaped as `okv export` "
               "and `okv scan` write them, or with --null as they are, and are answered as they "
               "come. Lines are in the order "
               "of the keys and escaped likewise; a key that is named twice has two. With --json a "
               "key or value that is no UTF-8 is in key_base64 or value_base64 instead.\n\n"
               "All keys are tried, also after one that failed, unless the connection fails: that "
               "some were not looked up is then reported.\n\n"
               "Exit status: 3 if a key could not be looked up, else 1 if one was not there.\n\n"
               "Examples:\n  okv mget user:1 user:2\n  cut -f 1 items.tsv | okv mget - >found.tsv\n"
               "  okv mget user:1 user:2 --json | jq -r .value"};
    struct mget mget = {.cli = cli};

    int status = cli_read(&parser, argc, argv, &mget);
    if (status == CLI_DONE)
        status = cli_connect(cli, BATCH);
    if (status != CLI_DONE)
        return status;
    mget.buffers = malloc((size_t)BATCH * BATCH_VALUE_BYTES);
    if (!mget.buffers)
        return cli_fail(cli, "mget", NULL, 0, OKV_ENOMEM);
    cli_interrupt_catch(true);
    if (cli->took_stdin)
        show_lines(&mget);
    else
        show_arguments(&mget);
    free(mget.buffers);
    return mget.status;
}
