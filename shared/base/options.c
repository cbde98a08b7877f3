#include "shared/base/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "shared/base/duration.h"
#include "shared/base/error.h"
#include "shared/base/size.h"

#define KEY_FIRST 0x100 /* of options without a letter */
#define LIMITS_TEXT 64

/* What is written; it is cut to the room. */
struct text {
    char *at, *end;
};

__attribute__((format(printf, 2, 3))) static void append(struct text *out, const char *format, ...)
{
    size_t room = (size_t)(out->end - out->at);
    va_list arguments;

    va_start(arguments, format);
    size_t length = (size_t)vsnprintf(out->at, room, format, arguments);
    va_end(arguments);
    out->at += length < room ? length : room - 1;
}

static bool is_end(const struct okv_option *option)
{
    return !option->name && !option->help && !option->letter;
}

const struct okv_option *okv_option_find(const struct okv_option *table, const char *name)
{
    for (; !is_end(table); table++)
        if (table->name && strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

/* ---- fields ---- */

static void store(const struct okv_option *option, void *fields, uint64_t number)
{
    char *field = (char *)fields + option->offset;
    uint32_t half = (uint32_t)number;

    if (option->size == sizeof number)
        memcpy(field, &number, sizeof number);
    else
        memcpy(field, &half, sizeof half);
}

static void store_real(const struct okv_option *option, void *fields, double number)
{
    memcpy((char *)fields + option->offset, &number, sizeof number);
}

bool okv_option_may_be_alone(const struct okv_option *option)
{
    return !option->argument || option->flags & OKV_OPTION_MAY_BE_ALONE;
}

void okv_option_clear(const struct okv_option *option, void *fields)
{
    memset((char *)fields + option->offset, 0, option->size);
}

/* ---- reading ---- */

static bool is_within(const struct okv_option *option, uint64_t number)
{
    return number >= option->least && number <= option->most;
}

static bool read_digits(const char *text, const char **end, uint64_t *number)
{
    char *rest;

    errno = 0;
    *number = strtoull(text, &rest, 10);
    *end = rest;
    return errno == 0 && *text >= '0' && *text <= '9';
}

/* In the option's unit: a number, or a time with a unit of its own. */
static bool read_with_unit(const struct okv_option *option, const char *text, uint64_t *number)
{
    const char *end;

    if (read_digits(text, &end, number) && !*end)
        return true;
    if (!option->unit_ms || okv_duration_parse(text, number) || *number % option->unit_ms)
        return false;
    *number /= option->unit_ms;
    return true;
}

static int read_number(const struct okv_option *option, const char *text, void *fields,
                       struct okv_diag *why)
{
    uint64_t number;

    if (!read_with_unit(option, text, &number) || !is_within(option, number))
        return okv_diag_set(why, OKV_EINVAL, "give a number from %llu to %llu%s",
                            (unsigned long long)option->least, (unsigned long long)option->most,
                            option->unit_ms ? ", or a time such as 5s" : "");
    store(option, fields, number);
    return 0;
}

/* 0: it is no unit. */
static uint64_t scale_of(const char *unit)
{
    static const char *const units[] = {"", "K", "M", "G"};
    uint64_t scale = 1;

    for (size_t i = 0; i < sizeof units / sizeof *units; i++, scale *= 1000)
        if (strcasecmp(unit, units[i]) == 0)
            return scale;
    return 0;
}

static int read_count(const struct okv_option *option, const char *text, void *fields,
                      struct okv_diag *why)
{
    const char *unit;
    uint64_t number;
    uint64_t scale = read_digits(text, &unit, &number) ? scale_of(unit) : 0;

    if (scale == 0 || number > option->most / scale || number * scale < option->least)
        return okv_diag_set(why, OKV_EINVAL,
                            "give a whole number from %llu to %llu, such as 1000 or 10K",
                            (unsigned long long)option->least, (unsigned long long)option->most);
    store(option, fields, number * scale);
    return 0;
}

static int read_size(const struct okv_option *option, const char *text, void *fields,
                     struct okv_diag *why)
{
    char limits[OKV_SIZE_WHY_TEXT];
    uint64_t bytes;

    if (okv_size_read(text, option->least, option->most, &bytes, limits))
        return okv_diag_set(why, OKV_EINVAL, "%s", limits);
    store(option, fields, bytes);
    return 0;
}

/* In the largest unit up to an hour. */
static int write_duration(uint64_t ms, char *out, size_t size)
{
    static const struct {
        const char *name;
        uint64_t ms;
    } units[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    unsigned i = 0;

    while (ms % units[i].ms)
        i++;
    return snprintf(out, size, "%llu%s", (unsigned long long)(ms / units[i].ms), units[i].name);
}

static int read_duration(const struct okv_option *option, const char *text, void *fields,
                         struct okv_diag *why)
{
    char least[LIMITS_TEXT], most[LIMITS_TEXT];
    uint64_t ms;

    if (okv_duration_parse(text, &ms) || !is_within(option, ms)) {
        write_duration(option->least, least, sizeof least);
        write_duration(option->most, most, sizeof most);
        return okv_diag_set(why, OKV_EINVAL,
                            "give a time from %s to %s, such as %s; a number alone is seconds",
                            least, most, option->example);
    }
    store(option, fields, ms);
    return 0;
}

static bool is_real_within(const struct okv_option *option, double number)
{
    return number >= option->real_least && number <= option->real_most;
}

static int read_real(const struct okv_option *option, const char *text, void *fields,
                     struct okv_diag *why)
{
    char *end;
    double number = strtod(text, &end);

    if (end == text || *end || !is_real_within(option, number))
        return okv_diag_set(why, OKV_EINVAL, "give a number from %g to %g%s%s", option->real_least,
                            option->real_most, option->example ? ", such as " : "",
                            option->example ? option->example : "");
    store_real(option, fields, number);
    return 0;
}

static int read_seconds(const struct okv_option *option, const char *text, void *fields,
                        struct okv_diag *why)
{
    uint64_t ms;
    char *end;
    double seconds = strtod(text, &end);
    bool is_number = end > text && *end == '\0';

    if (okv_duration_parse(text, &ms) == 0)
        seconds = (double)ms / 1000.0;
    else if (!is_number)
        seconds = -1.0;
    if (!is_real_within(option, seconds))
        return okv_diag_set(why, OKV_EINVAL,
                            "give seconds from %g to %g, or a time such as 500ms or 2m",
                            option->real_least, option->real_most);
    store_real(option, fields, seconds);
    return 0;
}

/* "a, b or c" */
static void write_words(const char *const *words, struct text *out)
{
    for (; *words; words++)
        append(out, "%s%s", *words, !words[1] ? "" : !words[2] ? " or " : ", ");
}

/* The first word when the option stands alone. */
static int read_choice(const struct okv_option *option, const char *text, void *fields,
                       struct okv_diag *why)
{
    char words[128];
    struct text list = {words, words + sizeof words};

    for (unsigned i = 0; option->words[i]; i++)
        if (!text || strcmp(text, option->words[i]) == 0) {
            store(option, fields, option->least + i);
            return 0;
        }
    write_words(option->words, &list);
    return okv_diag_set(why, OKV_EINVAL, "give %s", words);
}

static int read_flag(const struct okv_option *option, const char *text, void *fields,
                     struct okv_diag *why)
{
    const bool is_given = true;

    (void)text, (void)why;
    memcpy((char *)fields + option->offset, &is_given, option->size);
    return 0;
}

static int read_text(const struct okv_option *option, const char *text, void *fields,
                     struct okv_diag *why)
{
    (void)why;
    memcpy((char *)fields + option->offset, &text, option->size);
    return 0;
}

int okv_option_read(const struct okv_option *option, const char *text, void *fields,
                    struct okv_diag *why)
{
    static int (*const readers[])(const struct okv_option *option, const char *text, void *fields,
                                  struct okv_diag *why) = {
        [OKV_OPTION_FLAG] = read_flag,     [OKV_OPTION_TEXT] = read_text,
        [OKV_OPTION_NUMBER] = read_number, [OKV_OPTION_COUNT] = read_count,
        [OKV_OPTION_SIZE] = read_size,     [OKV_OPTION_DURATION] = read_duration,
        [OKV_OPTION_REAL] = read_real,     [OKV_OPTION_SECONDS] = read_seconds,
        [OKV_OPTION_CHOICE] = read_choice,
    };

    return (option->read ? option->read : readers[option->kind])(option, text, fields, why);
}

void okv_options_init(const struct okv_option *table, void *fields)
{
    for (; !is_end(table); table++)
        if (table->initial)
            okv_option_read(table, table->initial, fields, NULL);
}

void okv_option_value(const struct okv_option *option, const void *fields, char *out, size_t size)
{
    bool is_number = option->kind == OKV_OPTION_NUMBER;
    const char *field = (const char *)fields + option->offset;
    uint32_t number = 0;

    /* Another thread may change a number of a server that runs. */
    if (is_number || option->kind == OKV_OPTION_CHOICE)
        number = atomic_load_explicit((const _Atomic uint32_t *)field, memory_order_relaxed);
    if (is_number && is_within(option, number))
        snprintf(out, size, "%u", number);
    else if (option->kind == OKV_OPTION_CHOICE && number >= option->least)
        snprintf(out, size, "%s", option->words[number - option->least]);
    else if (!okv_option_may_be_alone(option))
        snprintf(out, size, "%s", option->initial && !is_number ? option->initial : "");
    else
        snprintf(out, size, "no");
}

/* ---- for argp ---- */

/* {limits} and {default} of the help, and whether a change of the option takes effect at once. */
static void write_help(const struct okv_option *option, struct text *out)
{
    for (const char *at = option->help; *at; at++) {
        const char *brace = strchrnul(at, '{');
        append(out, "%.*s", (int)(brace - at), at);
        if (brace[0] && brace[1] == 'l')
            append(out, "%llu to %llu", (unsigned long long)option->least,
                   (unsigned long long)option->most);
        else if (brace[0])
            append(out, "%s", option->initial);
        at = brace[0] ? strchr(brace, '}') : brace - 1;
    }
    if (option->flags & OKV_OPTION_RELOADABLE)
        append(out, " [SIGHUP]");
    out->at++; /* the NUL */
}

/* A title has the key 0. */
static int key_of(const struct okv_option *option, int number)
{
    return option->letter || !option->name ? option->letter : KEY_FIRST + number;
}

static struct argp_option argp_option_of(const struct okv_option *option, int number,
                                         const char *help)
{
    return (struct argp_option){
        .name = option->name,
        .key = key_of(option, number),
        .arg = option->argument,
        .flags = !option->help                             ? OPTION_HIDDEN
                 : option->flags & OKV_OPTION_MAY_BE_ALONE ? OPTION_ARG_OPTIONAL
                                                           : 0,
        .doc = help,
        .group = option->group,
    };
}

void okv_options_argp(const struct okv_option *table, struct okv_options_argp *out)
{
    struct text texts = {out->texts, out->texts + sizeof out->texts};
    int count = 0;

    for (; !is_end(&table[count]); count++) {
        const char *help = table[count].help;
        if (help && (strchr(help, '{') || table[count].flags & OKV_OPTION_RELOADABLE)) {
            help = texts.at;
            write_help(&table[count], &texts);
        }
        out->list[count] = argp_option_of(&table[count], count, help);
    }
    out->list[count] = (struct argp_option){0};
}

const struct okv_option *okv_option_of_key(const struct okv_option *table, int key)
{
    for (int i = 0; !is_end(&table[i]); i++)
        if (table[i].name && key_of(&table[i], i) == key)
            return &table[i];
    return NULL;
}
