#include "client/cli/editor.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/commands.h"

#define HISTORY_LINES 1000

struct editor {
    EditLine *line;
    History *history;
    const char *prompt;
    bool goes_on;
    char file[PATH_MAX]; /* of the history; "": none */
};

/* ---- completion --------------------------------------------------------- */

/* Names that begin with the word: how many, and how many characters they share. */
static size_t find_names(const char *word, size_t length, const char **name, size_t *shared)
{
    size_t count = 0;
    const char *other;

    for (size_t i = 0; (other = command_name(i)); i++) {
        size_t same = 0;
        if (strncmp(word, other, length) != 0)
            continue;
        if (count++ == 0) {
            *name = other;
            *shared = strlen(other);
        }
        while (same < *shared && other[same] == (*name)[same])
            same++;
        *shared = same;
    }
    return count;
}

static void list_names(const char *word, size_t length)
{
    const char *name;

    putchar('\n');
    for (size_t i = 0; (name = command_name(i)); i++)
        if (strncmp(word, name, length) == 0)
            printf("%s  ", name);
    putchar('\n');
    fflush(stdout);
}

/* Completes the first word of the line, and the one behind `help`. */
static unsigned char complete(EditLine *line, int key)
{
    const LineInfo *info = el_line(line);
    const char *word = info->buffer, *name = NULL;
    char rest[64];
    size_t shared = 0;

    (void)key;
    if (strncmp(word, "help ", 5) == 0)
        word += 5;
    if (info->cursor < word || memchr(word, ' ', (size_t)(info->cursor - word)))
        return CC_ERROR;
    size_t length = (size_t)(info->cursor - word);
    size_t count = find_names(word, length, &name, &shared);
    if (count == 0)
        return CC_ERROR;
    if (count > 1 && shared == length) {
        list_names(word, length);
        return CC_REDISPLAY;
    }
    snprintf(rest, sizeof rest, "%.*s%s", (int)(shared - length), name + length,
             count == 1 ? " " : "");
    return el_insertstr(line, rest) ? CC_ERROR : CC_REFRESH;
}

/* ---- history ------------------------------------------------------------ */

/* Creates the directories of a path, for this user alone. */
static int make_directories(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int failed = mkdir(path, S_IRWXU) && errno != EEXIST;
        *slash = '/';
        if (failed)
            return -1;
    }
    return 0;
}

static void name_file(struct editor *editor)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int length = 0;

    if (state && state[0] == '/') /* a relative one is to be ignored */
        length = snprintf(editor->file, sizeof editor->file, "%s/okv/history", state);
    else if (home && home[0] == '/')
        length = snprintf(editor->file, sizeof editor->file, "%s/.local/state/okv/history", home);
    if (length >= (int)sizeof editor->file)
        editor->file[0] = '\0';
}

static void save_history(struct editor *editor)
{
    HistEvent event;
    FILE *file = NULL;
    int fd = -1;

    if (make_directories(editor->file) == 0)
        fd = open(editor->file, O_WRONLY | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd >= 0 && ftruncate(fd, 0) == 0)
        file = fdopen(fd, "w");
    /* Lines may have values: libedit has the file for its owner alone, also one that was there. */
    bool failed = !file || history(editor->history, &event, H_SAVE_FP, file) < 0;
    if (file ? fclose(file) : fd >= 0 && close(fd))
        failed = true;
    if (failed)
        fprintf(stderr, "okv: shell: cannot write '%s': %s: the history is not kept\n",
                editor->file, strerror(errno));
}

static void remember(struct editor *editor, const char *line)
{
    HistEvent event;

    /* As in other shells: a line that begins with a space is not kept. */
    if (line[0] != ' ' && line[0] != '\n')
        history(editor->history, &event, editor->goes_on ? H_APPEND : H_ENTER, line);
}

/* ---- lines -------------------------------------------------------------- */

static const char *prompt_of(EditLine *line)
{
    struct editor *editor = NULL;

    el_get(line, EL_CLIENTDATA, &editor);
    return editor->goes_on ? "> " : editor->prompt;
}

static bool set_up(struct editor *editor)
{
    HistEvent event;

    editor->line = el_init("okv", stdin, stdout, stderr);
    editor->history = history_init();
    if (!editor->line || !editor->history)
        return false;
    history(editor->history, &event, H_SETSIZE, HISTORY_LINES);
    history(editor->history, &event, H_SETUNIQUE, 1);
    el_set(editor->line, EL_CLIENTDATA, editor);
    el_set(editor->line, EL_PROMPT, prompt_of);
    el_set(editor->line, EL_EDITOR, "emacs");
    el_set(editor->line, EL_HIST, history, editor->history);
    /* Of wide characters: el_set() leaks its copies of the others. */
    el_wset(editor->line, EL_ADDFN, L"okv-complete", L"Complete the name of a command", complete);
    el_set(editor->line, EL_BIND, "^I", "okv-complete", NULL);
    el_set(editor->line, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(editor->line, NULL); /* ~/.editrc */
    if (editor->file[0])
        history(editor->history, &event, H_LOAD, editor->file);
    return true;
}

bool editor_create(const char *prompt, bool has_history, struct editor **out)
{
    struct editor *editor = calloc(1, sizeof *editor);

    setlocale(LC_CTYPE, ""); /* bytes of a line are characters of the terminal */
    *out = editor;
    if (!editor)
        return false;
    editor->prompt = prompt;
    if (has_history)
        name_file(editor);
    return set_up(editor);
}

void editor_destroy(struct editor *editor)
{
    if (!editor)
        return;
    if (editor->file[0] && editor->history)
        save_history(editor);
    if (editor->line)
        el_end(editor->line);
    if (editor->history)
        history_end(editor->history);
    free(editor);
}

const char *editor_read(struct editor *editor, bool goes_on)
{
    int count = 0;

    editor->goes_on = goes_on;
    const char *line = el_gets(editor->line, &count);
    if (!line || count <= 0) {
        putchar('\n');
        return NULL;
    }
    remember(editor, line);
    return line;
}
