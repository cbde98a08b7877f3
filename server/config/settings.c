#include "server/config/settings.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "shared/base/regular_file.h"
#include "shared/base/spell_suggest.h"

#define VARIABLE_SIZE 64
#define PREFIX "OKV_"

/* ---- the list ---- */

/* The option of this name, if a file and the environment may have it, or NULL. */
static const struct okv_option *find(const struct okv_settings *settings, const char *name)
{
    const struct okv_option *option = okv_option_find(settings->table, name);

    return option && !(option->flags & OKV_OPTION_COMMAND_LINE) ? option : NULL;
}

int okv_settings_add(struct okv_settings *settings, const struct okv_option *option,
                     const char *text, enum okv_source source, unsigned line)
{
    if (settings->count == OKV_SETTINGS_MAX)
        return OKV_EFULL;
    char *copy = text ? strdup(text) : NULL;
    if (text && !copy)
        return OKV_ENOMEM;
    settings->list[settings->count++] = (struct okv_setting){option, copy, source, line};
    return 0;
}

void okv_settings_fini(struct okv_settings *settings)
{
    while (settings->count > 0)
        free(settings->list[--settings->count].text);
}

bool okv_setting_is_overridden(const struct okv_settings *settings,
                               const struct okv_setting *setting)
{
    for (unsigned i = 0; i < settings->count; i++)
        if (settings->list[i].option == setting->option &&
            settings->list[i].source > setting->source)
            return true;
    return false;
}

const struct okv_setting *okv_setting_of(const struct okv_settings *settings, const char *text)
{
    for (unsigned i = 0; i < settings->count; i++)
        if (settings->list[i].text == text)
            return &settings->list[i];
    return NULL;
}

static void variable_of(const struct okv_option *option, char out[VARIABLE_SIZE])
{
    int length = snprintf(out, VARIABLE_SIZE, PREFIX "%s", option->name);

    for (int i = 0; i < length; i++)
        out[i] = out[i] == '-' ? '_' : (char)toupper((unsigned char)out[i]);
}

void okv_setting_where(const struct okv_settings *settings, const struct okv_setting *setting,
                       char *out, size_t size)
{
    char variable[VARIABLE_SIZE];

    variable_of(setting->option, variable);
    switch (setting->source) {
    case OKV_SOURCE_FILE:
        snprintf(out, size, "%s:%u", settings->file, setting->line);
        break;
    case OKV_SOURCE_ENVIRONMENT:
        snprintf(out, size, "%s", variable);
        break;
    case OKV_SOURCE_ARGUMENTS:
        snprintf(out, size, "the command line");
        break;
    }
}

void okv_config_error(struct okv_settings *settings, const char *format, ...)
{
    const struct okv_setting *setting = settings->current;
    size_t used = 0, size = sizeof settings->wrong;
    va_list args;

    if (settings->wrong[0])
        return;
    settings->is_of_arguments = !setting || setting->source == OKV_SOURCE_ARGUMENTS;
    if (!settings->is_of_arguments) {
        okv_setting_where(settings, setting, settings->wrong, size / 2);
        used = strlen(settings->wrong);
        used += (size_t)snprintf(settings->wrong + used, size - used, ": ");
    }
    va_start(args, format);
    vsnprintf(settings->wrong + used, size - used, format, args);
    va_end(args);
    used = strlen(settings->wrong);
    if (setting && setting->source == OKV_SOURCE_FILE && strpbrk(setting->text, "#;"))
        snprintf(settings->wrong + used, size - used,
                 "; a comment after a value begins with ' ;', and not with # or ;");
}

/* ---- a file ---- */

struct file {
    struct okv_settings *settings;
    FILE *stream;
    unsigned line;
    int rc; /* of the first line that is wrong */
    struct okv_diag *diag;
};

static int wrong(struct file *file, const char *what, const char *name)
{
    if (file->rc == 0)
        file->rc = okv_diag_set(file->diag, OKV_EINVAL, "%s:%u: %s%s", file->settings->file,
                                file->line, what, name);
    return 0;
}

/* Drops what there was no room for. False: there is nothing. */
static bool skip_rest(FILE *stream)
{
    int c = getc(stream);
    bool has_rest = c != '\n' && c != EOF;

    while (c != '\n' && c != EOF)
        c = getc(stream);
    return has_rest;
}

/* Of a line for which inih has no room it would take the rest for another line. */
static char *read_line(char *out, int size, void *user)
{
    struct file *file = user;
    memset(out, 1, (size_t)size);
    char *line = fgets(out, size, file->stream);
    if (!line)
        return NULL;
    file->line++;
    size_t used = strlen(line) + 1;
    if (memchr(line + used, '\0', (size_t)size - used))
        wrong(file, "it has a NUL: it is no text", "");
    if (!strchr(line, '\n') && skip_rest(file->stream) && !strchr("#;", line[strspn(line, " \t")]))
        wrong(file, "the line is too long: make it shorter: ", line);
    return file->rc ? NULL : line;
}

static int wrong_name(struct file *file, const char *name)
{
    struct okv_options_argp options;
    const struct argp parser = {.options = options.list};

    okv_options_argp(file->settings->table, &options);
    const char *nearest = okv_spell_option(&parser, name);
    if (file->rc == 0 && nearest && find(file->settings, nearest))
        file->rc = okv_diag_set(file->diag, OKV_EINVAL, "%s:%u: %s: do you mean %s?",
                                file->settings->file, file->line, name, nearest);
    return wrong(file,
                 "no line for a file; okv-server --print-config lists those that are: ", name);
}

static int take_pair(void *user, const char *section, const char *name, const char *value)
{
    struct file *file = user;
    const struct okv_option *option = find(file->settings, name);

    if (*section)
        return wrong(file, "there are no sections here: take out the line in brackets with ",
                     section);
    if (!option)
        return wrong_name(file, name);
    int rc = okv_settings_add(file->settings, option, value, OKV_SOURCE_FILE, file->line);
    if (rc == OKV_EFULL)
        return wrong(file, "too many lines: ", name);
    file->rc = file->rc ? file->rc : rc;
    return rc == 0;
}

int okv_settings_read_file(struct okv_settings *settings, struct okv_diag *diag)
{
    struct file file = {.settings = settings, .diag = diag};

    struct okv_diag why;
    int fd = okv_trusted_file_open(settings->file, OKV_FILE_OTHERS_READ, &why);
    if (fd < 0)
        return okv_diag_set(diag, fd, "--config: %s", why.text);
    file.stream = fdopen(fd, "r");
    if (!file.stream) {
        close(fd);
        return okv_diag_set(diag, OKV_ENOMEM, "--config %s: %s", settings->file, strerror(errno));
    }
    int line = ini_parse_stream(read_line, &file, take_pair, &file);
    if (ferror(file.stream))
        file.rc = okv_diag_set(diag, OKV_EIO, "--config %s: it cannot be read", settings->file);
    fclose(file.stream);
    if (line != 0 && file.rc == 0)
        return okv_diag_set(diag, OKV_EINVAL, "%s:%d: not NAME = VALUE; # begins a comment",
                            settings->file, line);
    return file.rc;
}

/* ---- the environment ---- */

static int add_each(struct okv_settings *settings, const struct okv_option *option,
                    const char *text)
{
    char *copy = strdup(text), *rest = NULL;
    int rc = copy ? 0 : OKV_ENOMEM;

    for (char *word = copy ? strtok_r(copy, " ", &rest) : NULL; word && rc == 0;
         word = strtok_r(NULL, " ", &rest))
        rc = okv_settings_add(settings, option, word, OKV_SOURCE_ENVIRONMENT, 0);
    free(copy);
    return rc;
}

int okv_settings_read_environment(struct okv_settings *settings)
{
    char variable[VARIABLE_SIZE];
    int rc = 0;

    for (const struct okv_option *option = settings->table; option->name && rc == 0; option++) {
        variable_of(option, variable);
        const char *text = option->flags & OKV_OPTION_COMMAND_LINE ? NULL : getenv(variable);
        if (text && option->flags & OKV_OPTION_LIST)
            rc = add_each(settings, option, text);
        else if (text)
            rc = okv_settings_add(settings, option, text, OKV_SOURCE_ENVIRONMENT, 0);
    }
    return rc;
}
