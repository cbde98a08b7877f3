/* okv watch: a line each time that an item has changed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/args.h"
#include "client/cli/output.h"
#include "client/cli/tsv.h"

#define INTERVAL_MS 100u

struct watch {
    struct cli *cli;
    const char *key;
    uint32_t interval_ms;
    uint64_t count;
    bool has_state;   /* some line was printed */
    uint64_t version; /* of the last line; 0: the item was not there */
};

static const struct okv_option watch_options[] = {
    {"count", 'n', "N", .help = "End after N lines",
     CLI_NUMBER(struct watch, count, 1, UINT64_MAX)},
    {"interval", 'i', "TIME", .help = "Time between two gets, such as 10ms or 1s (100ms)",
     CLI_TIME(struct watch, interval_ms)},
    {0},
};

/* Prints a line if the item has changed. Returns whether it did. */
static bool show_change(struct watch *watch, uint64_t version, const char *value, size_t length)
{
    if (watch->has_state && version == watch->version)
        return false;
    watch->has_state = true;
    watch->version = version;
    printf("%llu\t", (unsigned long long)version);
    if (version)
        tsv_write_field(stdout, value, length);
    putchar('\n');
    return true;
}

static int show(struct watch *watch)
{
    size_t key_length = strlen(watch->key), length = 0;
    uint64_t lines = 0;

    cli_interrupt_catch(true);
    for (;;) {
        char *value = NULL;
        uint64_t version = 0;
        int rc = cli_fetch(watch->cli->handle, watch->key, key_length, &value, &length, &version);
        if (rc != OKV_OK && rc != OKV_ENOTFOUND)
            return cli_fail(watch->cli, "watch", watch->key, key_length, rc);
        lines += show_change(watch, rc == OKV_OK ? version : 0, value, length);
        free(value);
        if (fflush(stdout) || lines == watch->count || !cli_pause(watch->interval_ms))
            return cli_output_end("watch");
    }
}

int cli_watch(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .options = watch_options,
        .least = 1,
        .most = 1,
        .arguments = {offsetof(struct watch, key)},
        .missing = "give a KEY",
        .unexpected = "unexpected argument '%s': give one KEY",
        .args_doc = "KEY",
        .doc =
            "Print an item now and each time that it has changed, until ^C.\v"
            "A line is the item's version, a tab, and the value, escaped as that of `okv "
            "export`; version 0 and nothing: the item is not there. It gets the item each "
            "--interval, without the server's CPU, and shows only the last of several changes in "
            "between.\n\nExamples:\n  okv watch leader\n"
            "  okv watch config -n 2 | tail -n 1 | cut -f 2    # after the next change"};
    struct watch watch = {.cli = cli, .interval_ms = INTERVAL_MS, .count = UINT64_MAX};

    int status = cli_begin(cli, &parser, argc, argv, &watch);
    return status != CLI_DONE ? status : show(&watch);
}
