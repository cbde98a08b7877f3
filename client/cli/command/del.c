/* okv del: removes items. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/args.h"
#include "client/cli/line.h"
#include "client/cli/output.h"
#include "client/cli/progress.h"
#include "client/cli/tsv.h"

/* Keys of a scan that are deleted before it continues. */
#define BATCH_KEYS 256
/* okv_poll() moves deadlines on, so that waiting is cut into pieces. */
#define WAIT_MS 100

struct del_arguments {
    struct cli *cli;
    char **keys; /* the tail of argv */
    int count;
    uint64_t version;   /* 0: any */
    bool is_null;       /* stdin has raw keys, each followed by a NUL */
    const char *prefix; /* NULL: keys are named */
    size_t prefix_length;
    bool is_dry;
};

static const struct okv_option del_options[] = {
    {"if-version", 0, "V", .help = "Only if the item has version V",
     CLI_NUMBER(struct del_arguments, version, 1, UINT64_MAX)},
    {"null", '0', NULL, .help = "With -, keys are raw and end with a NUL",
     CLI_FLAG(struct del_arguments, is_null)},
    {"prefix", 0, "P", .help = "Remove every key that begins with P",
     CLI_TEXT(struct del_arguments, prefix)},
    {"dry-run", 0, NULL, .help = "With --prefix, list the keys and remove none",
     CLI_FLAG(struct del_arguments, is_dry)},
    {0},
};

static bool takes_stdin(const struct del_arguments *arguments)
{
    return arguments->count == 1 && strcmp(arguments->keys[0], "-") == 0;
}

static error_t check_del(struct argp_state *state, void *input)
{
    struct del_arguments *arguments = input;

    arguments->cli->took_stdin = takes_stdin(arguments);
    arguments->prefix_length = arguments->prefix ? strlen(arguments->prefix) : 0;
    if (arguments->prefix && arguments->count > 0)
        return cli_usage(state, "give KEYs or --prefix, not both");
    if (arguments->prefix && arguments->prefix_length == 0)
        return cli_usage(state, "--prefix is empty: okv flush removes every item");
    if (!arguments->prefix && arguments->count == 0)
        return cli_usage(state, "give KEYs, - to take them from stdin, or --prefix");
    if (arguments->is_dry && !arguments->prefix)
        return cli_usage(state, "--dry-run is about --prefix: give that too");
    if (arguments->version && (arguments->prefix || arguments->count > 1))
        return cli_usage(state, "--if-version is about one item: give one KEY");
    if (arguments->is_null && !takes_stdin(arguments))
        return cli_usage(state, "--null is about keys from stdin: give - for KEY");
    return 0;
}

/* Returns whether to try the next key. `line` of stdin; 0: an argument. *status: the worst so far.
 */
static bool del_one(const struct del_arguments *arguments, uint64_t line, const char *key,
                    size_t length, int *status)
{
    struct cli *cli = arguments->cli;
    int rc = arguments->version ? okv_delete_if(cli->handle, key, length, arguments->version)
                                : okv_delete(cli->handle, key, length);

    if (rc != OKV_OK)
        *status = cli_worse(*status, cli_fail_line(cli, "del", line, key, length, rc));
    return !cli_connection_failed(rc) && !cli_interrupted();
}

/* Finds the key in a line, of which `number` is the first: without its end and a byte order mark,
 * and decodes its escapes. */
static bool take_key(const struct del_arguments *arguments, uint64_t number, char **line,
                     size_t *length)
{
    char end = arguments->is_null ? '\0' : '\n';

    *length -= *length > 0 && (*line)[*length - 1] == end;
    if (arguments->is_null)
        return true;
    size_t mark = number == 1 ? tsv_mark_length(*line, *length) : 0;
    *line += mark;
    *length -= mark;
    *length -= *length > 0 && (*line)[*length - 1] == '\r';
    return tsv_decode(*line, length);
}

static int del_lines(const struct del_arguments *arguments)
{
    int end = arguments->is_null ? '\0' : '\n', status = CLI_DONE;
    char *line = NULL;
    size_t size = 0;
    bool goes_on = true;
    ssize_t got;

    uint64_t number = 1;

    errno = 0;
    /* A signal or an error within a line leaves a part of it, which is not a key. */
    for (;
         goes_on &&
         (got = cli_line_read(stdin, &line, &size, end, CLI_LINE_MAX(OKV_KEY_MAX_BYTES, 0))) >= 0 &&
         !ferror(stdin);
         number++) {
        size_t length = (size_t)got;
        char *key = line;
        if (take_key(arguments, number, &key, &length)) {
            goes_on = del_one(arguments, number, key, length, &status);
        } else {
            cli_fail_escape("del", number);
            status = CLI_FAILED;
        }
    }
    free(line);
    if (goes_on && !feof(stdin) && !cli_interrupted()) {
        fprintf(stderr, "okv: del: cannot read line %llu of stdin: %s\n",
                (unsigned long long)number,
                errno == E2BIG ? "it is longer than a key may be" : strerror(errno));
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

/* ---- by prefix ---- */

/* Keys that a portion of a scan has shown, and their deletes. */
struct batch {
    const struct del_arguments *arguments;
    uint32_t count;
    char keys[BATCH_KEYS][OKV_KEY_MAX_BYTES];
    struct okv_command deletes[BATCH_KEYS];
};

static int note_key(void *user, const struct okv_item *item)
{
    struct batch *batch = user;
    const struct del_arguments *arguments = batch->arguments;

    if (item->key_length >= arguments->prefix_length &&
        memcmp(item->key, arguments->prefix, arguments->prefix_length) == 0) {
        uint32_t at = batch->count++;
        memcpy(batch->keys[at], item->key, item->key_length);
        batch->deletes[at] = (struct okv_command){
            .kind = OKV_DELETE, .tag = at, .key = batch->keys[at], .key_length = item->key_length};
    }
    return batch->count == BATCH_KEYS || cli_interrupted();
}

static int fail_key(const struct batch *batch, uint64_t at, int code)
{
    const struct okv_command *command = &batch->deletes[at];

    return cli_fail(batch->arguments->cli, "del", command->key, command->key_length, code);
}

/* Takes deletes that have ended. Returns how many, or -1 when the handle failed. */
static int take_ended(const struct batch *batch, uint64_t *removed, int *status)
{
    struct okv_result results[32];
    int count = okv_poll(batch->arguments->cli->handle, results, 32);

    if (count < 0) {
        *status = cli_fail(batch->arguments->cli, "del", NULL, 0, count);
        return -1;
    }
    for (int i = 0; i < count; i++) {
        int rc = results[i].status;
        *removed += rc == OKV_OK;
        if (rc != OKV_OK && rc != OKV_ENOTFOUND && *status == CLI_DONE)
            *status = fail_key(batch, results[i].tag, rc);
    }
    return count;
}

/* Removes them, many at a time, until one fails; one that is gone meanwhile does not. */
static int del_batch(const struct batch *batch, uint64_t *removed)
{
    okv *handle = batch->arguments->cli->handle;
    uint32_t begun = 0, ended = 0;
    int status = CLI_DONE;

    while (ended < begun || (begun < batch->count && status == CLI_DONE)) {
        size_t accepted = 0;
        if (begun < batch->count && status == CLI_DONE) {
            int rc = okv_submit(handle, &batch->deletes[begun], batch->count - begun, &accepted);
            begun += (uint32_t)accepted;
            if (rc != OKV_OK && (rc != OKV_EAGAIN || begun == ended))
                status = fail_key(batch, begun, rc);
        }
        int count = take_ended(batch, removed, &status);
        if (count < 0)
            break;
        ended += (uint32_t)count;
        if (count == 0 && ended < begun)
            okv_wait(handle, WAIT_MS);
    }
    return status;
}

/* Returns CLI_DONE when it has come to the end of the table. */
static int del_batches(struct batch *batch, uint64_t *removed)
{
    struct cli *cli = batch->arguments->cli;
    struct progress progress;
    uint64_t cursor = 0;
    int status, rc;

    progress_init(&progress, isatty(STDERR_FILENO));
    do {
        batch->count = 0;
        rc = okv_scan_from(cli->handle, &cursor, note_key, batch);
        if (rc == OKV_EINVAL) /* a restarted server has another table */
            status =
                cli_fail_with(cli, "del", NULL, 0, rc, "the server was restarted: run it again");
        else if (rc < 0)
            status = cli_fail(cli, "del", NULL, 0, rc);
        else
            status = cursor && cli_interrupted() ? CLI_FAILED : del_batch(batch, removed);
        progress_show(&progress, *removed);
    } while (status == CLI_DONE && cursor);
    progress_clear(&progress);
    return status;
}

static int del_prefix(const struct del_arguments *arguments)
{
    struct batch *batch = calloc(1, sizeof *batch);
    uint64_t removed = 0;

    if (!batch)
        return cli_fail(arguments->cli, "del", NULL, 0, OKV_ENOMEM);
    batch->arguments = arguments;
    cli_interrupt_catch(true);
    int status = del_batches(batch, &removed);
    cli_disconnect(arguments->cli); /* deletes that are still under way use the keys until then */
    free(batch);
    printf("removed %llu item%s\n", (unsigned long long)removed, cli_s(removed));
    if (status != CLI_DONE)
        fputs("okv: del: stopped: keys that begin so may be left\n", stderr);
    return cli_worse(status, cli_output_end("del"));
}

int cli_del(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .options = del_options,
        .has_rest = true,
        .arguments = {offsetof(struct del_arguments, keys), offsetof(struct del_arguments, count)},
        .check = check_del,
        .args_doc = "KEY...\n-\n--prefix P",
        .doc =
            "Remove keys.\v"
            "With - the keys come from standard input, one a line and escaped as `okv scan` "
            "writes them.\n\nAll keys are tried, also after one that failed, unless the "
            "connection fails: how many were not tried is then reported.\n"
            "\nWith --prefix the keys are looked for in the whole table, without the server's "
            "CPU, and removed many at a time. It does not ask, prints how many items it removed, "
            "and ends at the first failure. Items that are put meanwhile may stay.\n"
            "\nExit status: 3 if a key could not be removed, else 1 if one was not there or had "
            "another version.\n\nExamples:\n  okv del greeting\n"
            "  okv del photo-1 photo-2\n  okv del --prefix tmp: --dry-run\n"
            "  okv scan -0 | grep -z '^tmp' | okv del -0 -\n"
            "  okv del lock --if-version 17"};
    struct del_arguments arguments = {.cli = cli};

    int status = cli_begin(cli, &parser, argc, argv, &arguments);
    if (status != CLI_DONE)
        return status;
    if (arguments.is_dry)
        return cli_list_keys(cli, "del", arguments.prefix);
    return arguments.prefix ? del_prefix(&arguments) : del_all(&arguments);
}
