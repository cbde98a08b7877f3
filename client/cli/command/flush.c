/* okv flush: removes everything, and so asks first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/args.h"
#include "client/cli/output.h"

struct flush_arguments {
    struct cli *cli;
    bool yes;
};

static const struct okv_option flush_options[] = {
    {"yes", 0, NULL, .help = "Do not ask", CLI_FLAG(struct flush_arguments, yes)},
    {0},
};

static error_t check_flush(struct argp_state *state, void *input)
{
    const struct flush_arguments *arguments = input;

    if (!arguments->yes && !isatty(STDIN_FILENO))
        return cli_usage(state, "this removes every item, and there is no terminal to ask at: give "
                                "--yes if that is what you want");
    return 0;
}

int cli_flush(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .options = flush_options,
        .unexpected =
            "unexpected argument '%1$s': flush removes every item; for one give okv del %1$s",
        .check = check_flush,
        .doc = "Remove every item.\v"
               "Asks first when standard input is a terminal, and refuses without --yes when it "
               "is not. Items that are put meanwhile may go too. Exit status 1 says that the "
               "answer was not yes; nothing was removed.\n\n"
               "Examples:\n  okv flush\n  okv -s local:///tmp/test.sock flush --yes"};
    struct flush_arguments arguments = {.cli = cli};
    char question[256];

    int status = cli_begin(cli, &parser, argc, argv, &arguments);
    if (status != CLI_DONE)
        return status;
    snprintf(question, sizeof question, "Remove every item of %.200s?", cli->server);
    if (!arguments.yes && !cli_confirm(question)) {
        fputs("okv: flush: nothing was removed\n", stderr);
        return CLI_MISS;
    }
    int rc = okv_flush(cli->handle);
    return rc == OKV_OK ? CLI_DONE : cli_fail(cli, "flush", NULL, 0, rc);
}
