/*
 * The settings of options, and where each was made: in a file, in the environment, or on the
 * command line. A later one of these takes precedence. docs/operations.md section "Configuration".
 */
#ifndef OKV_SERVER_CONFIG_SETTINGS_H
#define OKV_SERVER_CONFIG_SETTINGS_H

#include <argp.h>
#include <stdbool.h>
#include <stdio.h>

#include "shared/base/diag.h"

#define OKV_SETTINGS_MAX 256
#define OKV_SETTINGS_TEXT 1024

/* Exit statuses of okv-server. */
#define OKV_EXIT_USAGE 2
#define OKV_EXIT_CANNOT_SERVE 3

enum okv_source { OKV_SOURCE_FILE, OKV_SOURCE_ENVIRONMENT, OKV_SOURCE_ARGUMENTS };

struct okv_setting {
    const struct argp_option *option;
    char *text; /* NULL: an option without an argument */
    enum okv_source source;
    unsigned line; /* of the file */
};

struct okv_settings {
    struct okv_setting list[OKV_SETTINGS_MAX];
    unsigned count;
    const char *file;                  /* NULL: there is none */
    const struct okv_setting *current; /* that is being applied; NULL: none */
    char wrong[OKV_SETTINGS_TEXT];     /* the first that is wrong, where, and the fix; "": none */
    bool is_of_arguments;              /* that is of the command line, or of several settings */
};

/* The option of this name, of those that a file and the environment may have, or NULL. */
const struct argp_option *okv_option_find(const char *name);

/* Whether it has no argument or may go without; "no" is its default then. */
bool okv_option_may_be_alone(const struct argp_option *option);

/* Copies `text`. OKV_EFULL, OKV_ENOMEM. */
int okv_settings_add(struct okv_settings *settings, const struct argp_option *option,
                     const char *text, enum okv_source source, unsigned line);
/* Reads settings->file. OKV_EINVAL: a line is wrong; or why it cannot be read. */
int okv_settings_read_file(struct okv_settings *settings, struct okv_diag *diag);
/* OKV_MEMORY is --memory. One that may be repeated has its values apart by spaces. */
int okv_settings_read_environment(struct okv_settings *settings);
void okv_settings_fini(struct okv_settings *settings);

/* Whether a later source says something of the same option. */
bool okv_setting_is_overridden(const struct okv_settings *settings,
                               const struct okv_setting *setting);
/* "FILE:LINE", "OKV_MEMORY" or "the command line". */
void okv_setting_where(const struct okv_settings *settings, const struct okv_setting *setting,
                       char *out, size_t size);

/* Notes what is wrong, and where the setting is that is being applied, unless something is noted
 * already. Whoever calls goes on with any value. */
void okv_config_error(struct okv_settings *settings, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
