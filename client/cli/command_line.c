/* The command line of okv(1), and a line of its shell: options, a command, its arguments. */
#include <stdio.h>
#include <string.h>

#include "client/cli/args.h"
#include "client/cli/commands.h"
#include "client/cli/output.h"

static const char about[] =
    "Store and read items of an okv server.\v"
    "Examples:\n"
    "  okv -s rdma://10.0.0.1 put greeting 'hello there'\n"
    "  okv -s rdma://10.0.0.1 get greeting\n"
    "  export OKV_SERVER=local:///run/okv.sock\n"
    "  okv put photo -f photo.jpg && okv get photo -o copy.jpg\n"
    "  okv put session:7 alice --ttl 60s         # expires after a minute\n"
    "  okv --counters get greeting >/dev/null    # one READ for one get\n"
    "  okv export | gzip >items.tsv.gz\n"
    "  okv COMMAND --help\n"
    "\n"
    "?source=ADDRESS in an rdma or ofi URI is the address of this host to connect from, for a host "
    "that has several. ?device=NAME[&port=N][&gid=INDEX] in an rdma URI is the device to leave by, "
    "?tos=N the traffic class of packets. "
    "?group=GROUP is the multicast group in which to look for the server. "
    "?provider=NAME is the libfabric provider that the server has to use.\n"
    "\n"
    "?database=NAME in a URI is the database of that server; without it, --database, else "
    "$OKV_DATABASE, else the one called default.\n"
    "\n"
    "A server with users needs --user and --key-file, else $OKV_USER and $OKV_KEY_FILE.\n"
    "\n"
    "Without -s the server is $OKV_SERVER, else the well-known socket on this host: "
    "/run/okv.sock for root, $XDG_RUNTIME_DIR/okv.sock or /tmp/okv-UID.sock for others; where that "
    "is not there, the one of the packaged service, " OKV_SERVICE_SOCKET ".\n"
    "\n"
    "Exit status: 0 done, 1 the key is not there or a condition was not met, 2 usage, 3 could not "
    "reach the server or finish.";

struct command_line {
    struct cli *cli;
    int first; /* index in argv of the command's name */
};

/* Puts the table of commands between the options and the examples. */
static char *help_filter(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC || !text)
        return (char *)text;

    char *page = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&page, &size);
    if (!out)
        return (char *)text;
    commands_print(out);
    fprintf(out, "\n%s", text);
    fclose(out);
    return page;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct command_line *line = state->input;

    (void)text;
    cli_parse_child(key, state, line->cli);
    switch (key) {
    case ARGP_KEY_ARG:
        line->first = state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS:
        fputs("usage: okv [-s URI] COMMAND [ARGUMENT...]\n\n", stderr);
        commands_print(stderr);
        fputs("\nNew to okv?\n"
              "  okv-server &                    starts a server on this host, where okv finds it\n"
              "  okv -s URI, or OKV_SERVER=URI   is for one elsewhere, as rdma://10.0.0.1\n"
              "  okv doctor                      says what does not work\n"
              "\nTry `okv COMMAND --help', or `okv --help' for options and examples.\n",
              stderr);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int command_line_run(struct cli *cli, int argc, char **argv)
{
    static const struct argp parser = {.parser = parse,
                                       .args_doc = "COMMAND [ARGUMENT...]",
                                       .doc = about,
                                       .help_filter = help_filter};
    static char help[] = "--help";
    struct command_line line = {.cli = cli};

    int status = cli_parse(&parser, ARGP_IN_ORDER, argc, argv, &line);
    if (status == CLI_DONE && line.first == argc - 1 && strcmp(argv[line.first], "help") == 0) {
        argv[line.first] = help;
        status = cli_parse(&parser, ARGP_IN_ORDER, argc, argv, &line);
    }
    if (status == CLI_DONE)
        status = command_run(cli, argc - line.first, argv + line.first);
    return status == CLI_HELPED ? cli_output_end("help") : status;
}
