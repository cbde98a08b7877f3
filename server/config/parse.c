#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/config/cluster.h"
#include "server/config/config.h"
#include "server/config/databases.h"
#include "server/config/listen.h"
#include "server/config/option_table.h"
#include "shared/base/error.h"
#include "shared/transport/transport.h"

#define DEFAULT_WORKERS_MAX 4

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

static void check_sync(const struct okv_config *config, struct okv_settings *settings)
{
    bool has_sync = config->has_sync;

    for (unsigned i = 0; i < config->database_count; i++)
        has_sync |= config->databases[i].sync_within_ns != 0;
    if (has_sync && !config->data)
        okv_config_error(settings, "--sync: it is about a log: give --data DIR, too");
}

static void read_setting(struct okv_config *config, const struct okv_option *option,
                         const char *text, struct okv_settings *settings)
{
    struct okv_diag why;

    if (okv_option_read(option, text, config, &why) == 0)
        return;
    if (why.text[0] == ':')
        okv_config_error(settings, "--%s%s", option->name, why.text);
    else
        okv_config_error(settings, "--%s%c%s: %s", option->name,
                         okv_option_may_be_alone(option) ? '=' : ' ', text, why.text);
}

/* In a file and the environment, an option that may stand alone takes yes or no. */
static void apply_setting(struct okv_config *config, const struct okv_setting *setting,
                          struct okv_settings *settings)
{
    const struct okv_option *option = setting->option;
    const char *text = setting->text;
    bool has_word =
        text && setting->source != OKV_SOURCE_ARGUMENTS && okv_option_may_be_alone(option);

    if (has_word && strcmp(text, "no") == 0)
        okv_option_clear(option, config);
    else if (has_word && strcmp(text, "yes") == 0)
        read_setting(config, option, NULL, settings);
    else if (text && !option->argument)
        okv_config_error(settings, "--%s %s: give yes or no", option->name, text);
    else
        read_setting(config, option, text, settings);
}

static void apply_settings(struct okv_config *config, struct okv_settings *settings)
{
    for (int source = OKV_SOURCE_FILE; source <= OKV_SOURCE_ARGUMENTS; source++)
        for (unsigned i = 0; i < settings->count; i++) {
            settings->current = &settings->list[i];
            if ((int)settings->current->source == source &&
                !okv_setting_is_overridden(settings, settings->current))
                apply_setting(config, settings->current, settings);
        }
    settings->current = NULL;
}

static void check(struct okv_config *config, struct okv_settings *settings)
{
    okv_config_check_reach(config, settings);
    check_server_name(config, settings);
    check_worker_cpus(config, settings);
    check_offline(config, settings);
    okv_config_add_databases(config, settings);
    check_sync(config, settings);
    check_restore(config, settings);
    okv_config_check_cluster(config, settings);
    if (config->listen_count + config->resp_count == 0)
        okv_config_listen_by_default(config);
}

/* Adds the settings of the file and the environment to those of the command line, and applies all
 * in order of precedence. OKV_EINVAL: settings.wrong says why; or OKV_ENOMEM. */
static int read_and_apply(struct okv_config *config)
{
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
        apply_settings(config, settings);
    if (!settings->wrong[0])
        check(config, settings);
    return settings->wrong[0] ? OKV_EINVAL : 0;
}

static error_t note_option(struct okv_config *config, int key, const char *text,
                           struct argp_state *state)
{
    const struct okv_option *option = okv_option_of_key(okv_config_options, key);

    if (!option)
        return ARGP_ERR_UNKNOWN;
    if ((option->flags & OKV_OPTION_AT_ONCE) == OKV_OPTION_AT_ONCE)
        return okv_option_read(option, text, config, NULL);
    int rc = okv_settings_add(&config->settings, option, text, OKV_SOURCE_ARGUMENTS, 0);
    if (rc == OKV_EFULL)
        argp_error(state, "--%s: too many options", option->name);
    return rc ? ENOMEM : 0;
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
    case 'h':
        argp_state_help(state, state->out_stream, ARGP_HELP_STD_HELP);
        break;
    case ARGP_KEY_END:
        return finish(config, state);
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s'", text);
        break;
    default:
        return note_option(config, key, text, state);
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
        .workers = default_workers(usable),
        .usable_cpus = *usable,
        .max_clients_per_user = OKV_CLIENTS_HALF,
        .max_clients_per_address = OKV_CLIENTS_HALF,
        .settings.table = okv_config_options,
    };
    okv_options_init(okv_config_options, config);
}

static void print_version(FILE *stream, struct argp_state *state)
{
    (void)state;
    fprintf(stream, "okv-server %s\ntransports: %s\n", OKV_VERSION, okv_transport_names());
}

int okv_config_parse(int argc, char **argv, struct okv_config *config)
{
    struct okv_options_argp options;
    const struct argp parser = {
        .options = options.list, .parser = parse_option, .doc = okv_config_about};
    cpu_set_t usable;

    if (sched_getaffinity(0, sizeof usable, &usable))
        CPU_ZERO(&usable);
    okv_options_argp(okv_config_options, &options);
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
