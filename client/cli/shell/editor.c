#include "client/cli/shell/editor.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "client/cli/run.h"
#include "client/cli/shell/complete.h"
#include "client/cli/shell/history_file.h"

/* A signal that came just before a wait does not end it. */
#define LOOK_MS 1000

struct editor {
    FILE *terminal; /* stdout would show the sequences that move the cursor */
    EditLine *line;
    History *history;
    const char *prompt;
    bool goes_on;
    bool has_lost; /* the line: bytes that are no characters */
    char *entry;   /* the line and the previous ones that it continues */
    struct history_file file;
};

/* ---- keys --------------------------------------------------------------- */

/* Global, as signals are: the last one about the terminal, and one that ends okv. */
static volatile sig_atomic_t caught, ended_by;

static const int signals[] = {SIGHUP, SIGTERM, SIGCONT, SIGWINCH};
#define SIGNAL_COUNT (sizeof signals / sizeof *signals)

static bool is_end(int signal)
{
    return signal == SIGHUP || signal == SIGTERM;
}

static void catch_signal(int signal)
{
    if (is_end(signal))
        ended_by = signal;
    else
        caught = signal;
}

/* Catches the signals that concern the terminal, unless they are ignored. */
static void begin_signals(struct sigaction *before)
{
    const struct sigaction action = {.sa_handler = catch_signal};

    caught = 0;
    for (size_t i = 0; i < SIGNAL_COUNT; i++) {
        sigaction(signals[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
}

/* A signal that ends the process does so now, with the terminal restored. */
static void end_signals(const struct sigaction *before)
{
    for (size_t i = 0; i < SIGNAL_COUNT; i++)
        sigaction(signals[i], &before[i], NULL);
    if (ended_by)
        raise(ended_by);
}

/* The terminal has another size, or was another program's meanwhile. */
static void adapt(EditLine *line, int signal)
{
    if (signal == SIGCONT) {
        el_set(line, EL_PREP_TERM, 0);
        el_set(line, EL_PREP_TERM, 1);
        el_set(line, EL_REFRESH);
    }
    el_resize(line);
}

/* Returns 1; 0 at the end; -1: ^C, a signal that ends the process, or a failure. */
static int read_byte(EditLine *line, char *byte)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

    for (;;) {
        int signal = caught;
        if (cli_interrupted() || ended_by)
            return -1;
        if (signal) {
            caught = 0;
            adapt(line, signal);
        }
        int ready = poll(&input, 1, LOOK_MS);
        if (ready == 0 || (ready < 0 && errno == EINTR))
            continue;
        ssize_t got = read(STDIN_FILENO, byte, 1);
        if (got >= 0 || errno != EINTR)
            return (int)got;
    }
}

/* Unlike libedit's own, it notes bytes that are no characters. */
static int read_character(EditLine *line, wchar_t *character)
{
    struct editor *editor = NULL;
    mbstate_t state = {0};
    char byte;

    el_get(line, EL_CLIENTDATA, &editor);
    for (;;) {
        int got = read_byte(line, &byte);
        if (got <= 0) {
            *character = L'\0';
            return got;
        }
        size_t length = mbrtowc(character, &byte, 1, &state);
        if (length == (size_t)-2)
            continue;
        if (length != (size_t)-1)
            return 1;
        editor->has_lost = true;
        state = (mbstate_t){0};
        if ((unsigned char)byte < 0x80) { /* a key after an incomplete character */
            *character = (unsigned char)byte;
            return 1;
        }
    }
}

/* ---- lines -------------------------------------------------------------- */

static const char *prompt_of(EditLine *line)
{
    struct editor *editor = NULL;

    el_get(line, EL_CLIENTDATA, &editor);
    return editor->goes_on ? "> " : editor->prompt;
}

static void recall(void *user, const char *entry)
{
    struct editor *editor = user;
    HistEvent event;

    history(editor->history, &event, H_ENTER, entry);
}

static bool set_up(struct editor *editor)
{
    HistEvent event;

    editor->terminal = fdopen(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0), "w");
    if (!editor->terminal)
        return false;
    editor->line = el_init("okv", stdin, editor->terminal, editor->terminal);
    editor->history = history_init();
    if (!editor->line || !editor->history)
        return false;
    history(editor->history, &event, H_SETSIZE, HISTORY_ENTRIES);
    history(editor->history, &event, H_SETUNIQUE, 1);
    el_set(editor->line, EL_CLIENTDATA, editor);
    el_set(editor->line, EL_PROMPT, prompt_of);
    el_set(editor->line, EL_EDITOR, "emacs");
    el_set(editor->line, EL_HIST, history, editor->history);
    /* Of wide characters: el_set() leaks its copies of the others. */
    el_wset(editor->line, EL_GETCFN, read_character);
    el_wset(editor->line, EL_ADDFN, L"okv-complete", L"Complete a command or an option",
            complete_line);
    el_set(editor->line, EL_BIND, "^I", "okv-complete", NULL);
    el_set(editor->line, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(editor->line, NULL); /* ~/.editrc */
    return true;
}

/* The encoding of the locale, or UTF-8 if it names none. */
static void choose_encoding(void)
{
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "ANSI_X3.4-1968") == 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

bool editor_create(const char *prompt, bool has_history, struct editor **out)
{
    struct editor *editor = calloc(1, sizeof *editor);

    choose_encoding();
    *out = editor;
    if (!editor)
        return false;
    editor->prompt = prompt;
    if (!set_up(editor))
        return false;
    if (has_history)
        history_file_init(&editor->file, recall, editor);
    return true;
}

void editor_destroy(struct editor *editor)
{
    if (!editor)
        return;
    if (editor->line)
        el_end(editor->line);
    if (editor->history)
        history_end(editor->history);
    if (editor->terminal)
        fclose(editor->terminal);
    free(editor->entry);
    free(editor);
}

/* Makes the line the entry, or adds it. */
static void note_line(struct editor *editor, const char *line)
{
    char *entry = NULL;

    if (asprintf(&entry, "%s%s", editor->goes_on && editor->entry ? editor->entry : "", line) < 0)
        entry = NULL;
    free(editor->entry);
    editor->entry = entry;
}

static bool is_whole(const struct editor *editor, const char *line)
{
    return !editor->has_lost && line[0] && line[strlen(line) - 1] == '\n';
}

enum line_read editor_read(struct editor *editor, bool goes_on, const char **line)
{
    struct sigaction before[SIGNAL_COUNT];
    int count = 0;

    editor->goes_on = goes_on;
    editor->has_lost = false;
    cli_interrupt_catch(false);
    begin_signals(before);
    *line = el_gets(editor->line, &count);
    end_signals(before);
    bool was_interrupted = cli_interrupted();
    cli_interrupt_clear();
    if (was_interrupted || !*line || count <= 0) {
        putchar('\n');
        return was_interrupted ? LINE_DROPPED : LINE_NONE;
    }
    if (!is_whole(editor, *line)) {
        fprintf(stderr,
                "okv: shell: the line has bytes that are no characters in %s: nothing was done: "
                "write it in a file, and give okv shell that\n",
                nl_langinfo(CODESET));
        return LINE_DROPPED;
    }
    note_line(editor, *line);
    return LINE_READ;
}

void editor_keep(struct editor *editor)
{
    const char *entry = editor->entry;

    /* As in other shells: a command that begins with a space is not kept. */
    if (!entry || entry[0] == ' ' || entry[0] == '\n')
        return;
    recall(editor, entry);
    history_file_add(&editor->file, entry);
}
