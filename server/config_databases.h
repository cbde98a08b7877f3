/* The databases of the server's command line: --database, and what the options say of a table. */
#ifndef OKV_SERVER_CONFIG_DATABASES_H
#define OKV_SERVER_CONFIG_DATABASES_H

#include "server/config.h"

/* The --database options so far. */
struct okv_config_databases {
    const char *texts[OKV_DATABASES_MAX]; /* borrowed */
    unsigned count;
};

/* Each of these calls okv_config_error() when the text is wrong. */

/* Notes one; it is read when all options are known. */
void okv_config_database(struct okv_config_databases *databases, const char *text,
                         struct okv_settings *settings);
/* Fills config->databases from these and config->table: with one of the default name if there are
 * none. */
void okv_config_add_databases(struct okv_config *config,
                              const struct okv_config_databases *databases,
                              struct okv_settings *settings);

/* What okv_wal_params.sync_within_ns is for `always`, `never` or a time such as 100ms. `argument`
 * is that of the option, for a message. */
uint64_t okv_config_sync(const char *option, const char *argument, const char *text,
                         struct okv_settings *settings);
/* The bytes of a size from `least` to `most`. */
uint64_t okv_config_size(const char *option, const char *text, uint64_t least, uint64_t most,
                         struct okv_settings *settings);
/* Those of a size that a database may have. */
uint64_t okv_config_memory(const char *option, const char *text, struct okv_settings *settings);

#endif
