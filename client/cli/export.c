/* okv export: all items as lines of text. */
#include <stdio.h>

#include "client/cli/cli.h"
#include "client/cli/tsv.h"

/* Ends a scan from within; okv_scan() returns it as it is. */
#define SCAN_STOPPED 1

struct export_arguments {
    struct cli *cli;
};

static error_t parse_export(int key, char *text, struct argp_state *state)
{
    struct export_arguments *arguments = state->input;

    cli_parse_child(key, state, arguments->cli);
    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    argp_error(state, "'%s' is too much: export writes stdout, as in okv export >items.tsv", text);
    return 0;
}

static int write_item(void *user, const void *key, size_t key_length, const void *value,
                      size_t value_length, uint64_t version)
{
    struct tsv_item item = {
        .key = key, .key_length = key_length, .value = value, .value_length = value_length};

    (void)user;
    (void)version;
    return tsv_write(stdout, &item) == 0 ? 0 : SCAN_STOPPED;
}

int cli_export(struct cli *cli, int argc, char **argv)
{
    static const struct argp parser = {
        .parser = parse_export,
        .doc = "Write all items to standard output, one KEY TAB VALUE a line.\v"
               "The table is read without the server's CPU. In keys and values a tab is written "
               "\\t, a newline \\n, a carriage return \\r and a backslash \\\\; `okv import` reads "
               "them back exactly. An item that is changed meanwhile may be missed.\n\n"
               "Examples:\n  okv export >items.tsv\n  okv export | sort | sha256sum",
        .children = cli_common_options};
    struct export_arguments arguments = {.cli = cli};

    argp_parse(&parser, argc, argv, 0, NULL, &arguments);
    int connected = cli_connect(cli, 0);
    if (connected != CLI_DONE)
        return connected;
    int rc = okv_scan(cli->handle, write_item, NULL);
    int status = cli_flush("export");
    if (rc != OKV_OK && rc != SCAN_STOPPED)
        status = cli_fail(cli, "export", NULL, 0, rc);
    return status;
}
