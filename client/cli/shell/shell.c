/* Many commands on one connection, from a terminal or a script. */
#include "client/cli/shell/shell.h"

#include <errno.h>
#include <histedit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/commands.h"
#include "client/cli/output.h"
#include "client/cli/shell/editor.h"
#include "client/cli/tsv.h"

struct shell {
    struct cli *cli;
    bool keeps_going, has_history;

    okv *handle; /* what the commands share; NULL: the next one connects */
    Tokenizer *words;
    struct editor *editor; /* NULL: lines come from a script */
    char *text;            /* the line of the script */
    size_t size;
    uint64_t line;  /* its number */
    uint64_t first; /* of the command */
    bool has_ended;
    int status; /* the worst so far */
};

/* ---- lines -------------------------------------------------------------- */

/* Prints an error of the shell, or of this line of the script. */
static void fail(struct shell *shell, int status, uint64_t line, const char *what)
{
    fputs("okv: shell: ", stderr);
    if (line)
        fprintf(stderr, "line %llu: ", (unsigned long long)line);
    fprintf(stderr, "%s\n", what);
    shell->status = cli_worse(shell->status, status);
}

static void end_after_failure(struct shell *shell, const char *why)
{
    fprintf(stderr, "okv: shell: stopped at line %llu%s\n", (unsigned long long)shell->first, why);
    shell->has_ended = true;
}

/* Adds a byte to the line. */
static bool add_byte(struct shell *shell, size_t used, char byte)
{
    if (used == shell->size) {
        size_t size = shell->size ? 2 * shell->size : 256;
        char *larger = realloc(shell->text, size);
        if (!larger) {
            fail(shell, CLI_FAILED, 0, "out of memory");
            return false;
        }
        shell->text = larger;
        shell->size = size;
    }
    shell->text[used] = byte;
    return true;
}

/* By single bytes: the rest may be input of a command. Returns 1; 0 at the end;
 * -1: it failed. */
static int read_byte(struct shell *shell, char *byte)
{
    ssize_t got;

    do
        got = read(STDIN_FILENO, byte, 1);
    while (got < 0 && errno == EINTR && !cli_interrupted());
    if (got < 0 && !cli_interrupted()) {
        fprintf(stderr, "okv: shell: cannot read stdin: %s\n", strerror(errno));
        shell->status = cli_worse(shell->status, CLI_FAILED);
    }
    return (int)got;
}

/* A line of the script, with its newline even if that is missing. */
static enum line_read read_script(struct shell *shell, const char **line)
{
    bool has_nul = false;
    size_t used = 0;
    char byte = '\0';
    int got = 1;

    cli_interrupt_catch(true);
    while (byte != '\n' && (got = read_byte(shell, &byte)) > 0) {
        has_nul |= byte == '\0';
        if (!add_byte(shell, used++, byte))
            return LINE_NONE;
    }
    if (got < 0 || used == 0)
        return LINE_NONE;
    shell->line++;
    used -= byte == '\n';
    used -= used > 0 && shell->text[used - 1] == '\r';
    if (!add_byte(shell, used, '\n') || !add_byte(shell, used + 1, '\0'))
        return LINE_NONE;
    *line = shell->text + (shell->line == 1 ? tsv_mark_length(shell->text, used) : 0);
    if (!has_nul)
        return LINE_READ;
    fail(shell, CLI_USAGE, shell->line, "it has a NUL: it is no text");
    return LINE_DROPPED;
}

static enum line_read read_line(struct shell *shell, bool goes_on, const char **line)
{
    return shell->editor ? editor_read(shell->editor, goes_on, line) : read_script(shell, line);
}

/* True if the shell continues after an invalid line; `is_open`: a quote is still open. */
static bool skip_line(struct shell *shell, bool is_open)
{
    if (shell->editor || (shell->keeps_going && !is_open))
        return true;
    end_after_failure(shell, is_open ? ": its quote is left open" : "; -k goes on after a failure");
    return false;
}

/* Reads a line, and further ones while a quote is open, as words. False: none are left. */
static bool read_words(struct shell *shell, int *count, const char ***words)
{
    const char *line = NULL;
    int rest = 0;

    tok_reset(shell->words);
    *count = 0;
    enum line_read outcome = read_line(shell, false, &line);
    shell->first = shell->line;
    bool is_comment = outcome == LINE_READ && line[strspn(line, " \t")] == '#';
    while (!is_comment && outcome == LINE_READ &&
           (rest = tok_str(shell->words, line, count, words)) > 0)
        outcome = read_line(shell, true, &line);
    if (outcome == LINE_DROPPED) {
        *count = 0;
        return skip_line(shell, rest > 0);
    }
    if (rest > 0 && !cli_interrupted())
        fail(shell, CLI_USAGE, shell->first,
             "a quote or a backslash at the end is left open: close it");
    else if (rest < 0)
        fail(shell, CLI_FAILED, 0, "out of memory");
    if (outcome == LINE_READ && rest == 0 && shell->editor)
        editor_keep(shell->editor);
    return outcome == LINE_READ && rest == 0;
}

/* ---- commands ----------------------------------------------------------- */

static int print_help(void)
{
    commands_print(stdout);
    puts(
        "\nhelp COMMAND, or COMMAND --help, explains a command; exit, quit or ^D ends the shell; "
        "^C ends\na command. Words are quoted as in sh: 'as it is', \"with blanks\", \\ before one "
        "character.");
    return cli_output_end("help");
}

static bool is_end(const char *word)
{
    return strcmp(word, "exit") == 0 || strcmp(word, "quit") == 0;
}

/* True when the words ask for help about the shell itself: help, --help, help exit. */
static bool ask_for_help(int count, const char **words)
{
    bool has_help = false;

    for (int i = 0; i < count; i++) {
        if (strcmp(words[i], "help") == 0 || strcmp(words[i], "--help") == 0 ||
            strcmp(words[i], "-h") == 0 || strcmp(words[i], "-?") == 0)
            has_help = true;
        else if (!is_end(words[i]))
            return false;
    }
    return has_help;
}

/* Runs a command, on the connection that all share unless its options name another. */
static int run_command(struct shell *shell, int count, const char **words)
{
    char **argv = calloc((size_t)count + 2, sizeof *argv);
    struct cli cli = *shell->cli;

    if (!argv) {
        fputs("okv: shell: out of memory\n", stderr);
        return CLI_FAILED;
    }
    argv[0] = (char *)"okv";
    for (int i = 0; i < count; i++)
        argv[i + 1] = (char *)words[i];
    cli.counters = false;
    if (shell->editor)
        cli_interrupt_catch(true);
    else
        cli_interrupt_release(); /* commands that report how far they got catch it */
    int status = command_line_run(&cli, count + 1, argv);
    cli.took_stdin |= status == CLI_USAGE && command_may_read(count, words);
    shell->has_ended = cli.took_stdin && !shell->editor; /* the rest of the script was its input */
    free(argv);
    return status;
}

static int run_words(struct shell *shell, int count, const char **words)
{
    if (ask_for_help(count, words))
        return print_help();
    if (!is_end(words[0]))
        return run_command(shell, count, words);
    if (count > 1) {
        fprintf(stderr, "okv: %s: unexpected argument '%s': %s stands alone\n", words[0], words[1],
                words[0]);
        return CLI_USAGE;
    }
    shell->has_ended = true;
    return CLI_DONE;
}

/* Resets the state that a command left, for the next one. */
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
    if (status < CLI_USAGE || shell->editor || cli_interrupted())
        return;
    if (shell->has_ended)
        end_after_failure(shell, ": what follows was for the command to read");
    else if (!shell->keeps_going)
        end_after_failure(shell, "; -k goes on after a failure");
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
        (is_interactive && !editor_create(prompt, shell->has_history, &shell->editor))) {
        fail(shell, CLI_FAILED, 0, "out of memory");
        goto free_all;
    }
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

int shell_run(struct cli *cli, bool keeps_going, bool has_history)
{
    struct shell shell = {.cli = cli, .keeps_going = keeps_going, .has_history = has_history};

    cli->shared = &shell.handle;
    cli->is_own = false;
    int status = cli_connect(cli, 0);
    cli->handle = NULL; /* each command takes it */
    if (status == CLI_DONE)
        status = run_all(&shell);
    cli->handle = shell.handle;
    cli->shared = NULL;
    return status;
}
