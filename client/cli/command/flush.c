/* okv flush: removes everything, and so asks first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/args.h"
#include "client/cli/output.h"

enum { OPTION_YES = 0x900 };

struct flush_arguments {
    struct cli *cli;
    bool yes;
};

static const struct argp_option flush_options[] = {
    {"yes", OPTION_YES, NULL, 0, "Do not ask", 0},
    {0},
};

static error_t parse_flush(int key, char *text, struct argp_state *state)
{
    struct flush_arguments *arguments = state->input;

    cli_parse_child(key, state, arguments->cli);
    switch (key) {
    case OPTION_YES:
        arguments->yes = true;
        return 0;
    case ARGP_KEY_ARG:
        return cli_usage(
            state, "unexpected argument '%s': flush removes every item; for one give okv del %s",
            text, text);
    case ARGP_KEY_END:
        if (!arguments->yes && !isatty(STDIN_FILENO))
            return cli_usage(state,
                             "this removes every item, and there is no terminal to ask at: give "
                             "--yes if that is what you want");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* True when the answer at the terminal is yes. */
static bool confirm(const struct cli *cli)
{
    char *answer = NULL;
    size_t size = 0;

    fprintf(stderr, "Remove every item of %s? [y/N] ", cli->server);
    bool answered = getline(&answer, &size, stdin) > 0;
    bool yes = answered && (answer[0] == 'y' || answer[0] == 'Y');
    if (!answered)
        putc('\n', stderr);
    free(answer);
    return yes;
}

int cli_flush(struct cli *cli, int argc, char **argv)
{
    static const struct argp parser = {
        .options = flush_options,
        .parser = parse_flush,
        .doc = "Remove every item.\v"
               "Asks first when standard input is a terminal, and refuses without --yes when it "
               "is not. Items that are put meanwhile may go too. Exit status 1 says that the "
               "answer was not yes; nothing was removed.\n\n"
               "Examples:\n  okv flush\n  okv -s local:///tmp/test.sock flush --yes",
        .children = cli_common_options};
    struct flush_arguments arguments = {.cli = cli};

    int status = cli_begin(cli, &parser, argc, argv, &arguments);
    if (status != CLI_DONE)
        return status;
    if (!arguments.yes && !confirm(cli)) {
        fputs("okv: flush: nothing was removed\n", stderr);
        return CLI_MISS;
    }
    int rc = okv_flush(cli->handle);
    return rc == OKV_OK ? CLI_DONE : cli_fail(cli, "flush", NULL, 0, rc);
}
