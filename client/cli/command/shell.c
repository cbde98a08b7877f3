/* okv shell: the arguments; shell/ runs it. */
#include <stdio.h>

#include "client/cli/args.h"

struct shell_arguments {
    struct cli *cli;
    bool keeps_going, no_history;
};

static const struct okv_option shell_options[] = {
    {"keep-going", 'k', NULL, .help = "In a script, go on after a command that failed",
     CLI_FLAG(struct shell_arguments, keeps_going)},
    {"no-history", 0, NULL, .help = "Read and write no file of lines",
     CLI_FLAG(struct shell_arguments, no_history)},
    {0},
};

int cli_shell(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .options = shell_options,
        .unexpected = "unexpected argument '%s': a shell reads commands from standard input",
        .doc =
            "Run commands, one a line, on one connection: without connecting anew for each.\v"
            "The commands are those of okv, with the same words, options and output, except that "
            "a value of get ends with a newline; help lists them. Words are quoted as in sh: "
            "single quotes, double quotes, backslash; there are "
            "no variables, pipes and redirections. A line that begins with # is a comment. A "
            "command that names another server, database, user or timeout connects on its own, "
            "as does one with a --depth above 128.\n\n"
            "On a terminal lines are edited; ^C ends a command, a second one okv; ^D, exit or quit "
            "end the shell, with status 0. Lines are kept in $XDG_STATE_HOME/okv/history, else "
            "~/.local/state/okv/history, except commands that begin with a space.\n\n"
            "When standard input or output is no terminal, standard input is a script. A command "
            "that could not be done (status 2 or 3) ends it unless -k is given; the exit status is "
            "the highest of a command. A command that reads standard input takes the rest of the "
            "script, and ends it even if it fails.\n\n"
            "Examples:\n  okv shell\n  okv shell <commands\n"
            "  printf '%s\\n' 'incr visits' 'get visits' | okv shell"};
    struct shell_arguments arguments = {.cli = cli};
    int status = cli_read(&parser, argc, argv, &arguments);

    if (status != CLI_DONE)
        return status;
    if (cli->shared) {
        fputs("okv: shell: this is one already: give it a command, or see `help'\n", stderr);
        return CLI_USAGE;
    }
    return cli->shell(cli, arguments.keeps_going, !arguments.no_history);
}
