#include "server/command/admin.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/clients/client_table.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "shared/base/error.h"

/* The longest command. */
#define COMMAND_MAX 64

static unsigned index_of(const struct okv_server *server, const struct okv_database *database)
{
    return (unsigned)(database - server->databases);
}

/* A slot holds them: there are at most OKV_DATABASES_MAX. */
static size_t list_databases(const struct okv_server *server, char *out, size_t size)
{
    size_t used = 0;

    for (unsigned i = 0; i < server->database_count && used < size; i++)
        used +=
            (size_t)snprintf(out + used, size - used, "%s\n", server->databases[i].config->name);
    return used;
}

static int begin_snapshot(const struct okv_database *database, char *out, uint32_t size,
                          uint32_t *used)
{
    uint64_t number;
    int rc = okv_database_snapshot(database, &number);

    if (rc == 0)
        *used = (uint32_t)snprintf(out, size, "%" PRIx64, number);
    return rc;
}

/* Nothing while it is not made yet. */
static int tell_snapshot(const struct okv_server *server, const struct okv_database *database,
                         uint64_t number, char *out, uint32_t size, uint32_t *used)
{
    int rc = okv_database_snapshot_path(database, server->config.data, number, out, size, used);

    return rc == OKV_EAGAIN ? 0 : rc;
}

int okv_admin_run(struct okv_server *server, const struct okv_database *database,
                  const uint8_t *text, uint32_t length, char *out, uint32_t size, uint32_t *used)
{
    char command[COMMAND_MAX + 1];
    uint64_t id = 0;
    int end = 0;

    *used = 0;
    if (length > COMMAND_MAX || memchr(text, '\0', length))
        return OKV_EINVAL;
    memcpy(command, text, length);
    command[length] = '\0';
    if (sscanf(command, "sessions %" SCNx64 "%n", &id, &end) == 1 && end == (int)length) {
        *used = (uint32_t)okv_clients_list(server, index_of(server, database), id, out, size);
        return 0;
    }
    if (sscanf(command, "kill %" SCNx64 "%n", &id, &end) == 1 && end == (int)length)
        return okv_clients_kill(server, index_of(server, database), id);
    if (strcmp(command, "databases") == 0) {
        *used = (uint32_t)list_databases(server, out, size);
        return *used < size ? 0 : OKV_EUNSUPPORTED;
    }
    if (strcmp(command, "server") == 0) {
        *used = (uint32_t)okv_stats_render_server(server, out, size);
        return *used <= size ? 0 : OKV_EUNSUPPORTED;
    }
    if (strcmp(command, "snapshot") == 0)
        return begin_snapshot(database, out, size, used);
    if (sscanf(command, "snapshot %" SCNx64 "%n", &id, &end) == 1 && end == (int)length)
        return tell_snapshot(server, database, id, out, size, used);
    if (strcmp(command, "reload") != 0)
        return OKV_EINVAL;
    if (!server->config.users)
        return OKV_EUNSUPPORTED;
    okv_server_ask_reload(server);
    return 0;
}
