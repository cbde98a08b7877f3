/* CONFIG: settings of Redis that clients and dashboards ask for, as okv has them. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/command/control.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/resp/commands/commands.h"
#include "server/resp/proto/args.h"
#include "server/resp/proto/pattern.h"
#include "server/resp/run/lookup.h"
#include "server/resp/run/options.h"
#include "shared/format/wire.h"

/* Words of CONFIG GET. */
#define PATTERNS_MAX 32u
/* The longest --idle-s. */
#define IDLE_S_MAX (INT64_C(365) * 24 * 60 * 60)

#define VALUE_TEXT 64

/* ---- values ---- */

typedef void format_setting(const struct okv_resp_client *client, char out[VALUE_TEXT]);

static void format_memory(const struct okv_resp_client *client, char out[VALUE_TEXT])
{
    const struct okv_server *server = client->resp->server;
    uint64_t memory = 0;

    for (unsigned i = 0; i < server->database_count; i++)
        memory += okv_resp_sees(client, i) ? server->databases[i].region.length : 0;
    snprintf(out, VALUE_TEXT, "%" PRIu64, memory);
}

static void format_clients(const struct okv_resp_client *client, char out[VALUE_TEXT])
{
    snprintf(out, VALUE_TEXT, "%u", client->resp->server->config.max_clients);
}

/* Up to the last one that it sees. */
static void format_databases(const struct okv_resp_client *client, char out[VALUE_TEXT])
{
    unsigned databases = 0;

    for (unsigned i = 0; i < client->resp->server->database_count; i++)
        databases = okv_resp_sees(client, i) ? i + 1 : databases;
    snprintf(out, VALUE_TEXT, "%u", databases);
}

static void format_timeout(const struct okv_resp_client *client, char out[VALUE_TEXT])
{
    snprintf(out, VALUE_TEXT, "%u", client->resp->server->config.idle_s);
}

static void format_log(const struct okv_resp_client *client, char out[VALUE_TEXT])
{
    snprintf(out, VALUE_TEXT, "%s", client->resp->server->config.data ? "yes" : "no");
}

static void format_value_max(const struct okv_resp_client *client, char out[VALUE_TEXT])
{
    (void)client;
    snprintf(out, VALUE_TEXT, "%u", OKV_VALUE_MAX);
}

static void format_policy(const struct okv_resp_client *client, char out[VALUE_TEXT])
{
    snprintf(out, VALUE_TEXT, "%s", okv_resp_policy_of(client));
}

static void format_nothing(const struct okv_resp_client *client, char out[VALUE_TEXT])
{
    (void)client;
    *out = '\0';
}

/* A setting that CONFIG SET changes, from `least` to `most`. */
struct change {
    int64_t least, most;
    void (*set)(struct okv_server *server, uint32_t value, const struct okv_client *by);
};

static const struct change clients_change = {1, OKV_CLIENTS_MAX, okv_control_set_clients};
static const struct change timeout_change = {0, IDLE_S_MAX, okv_control_set_idle};

static const struct setting {
    const char *name;
    format_setting *format;
    const struct change *change; /* NULL: an option of okv-server alone sets it */
} settings[] = {
    {"maxmemory", format_memory, NULL},        {"maxclients", format_clients, &clients_change},
    {"databases", format_databases, NULL},     {"timeout", format_timeout, &timeout_change},
    {"appendonly", format_log, NULL},          {"proto-max-bulk-len", format_value_max, NULL},
    {"maxmemory-policy", format_policy, NULL}, {"save", format_nothing, NULL},
};
#define SETTING_COUNT (sizeof settings / sizeof *settings)

/* ---- CONFIG GET ---- */

/* Bit i: setting i matches one of the patterns, which are in either case. */
static int settings_of(const struct okv_resp_call *call, unsigned *asked_for)
{
    *asked_for = 0;
    for (uint32_t i = 2; i < call->count; i++) {
        uint8_t text[64];
        uint32_t length = call->args[i].length < sizeof text ? call->args[i].length : 0;
        struct okv_resp_pattern pattern;
        uint64_t work = 0;
        for (uint32_t k = 0; k < length; k++)
            text[k] = (uint8_t)tolower(call->args[i].text[k]);
        int rc = okv_resp_pattern_init(&pattern, text, length);
        if (rc)
            return rc;
        for (unsigned k = 0; k < SETTING_COUNT; k++)
            *asked_for |=
                (unsigned)okv_resp_pattern_matches(&pattern, (const uint8_t *)settings[k].name,
                                                   strlen(settings[k].name), &work)
                << k;
        okv_resp_pattern_fini(&pattern);
    }
    return 0;
}

int okv_resp_cmd_config_get(struct okv_resp_call *call)
{
    char value[VALUE_TEXT];
    unsigned asked_for;
    int rc;

    if (!okv_resp_need_few(call, PATTERNS_MAX))
        return 0;
    rc = settings_of(call, &asked_for);
    if (rc)
        return okv_resp_refuse(call, rc);
    okv_resp_map(&call->reply, (size_t)__builtin_popcount(asked_for));
    for (unsigned i = 0; i < SETTING_COUNT; i++) {
        if (!(asked_for >> i & 1))
            continue;
        settings[i].format(call->client, value);
        okv_resp_text(&call->reply, settings[i].name);
        okv_resp_text(&call->reply, value);
    }
    return 0;
}

/* ---- CONFIG SET ---- */

static const struct setting *find_setting(const struct okv_resp_arg *name)
{
    for (unsigned i = 0; i < SETTING_COUNT; i++)
        if (okv_resp_arg_is(name, settings[i].name))
            return &settings[i];
    return NULL;
}

/* `name` is its name, in any case. */
static bool refuse_setting(struct okv_resp_call *call, const struct setting *setting,
                           const void *name, const char *why)
{
    okv_resp_error(&call->reply, "ERR CONFIG SET failed (possibly related to argument '%.*s') - %s",
                   (int)strlen(setting->name), (const char *)name, why);
    return false;
}

/* Names that may be set, each once. False: an error was replied. */
static bool check_names(struct okv_resp_call *call)
{
    unsigned seen = 0;

    for (uint32_t i = 2; i < call->count; i += 2) {
        const struct okv_resp_arg *name = &call->args[i];
        const struct setting *setting = find_setting(name);
        if (!setting) {
            okv_resp_error(&call->reply,
                           "ERR Unknown option or number of arguments for CONFIG SET - '%.*s'",
                           (int)(name->length < 64 ? name->length : 64), (const char *)name->text);
            return false;
        }
        unsigned bit = 1u << (setting - settings);
        if (!setting->change)
            return refuse_setting(call, setting, name->text,
                                  "can't set immutable config, an option of okv-server sets it");
        if (seen & bit)
            return refuse_setting(call, setting, name->text, "duplicate parameter");
        seen |= bit;
    }
    return true;
}

/* False: an error was replied. */
static bool check_value(struct okv_resp_call *call, const struct setting *setting,
                        const struct okv_resp_arg *arg, uint32_t *value)
{
    const struct change *change = setting->change;
    uint32_t room = okv_control_clients_max(call->client->resp->server);
    char why[128];
    int64_t number;

    if (!okv_resp_arg_integer(arg, &number))
        return refuse_setting(call, setting, setting->name,
                              "argument couldn't be parsed into an integer");
    if (number < change->least || number > change->most) {
        snprintf(why, sizeof why, "argument must be between %" PRId64 " and %" PRId64 " inclusive",
                 change->least, change->most);
        return refuse_setting(call, setting, setting->name, why);
    }
    if (change == &clients_change && number > room) {
        snprintf(why, sizeof why, "the start made room for %u: restart with --max-clients", room);
        return refuse_setting(call, setting, setting->name, why);
    }
    *value = (uint32_t)number;
    return true;
}

/* All of them, or none. */
int okv_resp_cmd_config_set(struct okv_resp_call *call)
{
    struct okv_resp_client *client = call->client;
    uint32_t values[SETTING_COUNT], count = (call->count - 2) / 2;

    if (!okv_resp_need_all(call))
        return 0;
    if (call->count % 2 == 1)
        return okv_resp_syntax_error(call);
    if (!check_names(call))
        return 0; /* and there are no more than settings */
    for (uint32_t i = 0; i < count; i++)
        if (!check_value(call, find_setting(&call->args[2 + 2 * i]), &call->args[3 + 2 * i],
                         &values[i]))
            return 0;
    for (uint32_t i = 0; i < count; i++)
        find_setting(&call->args[2 + 2 * i])
            ->change->set(client->resp->server, values[i], &client->common);
    okv_resp_simple(&call->reply, "OK");
    return 0;
}
