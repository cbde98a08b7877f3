#include "server/config_print.h"

#include <inttypes.h>
#include <string.h>

#include "server/config_options.h"

#define WHERE_SIZE 512

static void print_setting(const struct okv_settings *settings, const struct okv_setting *setting,
                          FILE *stream)
{
    char where[WHERE_SIZE];

    okv_setting_where(settings, setting, where, sizeof where);
    fprintf(stream, "# from %s\n%s = %s\n", where, setting->option->name,
            setting->text ? setting->text : "yes");
}

/* Of an option that may be repeated all lines are printed, of another the last one: it counts. */
static bool print_settings(const struct okv_settings *settings, const struct argp_option *option,
                           FILE *stream)
{
    bool is_list = option->key == 'l' || option->key == OKV_OPTION_DATABASE;
    const struct okv_setting *last = NULL;

    for (unsigned i = 0; i < settings->count; i++) {
        const struct okv_setting *setting = &settings->list[i];
        if (setting->option != option || okv_setting_is_overridden(settings, setting))
            continue;
        if (is_list)
            print_setting(settings, setting, stream);
        last = setting;
    }
    if (last && !is_list)
        print_setting(settings, last, stream);
    return last != NULL;
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
static void default_text(const struct okv_config *config, int key, char *out, size_t size)
{
    const struct okv_number_option *number = okv_number_option_find(key);
    uint32_t value;

    out[0] = '\0';
    if (key == 'm')
        size_text(config->table.memory, out, size);
    else if (key == OKV_OPTION_BUCKET_SIZE)
        size_text(config->table.bucket_size, out, size);
    else if (key == OKV_OPTION_LOG_FORMAT)
        snprintf(out, size, "text");
    else if (key == OKV_OPTION_SNAPSHOT_RATIO)
        snprintf(out, size, "%g", config->snapshot_ratio);
    if (!number)
        return;
    memcpy(&value, (const char *)config + number->field, sizeof value);
    if (value >= number->least && value <= number->most)
        snprintf(out, size, "%u", value);
}

void okv_config_print(const struct okv_config *config, FILE *stream)
{
    char text[32];

    fprintf(stream, "# for okv-server --config FILE; what begins with ; is the default\n");
    for (const struct argp_option *option = okv_config_options; option->name; option++) {
        if (!okv_option_find(option->name) || print_settings(&config->settings, option, stream))
            continue;
        default_text(config, option->key, text, sizeof text);
        fprintf(stream, "; %s =%s%s\n", option->name, *text ? " " : "", text);
    }
}
