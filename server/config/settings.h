/*
 * The settings of options and their sources: a file, the environment, the command line. A later
 * source takes precedence. docs/operations.md section "Configuration".
 */
#ifndef OKV_SERVER_CONFIG_SETTINGS_H
#define OKV_SERVER_CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/options.h"

#define OKV_SETTINGS_MAX 256
#define OKV_SETTINGS_TEXT 1024

/* Exit statuses of okv-server. */
#define OKV_EXIT_USAGE 2
#define OKV_EXIT_CANNOT_SERVE 3

enum okv_source { OKV_SOURCE_FILE, OKV_SOURCE_ENVIRONMENT, OKV_SOURCE_ARGUMENTS };

struct okv_setting {
    const struct okv_option *option;
    char *text; /* NULL: the option stands alone */
    enum okv_source source;
    unsigned line; /* of the file */
};

struct okv_settings {
    const struct okv_option *table; /* borrowed */
    struct okv_setting list[OKV_SETTINGS_MAX];
    unsigned count;
    const char *file;                  /* NULL: there is none */
    const struct okv_setting *current; /* the one being applied; NULL: none */
    char wrong[OKV_SETTINGS_TEXT];     /* the first error: where, what and the fix; "": none */
    bool is_of_arguments; /* the error is in the command line, or in several settings */
};

/* Copies `text`. OKV_EFULL, OKV_ENOMEM. */
int okv_settings_add(struct okv_settings *settings, const struct okv_option *option,
                     const char *text, enum okv_source source, unsigned line);
/* Reads settings->file. OKV_EINVAL: a line is wrong; another code: the file cannot be read. */
int okv_settings_read_file(struct okv_settings *settings, struct okv_diag *diag);
/* OKV_MEMORY is --memory. The values of an option that may be repeated are separated by spaces. */
int okv_settings_read_environment(struct okv_settings *settings);
void okv_settings_fini(struct okv_settings *settings);

/* Whether a later source sets the same option. */
bool okv_setting_is_overridden(const struct okv_settings *settings,
                               const struct okv_setting *setting);
/* The one whose text this is, not a copy of it; NULL: there is none. */
const struct okv_setting *okv_setting_of(const struct okv_settings *settings, const char *text);
/* "FILE:LINE", "OKV_MEMORY" or "the command line". */
void okv_setting_where(const struct okv_settings *settings, const struct okv_setting *setting,
                       char *out, size_t size);

/* Records an error and the place of the current setting. Only the first error is kept, so the
 * caller goes on with any value. */
void okv_config_error(struct okv_settings *settings, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
