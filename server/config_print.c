#include "server/config_print.h"

#include <inttypes.h>
#include <string.h>

#include "server/config_options.h"

#define WHERE_SIZE 512

static bool is_list(const struct argp_option *option)
{
    return option->key == 'l' || option->key == OKV_OPTION_DATABASE;
}

static const char *text_of(const struct okv_setting *setting)
{
    return setting->text ? setting->text : "yes";
}

static void size_text(uint64_t bytes, char *out, size_t size)
{
    static const char units[] = "KMGT";
    unsigned unit = 0;

    while (unit < sizeof units - 1 && bytes > 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(out, size, "%" PRIu64 "%.*s", bytes, unit > 0, &units[unit > 0 ? unit - 1 : 0]);
}

/* "": the server chooses when it knows the rest. */
static void default_text(const struct okv_config *config, const struct argp_option *option,
                         char *out, size_t size)
{
    const struct okv_number_option *number = okv_number_option_find(option->key);
    int key = option->key;
    uint32_t value;

    snprintf(out, size, "%s", okv_option_may_be_alone(option) ? "no" : "");
    if (key == 'm')
        size_text(config->table.memory, out, size);
    else if (key == OKV_OPTION_BUCKET_SIZE)
        size_text(config->table.bucket_size, out, size);
    else if (key == OKV_OPTION_LOG_FORMAT)
        snprintf(out, size, "%s", okv_log_format_names[config->log_format]);
    else if (key == OKV_OPTION_SNAPSHOT_RATIO)
        snprintf(out, size, "%g", config->snapshot_ratio);
    if (!number)
        return;
    memcpy(&value, (const char *)config + number->field, sizeof value);
    if (value >= number->least && value <= number->most)
        snprintf(out, size, "%u", value);
}

void okv_config_value(const struct okv_config *config, const struct argp_option *option, char *out,
                      size_t size)
{
    const struct okv_settings *settings = &config->settings;
    size_t used = 0;

    default_text(config, option, out, size);
    if (okv_option_is_reloadable(option->key))
        return; /* the field is what counts */
    for (unsigned i = 0; i < settings->count; i++) {
        const struct okv_setting *setting = &settings->list[i];
        if (setting->option != option || okv_setting_is_overridden(settings, setting))
            continue;
        used = is_list(option) ? used : 0;
        used +=
            (size_t)snprintf(out + used, size - used, "%s%s", used ? " " : "", text_of(setting));
        used = used < size ? used : size - 1;
    }
}

static void print_setting(const struct okv_settings *settings, const struct okv_setting *setting,
                          FILE *stream)
{
    char where[WHERE_SIZE];

    okv_setting_where(settings, setting, where, sizeof where);
    fprintf(stream, "# from %s\n%s = %s\n", where, setting->option->name, text_of(setting));
}

/* Of an option that may be repeated all lines are printed, of another the last one: it counts. */
static bool print_settings(const struct okv_settings *settings, const struct argp_option *option,
                           FILE *stream)
{
    const struct okv_setting *last = NULL;

    for (unsigned i = 0; i < settings->count; i++) {
        const struct okv_setting *setting = &settings->list[i];
        if (setting->option != option || okv_setting_is_overridden(settings, setting))
            continue;
        if (is_list(option))
            print_setting(settings, setting, stream);
        last = setting;
    }
    if (last && !is_list(option))
        print_setting(settings, last, stream);
    return last != NULL;
}

static void print_options(const struct okv_config *config, bool are_reloadable, FILE *stream)
{
    char text[32];

    for (const struct argp_option *option = okv_config_options; option->name; option++) {
        if (!okv_option_find(option->name) ||
            okv_option_is_reloadable(option->key) != are_reloadable ||
            print_settings(&config->settings, option, stream))
            continue;
        default_text(config, option, text, sizeof text);
        fprintf(stream, "; %s =%s%s\n", option->name, *text ? " " : "", text);
    }
}

void okv_config_print(const struct okv_config *config, FILE *stream)
{
    fprintf(stream, "# for okv-server --config FILE; what begins with ; is the default\n"
                    "\n# a change of these takes effect at a start\n");
    print_options(config, false, stream);
    fprintf(stream, "\n# a change of these takes effect at SIGHUP, too\n");
    print_options(config, true, stream);
}
