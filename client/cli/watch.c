/* okv watch: a line each time that an item has changed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/cli/cli.h"
#include "client/cli/tsv.h"

enum { OPTION_INTERVAL = 'i', OPTION_COUNT = 'n' };

#define INTERVAL_MS 100u
#define VALUE_BYTES 4096u

struct watch {
    struct cli *cli;
    const char *key;
    uint32_t interval_ms;
    uint64_t count;
    bool has_state;   /* some line was printed */
    uint64_t version; /* of the last line; 0: the item was not there */
    char *value;
    size_t room;
};

static const struct argp_option watch_options[] = {
    {"count", OPTION_COUNT, "N", 0, "End after N lines", 0},
    {"interval", OPTION_INTERVAL, "TIME", 0, "Between two looks, as 10ms or 1s (100ms)", 0},
    {0},
};

static error_t parse_watch(int key, char *text, struct argp_state *state)
{
    struct watch *watch = state->input;

    cli_parse_child(key, state, watch->cli);
    switch (key) {
    case OPTION_COUNT:
        watch->count = cli_number(state, "--count", text, 1, UINT64_MAX);
        return 0;
    case OPTION_INTERVAL:
        watch->interval_ms = cli_timeout(state, "--interval", text);
        return 0;
    case ARGP_KEY_ARG:
        if (watch->key)
            argp_error(state, "unexpected argument '%s': give one KEY", text);
        watch->key = text;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "give a KEY");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Gets the item into a buffer that grows with its value. */
static int look(struct watch *watch, struct okv_result *result)
{
    struct okv_command get = {.kind = OKV_GET, .key = watch->key, .key_length = strlen(watch->key)};
    int rc = OKV_ETOOSMALL;

    result->length = VALUE_BYTES;
    while (rc == OKV_ETOOSMALL) {
        if (watch->room < result->length) {
            char *larger = realloc(watch->value, result->length);
            if (!larger)
                return OKV_ENOMEM;
            watch->value = larger;
            watch->room = result->length;
        }
        get.buffer = watch->value;
        get.buffer_size = watch->room;
        rc = okv_call(watch->cli->handle, &get, result);
    }
    return rc;
}

/* Whether a line was due. */
static bool show_change(struct watch *watch, int rc, const struct okv_result *result)
{
    uint64_t version = rc == OKV_OK ? result->version : 0;

    if (watch->has_state && version == watch->version)
        return false;
    watch->has_state = true;
    watch->version = version;
    printf("%llu\t", (unsigned long long)version);
    if (version)
        tsv_write_field(stdout, watch->value, result->length);
    putchar('\n');
    return true;
}

static int show(struct watch *watch)
{
    const struct timespec pause = {watch->interval_ms / 1000,
                                   (long)(watch->interval_ms % 1000) * 1000000};
    struct okv_result result;
    uint64_t lines = 0;

    for (;;) {
        int rc = look(watch, &result);
        if (rc != OKV_OK && rc != OKV_ENOTFOUND)
            return cli_fail(watch->cli, "watch", watch->key, strlen(watch->key), rc);
        lines += show_change(watch, rc, &result);
        if (fflush(stdout) || lines == watch->count)
            return cli_output_end("watch");
        nanosleep(&pause, NULL);
    }
}

int cli_watch(struct cli *cli, int argc, char **argv)
{
    static const struct argp parser = {
        .options = watch_options,
        .parser = parse_watch,
        .args_doc = "KEY",
        .doc = "Print an item now and each time that it has changed, until ^C.\v"
               "A line is the item's version, a tab, and the value, escaped as that of `okv "
               "export`; version 0 and nothing: the item is not there. It looks each --interval, "
               "by gets that leave the server's CPU alone, and sees the last of several changes in "
               "between.\n\n"
               "Examples:\n  okv watch leader\n"
               "  okv watch config -n 2 | tail -n 1 | cut -f 2    # after the next change",
        .children = cli_common_options};
    struct watch watch = {.cli = cli, .interval_ms = INTERVAL_MS, .count = UINT64_MAX};

    argp_parse(&parser, argc, argv, 0, NULL, &watch);
    int status = cli_connect(cli, 0);
    if (status == CLI_DONE)
        status = show(&watch);
    free(watch.value);
    return status;
}
