/* The databases of the server's command line: --database, and the options of all of them. */
#ifndef OKV_SERVER_CONFIG_DATABASES_H
#define OKV_SERVER_CONFIG_DATABASES_H

#include "server/config/config.h"

/* Reader of --database: notes `text`, borrowed, in config->databases. OKV_EINVAL: too many. */
int okv_config_database(const struct okv_option *option, const char *text, void *fields,
                        struct okv_diag *why);
/* Completes config->databases from their texts and config->table; one of the default name if there
 * are none. Calls okv_config_error() when a text is wrong. */
void okv_config_add_databases(struct okv_config *config, struct okv_settings *settings);

/* Reads `always`, `never` or a time such as 100ms as okv_wal_params.sync_within_ns. OKV_EINVAL. */
int okv_config_sync(const char *text, uint64_t *within_ns, struct okv_diag *why);

/* Bytes of all databases. */
uint64_t okv_config_memory(const struct okv_config *config);
/* Bytes that the control group grants to them; UINT64_MAX: it has no limit, or huge pages are
 * reserved, which do not count. */
uint64_t okv_config_memory_limit(const struct okv_config *config);

#endif
