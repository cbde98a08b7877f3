#include "server/config/print.h"

#include <string.h>

#include "server/config/option_table.h"

#define WHERE_SIZE 512

static const char *text_of(const struct okv_setting *setting)
{
    return setting->text ? setting->text : "yes";
}

void okv_config_value(const struct okv_config *config, const struct okv_option *option, char *out,
                      size_t size)
{
    const struct okv_settings *settings = &config->settings;
    size_t used = 0;

    okv_option_value(option, config, out, size);
    if (option->flags & OKV_OPTION_RELOADABLE)
        return; /* the field is what counts */
    for (unsigned i = 0; i < settings->count; i++) {
        const struct okv_setting *setting = &settings->list[i];
        if (setting->option != option || okv_setting_is_overridden(settings, setting))
            continue;
        used = option->flags & OKV_OPTION_LIST ? used : 0;
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

/* Prints all settings of an option that may be repeated, of another the last one: it counts. */
static bool print_settings(const struct okv_settings *settings, const struct okv_option *option,
                           FILE *stream)
{
    const struct okv_setting *last = NULL;

    for (unsigned i = 0; i < settings->count; i++) {
        const struct okv_setting *setting = &settings->list[i];
        if (setting->option != option || okv_setting_is_overridden(settings, setting))
            continue;
        if (option->flags & OKV_OPTION_LIST)
            print_setting(settings, setting, stream);
        last = setting;
    }
    if (last && !(option->flags & OKV_OPTION_LIST))
        print_setting(settings, last, stream);
    return last != NULL;
}

static void print_options(const struct okv_config *config, unsigned reloadable, FILE *stream)
{
    char text[64];

    for (const struct okv_option *option = okv_config_options; option->name; option++) {
        if (option->flags & OKV_OPTION_COMMAND_LINE ||
            (option->flags & OKV_OPTION_RELOADABLE) != reloadable ||
            print_settings(&config->settings, option, stream))
            continue;
        okv_option_value(option, config, text, sizeof text);
        fprintf(stream, "; %s =%s%s\n", option->name, *text ? " " : "", text);
    }
}

void okv_config_print(const struct okv_config *config, FILE *stream)
{
    fprintf(stream, "# for okv-server --config FILE; what begins with ; is the default\n"
                    "\n# a change of these takes effect at a start\n");
    print_options(config, 0, stream);
    fprintf(stream, "\n# a change of these takes effect at SIGHUP, too\n");
    print_options(config, OKV_OPTION_RELOADABLE, stream);
}
