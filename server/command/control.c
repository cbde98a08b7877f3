#include "server/command/control.h"

#include <stdio.h>

#include "server/clients/admission.h"
#include "server/clients/client_table.h"
#include "server/core/server.h"

static void log_change(struct okv_server *server, const char *name, uint32_t before, uint32_t now,
                       const struct okv_client *by)
{
    const struct okv_client_who who = okv_client_who(by->peer, by->user);
    char text[OKV_LOG_TEXT_MAX];

    snprintf(text, sizeof text, "%s: %u -> %u by %s, until SIGHUP", name, before, now, who.text);
    okv_log_line(&server->log, OKV_LOG_NOTICE, "config", okv_clock_ns(), text);
}

uint32_t okv_control_clients_max(const struct okv_server *server)
{
    return server->admission->most;
}

void okv_control_set_clients(struct okv_server *server, uint32_t clients,
                             const struct okv_client *by)
{
    uint32_t before = atomic_exchange(&server->config.max_clients, clients);
    const struct okv_admission_limits limits = okv_admission_limits_of(&server->config);

    okv_admission_set_limits(server->admission, &limits);
    log_change(server, "max-clients", before, clients, by);
}

void okv_control_set_idle(struct okv_server *server, uint32_t idle_s, const struct okv_client *by)
{
    uint32_t before = atomic_exchange(&server->config.idle_s, idle_s);

    log_change(server, "idle-s", before, idle_s, by);
}

void okv_control_end(struct okv_server *server, const struct okv_client *by)
{
    const struct okv_client_who who = okv_client_who(by->peer, by->user);

    okv_log_say(&server->log, OKV_LOG_NOTICE, "server", "%s asked it to end", who.text);
    okv_server_ask_end(server);
}
