#include "server/config.h"

#include <argp.h>
#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/config_databases.h"
#include "server/config_listen.h"
#include "server/config_options.h"
#include "server/config_settings.h"
#include "server/processors.h"
#include "server/store/store.h"
#include "shared/base/duration.h"
#include "shared/base/error.h"
#include "shared/discovery/discovery.h"
#include "shared/format/bucket.h"
#include "shared/format/wire.h"
#include "shared/transport/common/pending.h"
#include "shared/transport/transport.h"

#define RATIO_MAX 1000
#define DEFAULT_WORKERS_MAX 4

/* What the options have said so far. */
struct parsing {
    struct okv_config *config;
    struct okv_config_databases databases;
    const char *reachable; /* the last --listen that other hosts may reach; NULL: none */
    bool has_sync;         /* --sync was given */
};

/* In the option's unit: a number, or a time with a unit of its own. Returns whether it is one. */
static bool read_number(const struct okv_number_option *option, const char *text, uint64_t *number)
{
    char *end;

    *number = strtoul(text, &end, 10);
    if (*text >= '0' && *text <= '9' && !*end)
        return true;
    if (!option->unit_ms || okv_duration_parse(text, number) || *number % option->unit_ms)
        return false;
    *number /= option->unit_ms;
    return true;
}

/* NULL: the option has no argument. */
static enum okv_region_pages parse_pages(const char *text, struct okv_settings *settings)
{
    if (!text || strcmp(text, "reserved") == 0)
        return OKV_REGION_RESERVED;
    if (strcmp(text, "transparent") != 0)
        okv_config_error(settings, "--huge=%s: give reserved or transparent", text);
    return OKV_REGION_TRANSPARENT;
}

/* NULL: the option has no argument. */
static void parse_announce(struct okv_config *config, const char *text,
                           struct okv_settings *settings)
{
    const char *group = text ? text : OKV_DISCOVERY_GROUP;

    if (!okv_group_is_valid(group))
        okv_config_error(settings, "--announce=%s: give " OKV_GROUP_RULE, group);
    else
        memcpy(config->group, group, strlen(group) + 1);
}

static void parse_server_name(struct okv_config *config, const char *text,
                              struct okv_settings *settings)
{
    if (!okv_name_is_valid(text))
        okv_config_error(settings, "--name %s: give " OKV_NAME_RULE, text);
    else
        memcpy(config->name, text, strlen(text) + 1);
}

static void check_server_name(struct okv_config *config, struct okv_settings *settings)
{
    if (config->name[0] && !config->group[0])
        okv_config_error(settings, "--name %s: it needs --announce, too", config->name);
    if (!config->name[0])
        memcpy(config->name, OKV_SERVER_NAME_DEFAULT, sizeof OKV_SERVER_NAME_DEFAULT);
}

static void check_restore(const struct okv_config *config, struct okv_settings *settings)
{
    if (config->restore && (!config->data || config->database_count > 1))
        okv_config_error(settings, "--restore %s: give --data DIR, too, and one database",
                         config->restore);
}

static error_t parse_number_option(struct okv_config *config, int key, const char *text,
                                   struct okv_settings *settings)
{
    const struct okv_number_option *option = okv_number_option_find(key);

    if (!option)
        return ARGP_ERR_UNKNOWN;
    uint64_t read;
    if (!read_number(option, text, &read) || read < option->least || read > option->most)
        okv_config_error(settings, "--%s %s: give a number from %u to %u%s", option->name, text,
                         option->least, option->most,
                         option->unit_ms ? ", or a time such as 5s" : "");
    uint32_t number = (uint32_t)read;
    memcpy((char *)config + option->field, &number, sizeof number);
    return 0;
}

static void parse_log_format(struct okv_config *config, const char *text,
                             struct okv_settings *settings)
{
    for (unsigned i = 0; i < OKV_LOG_FORMATS; i++)
        if (strcmp(text, okv_log_format_names[i]) == 0) {
            config->log_format = (enum okv_log_format)i;
            return;
        }
    okv_config_error(settings, "--log-format %s: give auto, text, logfmt or json", text);
}

static bool is_port(const char *text)
{
    size_t digits = strspn(text, "0123456789");

    return digits >= 1 && digits <= 5 && !text[digits] && strtoul(text, NULL, 10) <= UINT16_MAX;
}

/* Of "HOST:PORT" or "[HOST]:PORT"; false: it is something else. */
static bool parse_address(const char *text, struct okv_config_address *out)
{
    const char *colon = strrchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : 0;

    if (length == 0 || !is_port(colon + 1))
        return false;
    if (text[0] == '[' && text[length - 1] == ']') {
        text++;
        length -= 2;
    } else if (memchr(text, ':', length)) {
        return false;
    }
    snprintf(out->port, sizeof out->port, "%s", colon + 1);
    return (size_t)snprintf(out->host, sizeof out->host, "%.*s", (int)length, text) <
               sizeof out->host &&
           length > 0;
}

static void parse_metrics(struct okv_config *config, const char *text,
                          struct okv_settings *settings)
{
    if (!parse_address(text, &config->metrics))
        okv_config_error(settings, "--metrics %s: give HOST:PORT, such as 127.0.0.1:9469", text);
}

static void parse_snapshot_ratio(struct okv_config *config, const char *text,
                                 struct okv_settings *settings)
{
    char *end;
    double ratio = strtod(text, &end);

    if (end == text || *end || !(ratio >= 0 && ratio <= RATIO_MAX))
        okv_config_error(settings, "--snapshot-ratio %s: give a number from 0 to %d, such as 0.5",
                         text, RATIO_MAX);
    config->snapshot_ratio = ratio;
}

static void parse_worker_cpus(struct okv_config *config, const char *text,
                              struct okv_settings *settings)
{
    struct okv_diag diag;

    if (okv_processors_parse(text, &config->usable_cpus, &config->worker_cpus, &diag))
        okv_config_error(settings, "--worker-cpus %s", diag.text);
}

static void check_worker_cpus(const struct okv_config *config, struct okv_settings *settings)
{
    int count = CPU_COUNT(&config->worker_cpus);

    if (count > 0 && (uint32_t)count != config->workers)
        okv_config_error(
            settings,
            "--worker-cpus names %d processors, and there are %u workers: name one for "
            "each, or give --workers %d",
            count, config->workers, count);
}

static void check_offline(const struct okv_config *config, struct okv_settings *settings)
{
    if (config->check && config->salvage)
        okv_config_error(settings, "--check and --salvage: give one of them");
    if (config->salvage && !config->to)
        okv_config_error(settings, "--salvage %s: say where to write with --to DIR",
                         config->salvage);
    if (config->to && !config->salvage)
        okv_config_error(settings, "--to %s: it needs --salvage DIR, too", config->to);
}

static void check_sync(const struct parsing *parsing, struct okv_settings *settings)
{
    const struct okv_config *config = parsing->config;
    bool has_sync = parsing->has_sync;

    for (unsigned i = 0; i < config->database_count; i++)
        has_sync |= config->databases[i].sync_within_ns != 0;
    if (has_sync && !config->data)
        okv_config_error(settings, "--sync: it is about a log: give --data DIR, too");
}

static void set_flag(struct okv_config *config, int key, bool value)
{
    if (key == OKV_OPTION_PREFAULT)
        config->prefault = value;
    else if (key == OKV_OPTION_WIPE)
        config->wipe = value;
    else
        config->is_open = value;
}

/* Options of the server as a whole. */
static error_t parse_server_option(struct okv_config *config, int key, const char *text,
                                   struct okv_settings *settings)
{
    switch (key) {
    case OKV_OPTION_USERS:
        config->users = text;
        break;
    case OKV_OPTION_TLS_CERT:
        config->tls_cert = text;
        break;
    case OKV_OPTION_TLS_KEY:
        config->tls_key = text;
        break;
    case OKV_OPTION_TLS_CA:
        config->tls_ca = text;
        break;
    case OKV_OPTION_METRICS:
        parse_metrics(config, text, settings);
        break;
    case OKV_OPTION_LOG_FORMAT:
        parse_log_format(config, text, settings);
        break;
    case OKV_OPTION_DATA:
        config->data = text;
        break;
    case OKV_OPTION_RESTORE:
        config->restore = text;
        break;
    case OKV_OPTION_CHECK:
        config->check = text;
        break;
    case OKV_OPTION_SALVAGE:
        config->salvage = text;
        break;
    case OKV_OPTION_TO:
        config->to = text;
        break;
    case OKV_OPTION_SNAPSHOT_RATIO:
        parse_snapshot_ratio(config, text, settings);
        break;
    case OKV_OPTION_ANNOUNCE:
        parse_announce(config, text, settings);
        break;
    case OKV_OPTION_NAME:
        parse_server_name(config, text, settings);
        break;
    case OKV_OPTION_WORKER_CPUS:
        parse_worker_cpus(config, text, settings);
        break;
    default:
        return parse_number_option(config, key, text, settings);
    }
    return 0;
}

static error_t apply(struct parsing *parsing, int key, const char *text, bool is_on,
                     struct okv_settings *settings)
{
    struct okv_config *config = parsing->config;
    struct okv_database_config *table = &config->table;

    switch (key) {
    case 'l':
        if (okv_config_listen_add(config, text, settings))
            parsing->reachable = text;
        break;
    case 'm':
        table->memory = okv_config_memory("memory", text, settings);
        break;
    case OKV_OPTION_BUCKET_SIZE:
        table->bucket_size = (uint32_t)okv_config_size("bucket-size", text, OKV_BUCKET_SIZE_MIN,
                                                       OKV_BUCKET_SIZE_MAX, settings);
        if (!okv_bucket_size_valid(table->bucket_size))
            okv_config_error(settings, "--bucket-size %s: give a power of two, like 512 or 1K",
                             text);
        break;
    case OKV_OPTION_INLINE_MAX:
        table->inline_max =
            (uint32_t)okv_config_size("inline-max", text, 1, OKV_BUCKET_SIZE_MAX, settings);
        break;
    case OKV_OPTION_MAX_VALUE:
        table->max_value = (uint32_t)okv_config_size("max-value", text, 1, OKV_VALUE_MAX, settings);
        break;
    case OKV_OPTION_SYNC:
        table->sync_within_ns = okv_config_sync("sync", text, text, settings);
        parsing->has_sync = true;
        break;
    case OKV_OPTION_DATABASE:
        okv_config_database(&parsing->databases, text, settings);
        break;
    case OKV_OPTION_HUGE:
        config->pages = is_on ? parse_pages(text, settings) : OKV_REGION_SMALL;
        break;
    case OKV_OPTION_PREFAULT:
    case OKV_OPTION_WIPE:
    case OKV_OPTION_OPEN:
        set_flag(config, key, is_on);
        break;
    default:
        return parse_server_option(config, key, text, settings);
    }
    return 0;
}

/* A file and the environment have yes or no where the command line has an option without a value.
 */
static void apply_setting(struct parsing *parsing, const struct okv_setting *setting,
                          struct okv_settings *settings)
{
    const struct argp_option *option = setting->option;
    const char *text = setting->text;
    bool has_word = text && setting->source != OKV_SOURCE_ARGUMENTS;
    bool may_be_alone = okv_option_may_be_alone(option);
    bool is_off = has_word && may_be_alone && strcmp(text, "no") == 0;
    bool is_on = has_word && may_be_alone && strcmp(text, "yes") == 0;

    if (!option->arg && text && !is_on && !is_off)
        okv_config_error(settings, "--%s %s: give yes or no", option->name, text);
    if (!is_off || option->key != OKV_OPTION_ANNOUNCE)
        apply(parsing, option->key, is_on ? NULL : text, !is_off, settings);
}

static void apply_settings(struct parsing *parsing, struct okv_settings *settings)
{
    for (int source = OKV_SOURCE_FILE; source <= OKV_SOURCE_ARGUMENTS; source++)
        for (unsigned i = 0; i < settings->count; i++) {
            settings->current = &settings->list[i];
            if ((int)settings->current->source == source &&
                !okv_setting_is_overridden(settings, settings->current))
                apply_setting(parsing, settings->current, settings);
        }
    settings->current = NULL;
}

static void check(struct parsing *parsing, struct okv_settings *settings)
{
    struct okv_config *config = parsing->config;

    okv_config_check_reach(config, parsing->reachable, settings);
    check_server_name(config, settings);
    check_worker_cpus(config, settings);
    check_offline(config, settings);
    okv_config_add_databases(config, &parsing->databases, settings);
    check_sync(parsing, settings);
    check_restore(config, settings);
    if (config->listen_count + config->resp_count == 0)
        okv_config_listen_by_default(config);
}

/* Adds a file and the environment to what the command line says, and applies all: only now is it
 * known what goes before what. OKV_EINVAL: settings.wrong says what; or OKV_ENOMEM. */
static int read_and_apply(struct okv_config *config)
{
    struct parsing parsing = {.config = config};
    struct okv_settings *settings = &config->settings;
    struct okv_diag diag = {.text = ""};
    int rc = settings->file ? okv_settings_read_file(settings, &diag) : 0;

    if (rc == 0)
        rc = okv_settings_read_environment(settings);
    if (rc == OKV_ENOMEM)
        return rc;
    if (rc)
        okv_config_error(settings, "%s", diag.text[0] ? diag.text : okv_error_text(rc));
    settings->is_of_arguments = false;
    if (!settings->wrong[0])
        apply_settings(&parsing, settings);
    if (!settings->wrong[0])
        check(&parsing, settings);
    return settings->wrong[0] ? OKV_EINVAL : 0;
}

static error_t note_option(struct okv_settings *settings, int key, const char *text,
                           struct argp_state *state)
{
    for (const struct argp_option *option = okv_config_options; option->name; option++) {
        if (option->key != key)
            continue;
        int rc = okv_settings_add(settings, option, text, OKV_SOURCE_ARGUMENTS, 0);
        if (rc == OKV_EFULL)
            argp_error(state, "--%s: too many options", option->name);
        return rc ? ENOMEM : 0;
    }
    return ARGP_ERR_UNKNOWN;
}

/* Ends the program if something is wrong. */
static error_t finish(struct okv_config *config, struct argp_state *state)
{
    const struct okv_settings *settings = &config->settings;
    int rc = read_and_apply(config);

    if (rc == OKV_EINVAL && settings->is_of_arguments)
        argp_error(state, "%s", settings->wrong);
    else if (rc == OKV_EINVAL)
        argp_failure(state, OKV_EXIT_USAGE, 0, "%s", settings->wrong);
    return rc ? ENOMEM : 0;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct okv_config *config = state->input;

    switch (key) {
    case OKV_OPTION_CONFIG:
        config->settings.file = text;
        break;
    case OKV_OPTION_PRINT_CONFIG:
        config->has_to_print = true;
        break;
    case 'h':
        argp_state_help(state, state->out_stream, ARGP_HELP_STD_HELP);
        break;
    case ARGP_KEY_END:
        return finish(config, state);
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s'", text);
        break;
    default:
        return note_option(&config->settings, key, text, state);
    }
    return 0;
}

/* Leaves half of the CPUs to clients of this host and to the kernel. */
static uint32_t default_workers(const cpu_set_t *usable)
{
    int half = CPU_COUNT(usable) / 2;

    return half < 1 ? 1 : half > DEFAULT_WORKERS_MAX ? DEFAULT_WORKERS_MAX : (uint32_t)half;
}

static void set_defaults(struct okv_config *config, const cpu_set_t *usable)
{
    *config = (struct okv_config){
        .table = {.memory = UINT64_C(256) << 20,
                  .bucket_size = OKV_BUCKET_SIZE_DEFAULT,
                  .index_percent = OKV_INDEX_PERCENT_DEFAULT},
        .credits = 16,
        .workers = default_workers(usable),
        .usable_cpus = *usable,
        .max_clients = 1024,
        .max_clients_per_user = OKV_CLIENTS_HALF,
        .max_clients_per_address = OKV_CLIENTS_HALF,
        .max_silent = OKV_PENDING_MAX,
        .keepalive_ms = 3000,
        .remember_s = 60,
        .snapshot_ratio = 1.5,
        .drain_ms = 5000,
        .spin_us = 50,
    };
}

static void print_version(FILE *stream, struct argp_state *state)
{
    (void)state;
    fprintf(stream, "okv-server %s\ntransports: %s\n", OKV_VERSION, okv_transport_names());
}

int okv_config_parse(int argc, char **argv, struct okv_config *config)
{
    static const struct argp parser = {.options = okv_config_options,
                                       .parser = parse_option,
                                       .doc = okv_config_about,
                                       .help_filter = okv_config_help};
    cpu_set_t usable;

    if (sched_getaffinity(0, sizeof usable, &usable))
        CPU_ZERO(&usable);
    set_defaults(config, &usable);
    config->settings.file = getenv("OKV_CONFIG");
    argp_program_version_hook = print_version;
    argp_err_exit_status = OKV_EXIT_USAGE;
    return argp_parse(&parser, argc, argv, 0, NULL, config) ? OKV_ENOMEM : 0;
}

int okv_config_reread(const struct okv_config *config, struct okv_config *out)
{
    int rc = 0;

    set_defaults(out, &config->usable_cpus);
    out->settings.file = config->settings.file;
    for (unsigned i = 0; i < config->settings.count && rc == 0; i++) {
        const struct okv_setting *setting = &config->settings.list[i];
        if (setting->source == OKV_SOURCE_ARGUMENTS)
            rc = okv_settings_add(&out->settings, setting->option, setting->text,
                                  OKV_SOURCE_ARGUMENTS, 0);
    }
    return rc ? rc : read_and_apply(out);
}

void okv_config_fini(struct okv_config *config)
{
    okv_settings_fini(&config->settings);
}
