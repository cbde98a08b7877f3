/*
 * A program's options as a table. Parsing, limits, defaults, error sentences and --help follow from
 * an option's row, and the manual from --help: docs/how-to-add.md.
 */
#ifndef OKV_SHARED_BASE_OPTIONS_H
#define OKV_SHARED_BASE_OPTIONS_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/diag.h"

/* The type of the field, and what text it takes. */
enum okv_option_kind {
    OKV_OPTION_FLAG,     /* bool: none; it becomes true */
    OKV_OPTION_TEXT,     /* const char *: any text, borrowed */
    OKV_OPTION_NUMBER,   /* uint32_t: digits, or with a unit_ms a time that is a multiple of it */
    OKV_OPTION_COUNT,    /* uint32_t, uint64_t: digits, then perhaps K, M or G for powers of 1000 */
    OKV_OPTION_SIZE,     /* uint32_t, uint64_t: bytes, as okv_size_parse() reads them */
    OKV_OPTION_DURATION, /* uint32_t, milliseconds: as okv_duration_parse() reads them */
    OKV_OPTION_REAL,     /* double */
    OKV_OPTION_SECONDS,  /* double: a number of seconds, or a time with its unit */
    OKV_OPTION_CHOICE,   /* int or an enum: one of `words`; its index, plus `least` */
    OKV_OPTION_OTHER,    /* `read` reads it */
};

enum okv_option_flags {
    OKV_OPTION_MAY_BE_ALONE = 1, /* without its argument, too */
    OKV_OPTION_LIST = 2,         /* may be repeated */
    OKV_OPTION_RELOADABLE = 4,   /* a change takes effect while the program runs */
    OKV_OPTION_COMMAND_LINE = 8, /* not in a file or the environment */
    OKV_OPTION_AT_ONCE = 16 | 8, /* read before the file and the environment are */
};

struct okv_option {
    /* Without dashes. NULL: `help` is the title of a group, or without `help` `letter` is hidden,
     * or without either the table ends. */
    const char *name;
    int letter;           /* 0: it has none */
    const char *argument; /* as --help calls it; NULL: it takes none */
    int group;            /* in --help */
    unsigned flags;       /* enum okv_option_flags */
    const char *initial;  /* the default, as a user would write it; NULL: zero, or the program's */
    const char *help;     /* in which {default} is `initial`, and {limits} is "LEAST to MOST" */
    enum okv_option_kind kind;
    size_t offset, size;  /* of the field in the program's struct; size 0: there is none */
    uint64_t least, most; /* NUMBER, COUNT, SIZE, DURATION; those of REAL and SECONDS are real */
    double real_least, real_most;
    uint32_t unit_ms;         /* NUMBER: the unit of a time; 0: it is no time */
    const char *example;      /* DURATION, REAL: in the sentence of error; NULL: none */
    const char *const *words; /* CHOICE; ends with NULL */
    /* Instead of the kind's reader; as okv_option_read(). */
    int (*read)(const struct okv_option *option, const char *text, void *fields,
                struct okv_diag *why);
};

/* The row of this name; NULL: there is none. */
const struct okv_option *okv_option_find(const struct okv_option *table, const char *name);

/* Whether it has no argument or may stand without. */
bool okv_option_may_be_alone(const struct okv_option *option);
/*
 * Reads `text`, NULL for an option that stands alone, into the option's field of `fields`. Returns
 * 0 or OKV_EINVAL. `why` then says what to give instead of the text; if it begins with ' ' or ':',
 * it continues a sentence after the option's name.
 */
int okv_option_read(const struct okv_option *option, const char *text, void *fields,
                    struct okv_diag *why);
/* Zeroes the field: the opposite of an option that stands alone. */
void okv_option_clear(const struct okv_option *option, void *fields);
/* Reads the default of each option that has one. */
void okv_options_init(const struct okv_option *table, void *fields);
/* Writes the field of a NUMBER or CHOICE as a user would write it, and the default of others. "":
 * the program chooses later. */
void okv_option_value(const struct okv_option *option, const void *fields, char *out, size_t size);

#define OKV_OPTIONS_MAX 64

/* For argp_parse(). */
struct okv_options_argp {
    struct argp_option list[OKV_OPTIONS_MAX];
    char texts[4096]; /* helps that differ from the rows' */
};

/* The table has fewer than OKV_OPTIONS_MAX rows. `out` has to live as long as argp uses it. */
void okv_options_argp(const struct okv_option *table, struct okv_options_argp *out);
/* The row of an argp key; NULL: the key is argp's, or of a hidden letter. */
const struct okv_option *okv_option_of_key(const struct okv_option *table, int key);

#endif
