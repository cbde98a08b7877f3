#include "server/config_databases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/wal/wal.h"
#include "shared/base/duration.h"
#include "shared/base/mapping.h"
#include "shared/base/size.h"
#include "shared/format/wire.h"

#define MEMORY_MIN (UINT64_C(1) << 20)
#define MEMORY_MAX (UINT64_C(1) << 47)
/* A new value is written before the old one is freed, so the region must hold several. */
#define VALUES_MIN 4
#define SYNC_WITHIN_MS_MAX 3600000u
/* Of NAME:SIZE. A longer one is cut, and its name or its size makes no sense then. */
#define DATABASE_TEXT (OKV_NAME_SIZE + 64)

uint64_t okv_config_size(const char *option, const char *text, uint64_t least, uint64_t most,
                         struct okv_settings *settings)
{
    char why[OKV_SIZE_WHY_TEXT];
    uint64_t bytes = 0;

    if (okv_size_read(text, least, most, &bytes, why))
        okv_config_error(settings, "--%s %s: %s", option, text, why);
    return bytes;
}

uint64_t okv_config_memory(const char *option, const char *text, struct okv_settings *settings)
{
    return okv_config_size(option, text, MEMORY_MIN, MEMORY_MAX, settings);
}

static void round_memory(struct okv_database_config *database, enum okv_region_pages pages)
{
    uint64_t unit = pages == OKV_REGION_SMALL ? 4096 : OKV_HUGE_PAGE;

    database->memory = (database->memory + unit - 1) / unit * unit;
}

static void choose_max_value(struct okv_database_config *database, struct okv_settings *settings)
{
    char asked[32], most[32], memory[32];
    uint64_t limit = database->memory / VALUES_MIN;

    if (database->max_value > limit) {
        okv_size_format(database->max_value, asked, sizeof asked);
        okv_size_format(limit, most, sizeof most);
        okv_size_format(database->memory, memory, sizeof memory);
        okv_config_error(
            settings,
            "--max-value %s: the database %s, of %s, takes values up to %s, a quarter of "
            "it: raise --memory or its SIZE in --database, or lower --max-value",
            asked, database->name, memory, most);
    }
    if (database->max_value == 0)
        database->max_value = limit < OKV_VALUE_MAX ? (uint32_t)limit : OKV_VALUE_MAX;
}

void okv_config_database(struct okv_config_databases *databases, const char *text,
                         struct okv_settings *settings)
{
    if (databases->count == OKV_DATABASES_MAX)
        okv_config_error(settings, "--database: at most %d", OKV_DATABASES_MAX);
    else
        databases->texts[databases->count++] = text;
}

uint64_t okv_config_sync(const char *option, const char *argument, const char *text,
                         struct okv_settings *settings)
{
    uint64_t ms;

    if (strcmp(text, "always") == 0)
        return 0;
    if (strcmp(text, "never") == 0)
        return OKV_WAL_NEVER;
    if (okv_duration_parse(text, &ms) == 0 && ms >= 1 && ms <= SYNC_WITHIN_MS_MAX)
        return ms * 1000000;
    okv_config_error(settings,
                     "--%s %s: give always, never, or a time from 1ms to 1h, such as 100ms or 1s",
                     option, argument);
    return 0;
}

/* What is behind the comma. */
static void add_option(struct okv_database_config *database, const char *text, const char *option,
                       struct okv_settings *settings)
{
    static const char sync[] = "sync=";

    if (strncmp(option, sync, sizeof sync - 1) == 0)
        database->sync_within_ns =
            okv_config_sync("database", text, option + sizeof sync - 1, settings);
    else
        okv_config_error(settings, "--database %s: there is one option, sync=MODE: not '%s'", text,
                         option);
}

/* NAME[:SIZE][,sync=MODE] */
static void add_database(struct okv_config *config, const char *whole,
                         struct okv_settings *settings)
{
    struct okv_database_config *database = &config->databases[config->database_count];
    const char *comma = strchrnul(whole, ',');
    char text[DATABASE_TEXT];
    snprintf(text, sizeof text, "%.*s", (int)(comma - whole), whole);
    const char *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : strlen(text);

    *database = config->table;
    if (*comma)
        add_option(database, whole, comma + 1, settings);
    snprintf(database->name, sizeof database->name, "%.*s", (int)length, text);
    if (length >= sizeof database->name || !okv_name_is_valid(database->name))
        okv_config_error(settings, "--database %s: a name has " OKV_NAME_RULE, text);
    for (unsigned i = 0; i < config->database_count; i++) {
        const char *other = config->databases[i].name;
        if (strcmp(other, database->name) == 0)
            okv_config_error(settings,
                             "--database %s: there is one called %s already: choose another name",
                             text, other);
        if (okv_database_id(other) == okv_database_id(database->name))
            okv_config_error(settings,
                             "--database %s: its name has the same hash as %s: choose another",
                             text, other);
    }
    if (colon)
        database->memory = okv_config_memory("database", colon + 1, settings);
    round_memory(database, config->pages);
    choose_max_value(database, settings);
    config->database_count++;
}

void okv_config_add_databases(struct okv_config *config,
                              const struct okv_config_databases *databases,
                              struct okv_settings *settings)
{
    for (unsigned i = 0; i < databases->count; i++)
        add_database(config, databases->texts[i], settings);
    if (databases->count == 0)
        add_database(config, OKV_DATABASE_DEFAULT, settings);
}
