/* The options of okv-server(1). */
#ifndef OKV_SERVER_CONFIG_OPTIONS_H
#define OKV_SERVER_CONFIG_OPTIONS_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OKV_SERVER_NAME_DEFAULT "okv"

/* Those with a letter have that as key. */
enum okv_option_key {
    OKV_OPTION_BUCKET_SIZE = 256,
    OKV_OPTION_INLINE_MAX,
    OKV_OPTION_MAX_VALUE,
    OKV_OPTION_EXTRA_READS,
    OKV_OPTION_INDEX_PERCENT,
    OKV_OPTION_CREDITS,
    OKV_OPTION_WORKERS,
    OKV_OPTION_WORKER_CPUS,
    OKV_OPTION_MAX_CLIENTS,
    OKV_OPTION_MAX_CLIENTS_PER_USER,
    OKV_OPTION_MAX_CLIENTS_PER_ADDRESS,
    OKV_OPTION_MAX_SILENT,
    OKV_OPTION_HELLO_MS,
    OKV_OPTION_KEEPALIVE_MS,
    OKV_OPTION_IDLE_S,
    OKV_OPTION_REMEMBER_S,
    OKV_OPTION_DRAIN_MS,
    OKV_OPTION_SPIN_US,
    OKV_OPTION_HUGE,
    OKV_OPTION_PREFAULT,
    OKV_OPTION_ANNOUNCE,
    OKV_OPTION_NAME,
    OKV_OPTION_DATABASE,
    OKV_OPTION_DATA,
    OKV_OPTION_RESTORE,
    OKV_OPTION_SYNC,
    OKV_OPTION_SNAPSHOT_RATIO,
    OKV_OPTION_CHECK,
    OKV_OPTION_SALVAGE,
    OKV_OPTION_TO,
    OKV_OPTION_USERS,
    OKV_OPTION_TLS_CERT,
    OKV_OPTION_TLS_KEY,
    OKV_OPTION_TLS_CA,
    OKV_OPTION_METRICS,
    OKV_OPTION_LOG_FORMAT,
    OKV_OPTION_OPEN,
    OKV_OPTION_WIPE,
    OKV_OPTION_CONFIG,
    OKV_OPTION_PRINT_CONFIG,
};

/* One with a number, of 32 bits in a struct okv_config. */
struct okv_number_option {
    int key;
    const char *name;
    uint32_t least, most;
    size_t field;     /* its offset */
    uint32_t unit_ms; /* of a time, which its name ends with; 0: of no time, or of microseconds */
};

/* NULL: the option has no number. */
const struct okv_number_option *okv_number_option_find(int key);

/* Whether SIGHUP has a change of it take effect (reload.h). Of numbers those are the atomic ones of
 * struct okv_config. */
bool okv_option_is_reloadable(int key);
/* help_filter of argp: says so. */
char *okv_config_help(int key, const char *text, void *input);

extern const char okv_config_about[];
extern const struct argp_option okv_config_options[];

#endif
