#include "server/command/admin.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "server/clients/client_table.h"
#include "server/copies/copies.h"
#include "server/core/host.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* The longest command. */
#define COMMAND_MAX 128

/* One that runs. */
struct call {
    struct okv_server *server;
    const struct okv_database *database;
    uint64_t number;  /* this or the next one: its argument */
    const char *rest; /* of the command's text */
    char *out;        /* the answer */
    uint32_t size, used;
};

static unsigned index_of(const struct call *call)
{
    return (unsigned)(call->database - call->server->databases);
}

static int list_sessions(struct call *call)
{
    call->used = (uint32_t)okv_clients_list(call->server, index_of(call), call->number, call->out,
                                            call->size);
    return 0;
}

static int kill_session(struct call *call)
{
    return okv_clients_kill(call->server, index_of(call), call->number);
}

/* A slot holds them: there are at most OKV_DATABASES_MAX. */
static int list_databases(struct call *call)
{
    const struct okv_server *server = call->server;

    for (unsigned i = 0; i < server->database_count && call->used < call->size; i++)
        call->used += (uint32_t)snprintf(call->out + call->used, call->size - call->used, "%s\n",
                                         server->databases[i].config->name);
    return call->used < call->size ? 0 : OKV_EUNSUPPORTED;
}

static int describe_server(struct call *call)
{
    call->used = (uint32_t)okv_stats_render_server(call->server, call->out, call->size);
    return call->used <= call->size ? 0 : OKV_EUNSUPPORTED;
}

static int begin_snapshot(struct call *call)
{
    uint64_t number;
    int rc = okv_database_snapshot(call->database, &number);

    if (rc == 0)
        call->used = (uint32_t)snprintf(call->out, call->size, "%" PRIx64, number);
    return rc;
}

/* Nothing while it is not made yet. */
static int tell_snapshot(struct call *call)
{
    int rc = okv_database_snapshot_path(call->database, call->server->config.data, call->number,
                                        call->out, call->size, &call->used);

    return rc == OKV_EAGAIN ? 0 : rc;
}

static int reload(struct call *call)
{
    if (!call->server->config.users)
        return OKV_EUNSUPPORTED;
    okv_server_ask_reload(call->server);
    return 0;
}

static int begin_host(struct call *call)
{
    call->used = (uint32_t)snprintf(call->out, call->size, "%" PRIx64, okv_host_ask(call->server));
    return 0;
}

/* Nothing while it is not read yet. */
static int tell_host(struct call *call)
{
    int used = snprintf(call->out, call->size, "huge_pages %d\n",
                        okv_region_is_huge(&call->database->region));
    int rc = okv_host_tell(call->server->host, call->number, call->out + used,
                           call->size - (uint32_t)used);

    if (rc >= 0)
        call->used = (uint32_t)(used + rc);
    return rc == OKV_EAGAIN || rc >= 0 ? 0 : rc;
}

/* For those who compare the clocks of several servers: no other answer is of this moment. */
static int tell_clocks(struct call *call)
{
    call->used =
        (uint32_t)snprintf(call->out, call->size, "wall_us %" PRIu64 "\nlease_us %" PRIu64 "\n",
                           okv_clock_wall_us(), okv_clock_lease_us());
    return 0;
}

/* ---- of a cluster ---- */

/* A part of the report, from a byte on. Nothing: there is no more. */
static int tell_cluster(struct call *call)
{
    if (!call->server->copies)
        return OKV_EUNSUPPORTED;
    call->used =
        (uint32_t)okv_copies_report(call->server->copies, call->number, call->out, call->size);
    return 0;
}

static int order(struct call *call)
{
    uint64_t number;
    int rc = call->server->copies ? okv_copies_order(call->server->copies, call->rest, &number)
                                  : OKV_EUNSUPPORTED;

    if (rc == 0)
        call->used = (uint32_t)snprintf(call->out, call->size, "%" PRIx64, number);
    return rc;
}

/* Nothing while there is no result yet. */
static int tell_result(struct call *call)
{
    int rc = call->server->copies
                 ? okv_copies_result(call->server->copies, call->number, call->out, call->size)
                 : OKV_EUNSUPPORTED;

    if (rc >= 0)
        call->used = (uint32_t)rc;
    return rc == OKV_EAGAIN || rc >= 0 ? 0 : rc;
}

/* "%" stands for a number in hexadecimal digits, "*" for any text. */
static const struct command {
    const char *text;
    int (*run)(struct call *call);
} commands[] = {
    {"sessions %", list_sessions},
    {"kill %", kill_session},
    {"databases", list_databases},
    {"server", describe_server},
    {"snapshot", begin_snapshot},
    {"snapshot %", tell_snapshot},
    {"reload", reload},
    {"clocks", tell_clocks},
    {"host", begin_host},
    {"host %", tell_host},
    {"cluster %", tell_cluster},
    {"cluster order *", order},
    {"cluster result %", tell_result},
};
#define COUNT (sizeof commands / sizeof *commands)

const char *okv_admin_command(unsigned index)
{
    return index < COUNT ? commands[index].text : NULL;
}

static bool matches(const struct command *command, const char *text, struct call *call)
{
    size_t name = strcspn(command->text, "%*");
    int end = 0;

    if (!command->text[name])
        return strcmp(text, command->text) == 0;
    if (strncmp(text, command->text, name) != 0)
        return false;
    call->rest = text + name;
    return command->text[name] == '*' ||
           (sscanf(call->rest, "%" SCNx64 "%n", &call->number, &end) == 1 && !call->rest[end]);
}

int okv_admin_run(struct okv_server *server, const struct okv_database *database,
                  const uint8_t *text, uint32_t length, char *out, uint32_t size, uint32_t *used)
{
    struct call call = {.server = server, .database = database, .out = out, .size = size};
    char line[COMMAND_MAX + 1];
    unsigned i = 0;

    *used = 0;
    if (length > COMMAND_MAX || memchr(text, '\0', length))
        return OKV_EINVAL;
    memcpy(line, text, length);
    line[length] = '\0';
    while (i < COUNT && !matches(&commands[i], line, &call))
        i++;
    if (i == COUNT)
        return OKV_EINVAL;
    int rc = commands[i].run(&call);
    *used = call.used;
    return rc;
}
