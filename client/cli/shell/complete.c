/* Completion of a line of the shell: names of commands, and options as their --help has them. */
#include "client/cli/shell/complete.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/args.h"
#include "client/cli/commands.h"

/* The next of names that end with a newline each, that begins with the word; or NULL. */
static const char *next_name(const char *names, const char *word, size_t length)
{
    while (*names && strncmp(word, names, length) != 0)
        names += strcspn(names, "\n") + 1;
    return *names ? names : NULL;
}

/* Names that begin with the word: how many, and how many characters they share. */
static size_t find_names(const char *names, const char *word, size_t length, const char **name,
                         size_t *shared)
{
    const char *other = next_name(names, word, length);
    size_t count = 0;

    *name = other;
    *shared = other ? strcspn(other, "\n") : 0;
    for (; other; other = next_name(strchr(other, '\n') + 1, word, length)) {
        size_t same = 0;
        while (same < *shared && other[same] == (*name)[same])
            same++;
        *shared = same;
        count++;
    }
    return count;
}

static void list_names(const char *names, const char *word, size_t length)
{
    putchar('\n');
    for (names = next_name(names, word, length); names;
         names = next_name(strchr(names, '\n') + 1, word, length))
        printf("%.*s  ", (int)strcspn(names, "\n"), names);
    putchar('\n');
    fflush(stdout);
}

static void write_commands(FILE *out)
{
    const char *name;

    for (size_t i = 0; (name = command_name(i)); i++)
        fprintf(out, "%s\n", name);
}

/* Of the lines of a --help that begin with one: "  -o, --output=FILE", "      --long". */
static void write_options(const char *help, FILE *out)
{
    for (const char *line = help; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t indent = strspn(line, " ");
        const char *option = line + indent;
        if (option[0] == '-' && option[1] != '-' && option[1] && option[2] == ',')
            option += strlen("-o, ");
        size_t length = strspn(option, "abcdefghijklmnopqrstuvwxyz-");
        if (indent >= 2 && indent <= 6 && strncmp(option, "--", 2) == 0)
            fprintf(out, "%.*s%s\n", (int)length, option, option[length] == '=' ? "=" : "");
    }
}

/* To free(). */
static char *help_of(char *name)
{
    char help[] = "--help", *argv[] = {name, help, NULL}, *text = NULL;
    FILE *terminal = stdout;
    struct cli cli = {0};
    size_t size = 0;

    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    stdout = out; /* where argp writes */
    command_run(&cli, 2, argv);
    stdout = terminal;
    fclose(out);
    return text;
}

/* The completions of the last word in line[0..length), to free(). NULL: none are known. */
static char *names_for(const char *line, size_t length, bool is_first)
{
    char command[32], *names = NULL, *help = NULL;
    size_t size = 0;

    snprintf(command, sizeof command, "%.*s", (int)length, line);
    command[strcspn(command, " ")] = '\0';
    if (!is_first && (!command_exists(command) || !(help = help_of(command))))
        return NULL;
    FILE *out = open_memstream(&names, &size);
    if (out && is_first)
        write_commands(out);
    else if (out)
        write_options(help, out);
    if (out)
        fclose(out);
    free(help);
    return names;
}

static unsigned char complete_word(EditLine *line, const char *names, const char *word,
                                   size_t length)
{
    const char *name;
    char rest[64];
    size_t shared;
    size_t count = find_names(names, word, length, &name, &shared);

    if (count == 0)
        return CC_ERROR;
    if (count > 1 && shared == length) {
        list_names(names, word, length);
        return CC_REDISPLAY;
    }
    snprintf(rest, sizeof rest, "%.*s%s", (int)(shared - length), name + length,
             count == 1 && name[shared - 1] != '=' ? " " : "");
    return el_insertstr(line, rest) ? CC_ERROR : CC_REFRESH;
}

unsigned char complete_line(EditLine *line, int key)
{
    const LineInfo *info = el_line(line);
    const char *begin = info->buffer, *word = info->cursor;

    (void)key;
    if (info->cursor - begin >= 5 && memcmp(begin, "help ", 5) == 0)
        begin += 5;
    while (word > begin && word[-1] != ' ')
        word--;
    size_t length = (size_t)(info->cursor - word);
    if (word != begin && (length == 0 || word[0] != '-'))
        return CC_ERROR;
    char *names = names_for(begin, (size_t)(info->cursor - begin), word == begin);
    unsigned char result = names ? complete_word(line, names, word, length) : CC_ERROR;
    free(names);
    return result;
}
