/* okv shell: many commands on one connection, from a terminal or a script. */
#include <errno.h>
#include <histedit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/commands.h"
#include "client/cli/editor.h"

enum { OPTION_NO_HISTORY = 0xe00 };

struct shell {
    struct cli *cli;
    bool keeps_going, no_history;

    okv *handle; /* what the commands share; NULL: the next one connects */
    Tokenizer *words;
    struct editor *editor; /* NULL: lines come from a script */
    char *text;            /* the line of the script */
    size_t size;
    uint64_t line; /* its number */
    bool has_ended;
    int status; /* the worst so far */
};

static const struct argp_option shell_options[] = {
    {"keep-going", 'k', NULL, 0, "In a script, go on after a command that failed", 0},
    {"no-history", OPTION_NO_HISTORY, NULL, 0, "Read and write no file of lines", 0},
    {0},
};

static error_t parse_shell(int key, char *text, struct argp_state *state)
{
    struct shell *shell = state->input;

    cli_parse_child(key, state, shell->cli);
    switch (key) {
    case 'k':
        shell->keeps_going = true;
        return 0;
    case OPTION_NO_HISTORY:
        shell->no_history = true;
        return 0;
    case ARGP_KEY_ARG:
        return cli_usage(
            state, "unexpected argument '%s': a shell reads commands from standard input", text);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- lines -------------------------------------------------------------- */

static void fail(struct shell *shell, int status, const char *what)
{
    fprintf(stderr, "okv: shell: %s\n", what);
    shell->status = cli_worse(shell->status, status);
}

/* Adds a byte to the line. */
static bool add_byte(struct shell *shell, size_t used, char byte)
{
    if (used == shell->size) {
        size_t size = shell->size ? 2 * shell->size : 256;
        char *larger = realloc(shell->text, size);
        if (!larger) {
            fail(shell, CLI_FAILED, "out of memory");
            return false;
        }
        shell->text = larger;
        shell->size = size;
    }
    shell->text[used] = byte;
    return true;
}

/* By single bytes: what stands behind the line may be a command's to read. Returns 1; 0 at the end;
 * -1: it failed. */
static int read_byte(struct shell *shell, char *byte)
{
    ssize_t got;

    do
        got = read(STDIN_FILENO, byte, 1);
    while (got < 0 && errno == EINTR && !cli_interrupted());
    if (got == 1 && *byte == '\0') {
        fail(shell, CLI_USAGE, "a line has a NUL: it is no text");
        return -1;
    }
    if (got < 0 && !cli_interrupted())
        fail(shell, CLI_FAILED, "cannot read stdin");
    return (int)got;
}

/* A line of the script; NULL: the end, or a failure. */
static const char *read_script(struct shell *shell)
{
    size_t used = 0;
    char byte = '\0';
    int got = 1;

    while (byte != '\n' && (got = read_byte(shell, &byte)) > 0)
        if (!add_byte(shell, used++, byte))
            return NULL;
    shell->line++;
    return got >= 0 && used > 0 && add_byte(shell, used, '\0') ? shell->text : NULL;
}

static const char *read_line(struct shell *shell, bool goes_on)
{
    return shell->editor ? editor_read(shell->editor, goes_on) : read_script(shell);
}

/* Reads a line, and further ones while a quote is open, as words. False: none are left. */
static bool read_words(struct shell *shell, int *count, const char ***words)
{
    const char *line = read_line(shell, false);
    int rest = 0;

    tok_reset(shell->words);
    *count = 0;
    if (line && line[strspn(line, " \t")] == '#')
        return true;
    while (line && (rest = tok_str(shell->words, line, count, words)) > 0)
        line = read_line(shell, true);
    if (!line && shell->editor && cli_interrupted()) {
        cli_interrupt_clear();
        *count = 0;
        return true;
    }
    if (rest > 0)
        fail(shell, CLI_USAGE, "a quote or a backslash at the end is left open: close it");
    else if (rest < 0)
        fail(shell, CLI_FAILED, "out of memory");
    return line && rest == 0;
}

/* ---- commands ----------------------------------------------------------- */

static void print_help(void)
{
    commands_print(stdout);
    puts("\nhelp COMMAND, or COMMAND --help, explains a command; exit, or ^D, ends the shell; ^C "
         "ends a command.\n"
         "Words are quoted as in sh: 'as it is', \"with blanks\", \\ before one character.");
}

/* Runs a command on the connection that all share. */
static int run_command(struct shell *shell, int argc, char **argv)
{
    struct cli cli = *shell->cli;

    cli.counters = false;
    int status = command_run(&cli, argc, argv);
    shell->has_ended = cli.took_stdin && !shell->editor; /* the rest of the script was its input */
    return status;
}

static int run_words(struct shell *shell, int argc, const char **words)
{
    char **argv = calloc((size_t)argc + 1, sizeof *argv);
    int status = CLI_DONE;

    if (!argv) {
        fputs("okv: shell: out of memory\n", stderr);
        return CLI_FAILED;
    }
    for (int i = 0; i < argc; i++)
        argv[i] = (char *)words[i];
    if (strcmp(argv[0], "exit") == 0)
        shell->has_ended = true;
    else if (argc == 1 && strcmp(argv[0], "help") == 0)
        print_help();
    else
        status = run_command(shell, argc, argv);
    free(argv);
    return status;
}

/* What a command left behind does not concern the next one. */
static void clean_up(struct shell *shell)
{
    fflush(stdout);
    clearerr(stdout);
    clearerr(stdin);
    if (!shell->editor) {
        shell->has_ended |= cli_interrupted();
        return;
    }
    if (cli_interrupted())
        putc('\n', stderr);
    cli_interrupt_clear();
}

static void run_line(struct shell *shell, int count, const char **words)
{
    if (count > 0 && strcmp(words[0], "okv") == 0) { /* as outside */
        count--;
        words++;
    }
    if (count == 0)
        return;
    int status = run_words(shell, count, words);
    shell->status = cli_worse(shell->status, status);
    clean_up(shell);
    if (status < CLI_USAGE || shell->editor || shell->keeps_going || shell->has_ended)
        return;
    fprintf(stderr, "okv: shell: stopped at line %llu; -k goes on after a failure\n",
            (unsigned long long)shell->line);
    shell->has_ended = true;
}

/* ---- the shell ---------------------------------------------------------- */

static char *prompt_of(const struct cli *cli)
{
    char *prompt = NULL;

    return asprintf(&prompt, "%s%s%s> ", cli->server, cli->database ? " " : "",
                    cli->database ? cli->database : "") < 0
               ? NULL
               : prompt;
}

static int run_all(struct shell *shell)
{
    bool is_interactive = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    char *prompt = prompt_of(shell->cli);
    const char **words = NULL;
    int count = 0;

    shell->words = tok_init(NULL);
    if (!prompt || !shell->words ||
        (is_interactive && !editor_create(prompt, !shell->no_history, &shell->editor))) {
        fail(shell, CLI_FAILED, "out of memory");
        goto free_all;
    }
    if (is_interactive)
        cli_interrupt_catch(false); /* in a script the commands do */
    while (!shell->has_ended && read_words(shell, &count, &words))
        run_line(shell, count, words);
    if (is_interactive)
        shell->status = CLI_DONE;

free_all:
    editor_destroy(shell->editor);
    if (shell->words)
        tok_end(shell->words);
    free(shell->text);
    free(prompt);
    return shell->status;
}

int cli_shell(struct cli *cli, int argc, char **argv)
{
    static const struct argp parser = {
        .options = shell_options,
        .parser = parse_shell,
        .doc =
            "Run commands, one a line, on one connection: without connecting anew for each.\v"
            "The commands are those of okv, with the same words, options and output; help lists "
            "them. Words are quoted as in sh: single quotes, double quotes, backslash; there are "
            "no variables, pipes and redirections. A line that begins with # is a comment. A "
            "command that names another server, database, user or timeout connects on its own, "
            "as does one with a --depth above 128.\n\n"
            "On a terminal lines are edited; ^C ends a command, ^D or exit the shell. They are "
            "kept in $XDG_STATE_HOME/okv/history, else ~/.local/state/okv/history, but those that "
            "begin with a space.\n\n"
            "When standard input is no terminal, it is a script. A command that could not be done "
            "(status 2 or 3) ends it unless -k is given; the exit status is the highest of a "
            "command. A command that reads standard input takes the rest of the script.\n\n"
            "Examples:\n  okv shell\n  okv shell <commands\n"
            "  printf '%s\\n' 'incr visits' 'get visits' | okv shell",
        .children = cli_common_options};
    struct shell shell = {.cli = cli};

    int status = cli_parse(&parser, 0, argc, argv, &shell);
    if (status != CLI_DONE)
        return status;
    if (cli->shared) {
        fputs("okv: shell: this is one already: give it a command, or see `help'\n", stderr);
        return CLI_USAGE;
    }
    cli->shared = &shell.handle;
    cli->is_own = false;
    status = cli_connect(cli, 0);
    cli->handle = NULL; /* each command takes it */
    if (status == CLI_DONE)
        status = run_all(&shell);
    cli->handle = shell.handle;
    cli->shared = NULL;
    return status;
}
