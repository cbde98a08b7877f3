/* okv shell: the arguments; shell/ runs it. */
#include <stdio.h>

#include "client/cli/args.h"

enum { OPTION_NO_HISTORY = 0xe00 };

struct shell_arguments {
    struct cli *cli;
    bool keeps_going, no_history;
};

static const struct argp_option shell_options[] = {
    {"keep-going", 'k', NULL, 0, "In a script, go on after a command that failed", 0},
    {"no-history", OPTION_NO_HISTORY, NULL, 0, "Read and write no file of lines", 0},
    {0},
};

static error_t parse_shell(int key, char *text, struct argp_state *state)
{
    struct shell_arguments *arguments = state->input;

    cli_parse_child(key, state, arguments->cli);
    switch (key) {
    case 'k':
        arguments->keeps_going = true;
        return 0;
    case OPTION_NO_HISTORY:
        arguments->no_history = true;
        return 0;
    case ARGP_KEY_ARG:
        return cli_usage(
            state, "unexpected argument '%s': a shell reads commands from standard input", text);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int cli_shell(struct cli *cli, int argc, char **argv)
{
    static const struct argp parser = {
        .options = shell_options,
        .parser = parse_shell,
        .doc =
            "Run commands, one a line, on one connection: without connecting anew for each.\v"
            "The commands are those of okv, with the same words, options and output, except that "
            "a value of get ends with a newline; help lists them. Words are quoted as in sh: "
            "single "
            "quotes, double quotes, backslash; there are "
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
            "  printf '%s\\n' 'incr visits' 'get visits' | okv shell",
        .children = cli_common_options};
    struct shell_arguments arguments = {.cli = cli};
    int status = cli_parse(&parser, 0, argc, argv, &arguments);

    if (status != CLI_DONE)
        return status;
    if (cli->shared) {
        fputs("okv: shell: this is one already: give it a command, or see `help'\n", stderr);
        return CLI_USAGE;
    }
    return cli->shell(cli, arguments.keeps_going, !arguments.no_history);
}
