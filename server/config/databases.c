#include "server/config/databases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/wal/wal.h"
#include "shared/base/duration.h"
#include "shared/base/error.h"
#include "shared/base/mapping.h"
#include "shared/base/memory_limit.h"
#include "shared/base/size.h"
#include "shared/format/wire.h"

/* A new value is written before the old one is freed, so the region must hold several. */
#define VALUES_MIN 4
/* More, or one value would evict a large part of the others. */
#define VALUES_MIN_EVICTING 16
#define SYNC_WITHIN_MS_MAX 3600000u
/* Of NAME:SIZE. A longer one is cut; then its name or its size is wrong. */
#define DATABASE_TEXT (OKV_NAME_SIZE + 64)

static void round_memory(struct okv_database_config *database, enum okv_region_pages pages)
{
    bool is_huge = pages == OKV_REGION_RESERVED || pages == OKV_REGION_TRANSPARENT ||
                   (pages == OKV_REGION_AUTO && database->memory >= OKV_REGION_LARGE);
    uint64_t unit = is_huge ? OKV_HUGE_PAGE : 4096;

    database->memory = (database->memory + unit - 1) / unit * unit;
}

static void choose_max_value(struct okv_database_config *database, struct okv_settings *settings)
{
    char asked[32], most[32], memory[32];
    bool evicts = database->full != OKV_STORE_REFUSE;
    uint64_t limit = database->memory / (evicts ? VALUES_MIN_EVICTING : VALUES_MIN);

    if (database->max_value > limit) {
        okv_size_format(database->max_value, asked, sizeof asked);
        okv_size_format(limit, most, sizeof most);
        okv_size_format(database->memory, memory, sizeof memory);
        okv_config_error(settings,
                         "--max-value %s: the database %s, of %s, takes values up to %s, a %s of "
                         "it: raise --memory or its SIZE in --database, or lower --max-value",
                         asked, database->name, memory, most, evicts ? "sixteenth" : "quarter");
    }
    if (database->max_value == 0)
        database->max_value = limit < OKV_VALUE_MAX ? (uint32_t)limit : OKV_VALUE_MAX;
}

int okv_config_database(const struct okv_option *option, const char *text, void *fields,
                        struct okv_diag *why)
{
    struct okv_config *config = fields;

    (void)option;
    if (config->database_count == OKV_DATABASES_MAX)
        return okv_diag_set(why, OKV_EINVAL, ": at most %d", OKV_DATABASES_MAX);
    config->databases[config->database_count++].text = text;
    return 0;
}

/* A number alone is refused: it means seconds elsewhere, and one that was meant in
 * milliseconds would risk the writes of minutes. */
static bool is_number(const char *text)
{
    return text[strspn(text, "0123456789")] == '\0';
}

int okv_config_sync(const char *text, uint64_t *within_ns, struct okv_diag *why)
{
    uint64_t ms = 0;

    if (strcmp(text, "never") == 0)
        *within_ns = OKV_WAL_NEVER;
    else if (strcmp(text, "always") == 0 ||
             (!is_number(text) && okv_duration_parse(text, &ms) == 0 && ms >= 1 &&
              ms <= SYNC_WITHIN_MS_MAX))
        *within_ns = ms * 1000000;
    else
        return okv_diag_set(why, OKV_EINVAL,
                            "give always, never, or a time from 1ms to 1h, such as 100ms or 1s");
    return 0;
}

static int read_full(const char *text, enum okv_store_full *full, struct okv_diag *why)
{
    static const char *const modes[] = {
        [OKV_STORE_REFUSE] = "refuse",
        [OKV_STORE_EVICT] = "evict",
        [OKV_STORE_EVICT_EXPIRING] = "evict-expiring",
    };

    for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(text, modes[i]) == 0) {
            *full = (enum okv_store_full)i;
            return 0;
        }
    return okv_diag_set(why, OKV_EINVAL, "give refuse, evict or evict-expiring");
}

/* A part between commas. */
static void add_option(struct okv_database_config *database, const char *option,
                       struct okv_settings *settings)
{
    static const char sync[] = "sync=", full[] = "full=";
    struct okv_diag why;
    int rc = 0;

    if (strncmp(option, sync, sizeof sync - 1) == 0)
        rc = okv_config_sync(option + sizeof sync - 1, &database->sync_within_ns, &why);
    else if (strncmp(option, full, sizeof full - 1) == 0)
        rc = read_full(option + sizeof full - 1, &database->full, &why);
    else
        okv_config_error(settings,
                         "--database %s: there are the options sync=MODE and full=MODE: not '%s'",
                         database->text, option);
    if (rc)
        okv_config_error(settings, "--database %s: %s", database->text, why.text);
}

static void add_options(struct okv_database_config *database, const char *comma,
                        struct okv_settings *settings)
{
    char option[DATABASE_TEXT];

    while (*comma) {
        const char *next = strchrnul(comma + 1, ',');
        snprintf(option, sizeof option, "%.*s", (int)(next - comma - 1), comma + 1);
        add_option(database, option, settings);
        comma = next;
    }
}

static void set_size(struct okv_database_config *database, const char *text,
                     struct okv_settings *settings)
{
    char why[OKV_SIZE_WHY_TEXT];

    if (okv_size_read(text, OKV_MEMORY_MIN, OKV_MEMORY_MAX, &database->memory, why))
        okv_config_error(settings, "--database %s: SIZE %s: %s", database->text, text, why);
}

/* NAME[:SIZE][,sync=MODE][,full=MODE] */
static void add_database(struct okv_config *config, unsigned i, struct okv_settings *settings)
{
    struct okv_database_config *database = &config->databases[i];
    const char *whole = database->text;
    const char *comma = strchrnul(whole, ',');
    char text[DATABASE_TEXT];
    snprintf(text, sizeof text, "%.*s", (int)(comma - whole), whole);
    const char *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : strlen(text);

    *database = config->table;
    database->text = whole;
    add_options(database, comma, settings);
    snprintf(database->name, sizeof database->name, "%.*s", (int)length, text);
    if (length >= sizeof database->name || !okv_name_is_valid(database->name))
        okv_config_error(settings, "--database %s: a name has " OKV_NAME_RULE, whole);
    for (unsigned k = 0; k < i; k++) {
        const char *other = config->databases[k].name;
        if (strcmp(other, database->name) == 0)
            okv_config_error(settings,
                             "--database %s: there is one called %s already: choose another name",
                             whole, other);
        if (okv_database_id(other) == okv_database_id(database->name))
            okv_config_error(settings,
                             "--database %s: its name has the same hash as %s: choose another",
                             whole, other);
    }
    if (colon)
        set_size(database, colon + 1, settings);
    round_memory(database, config->pages);
    choose_max_value(database, settings);
}

static bool is_over_rdma(const struct okv_config *config)
{
    for (unsigned i = 0; i < config->listen_count; i++)
        if (config->listen[i].scheme == OKV_SCHEME_RDMA)
            return true;
    return false;
}

void okv_config_add_databases(struct okv_config *config, struct okv_settings *settings)
{
    config->names_databases = config->database_count > 0;
    if (config->pages == OKV_REGION_OFF ||
        (config->pages == OKV_REGION_AUTO && !is_over_rdma(config)))
        config->pages = OKV_REGION_SMALL;
    if (config->database_count == 0)
        config->databases[config->database_count++].text = OKV_DATABASE_DEFAULT;
    for (unsigned i = 0; i < config->database_count; i++) {
        settings->current = okv_setting_of(settings, config->databases[i].text);
        add_database(config, i, settings);
    }
    settings->current = NULL;
}

uint64_t okv_config_memory(const struct okv_config *config)
{
    uint64_t memory = 0;

    for (unsigned i = 0; i < config->database_count; i++)
        memory += config->databases[i].memory;
    return memory;
}

uint64_t okv_config_memory_limit(const struct okv_config *config)
{
    uint64_t limit;

    return config->pages != OKV_REGION_RESERVED && okv_memory_limit("", &limit) ? limit
                                                                                : UINT64_MAX;
}
