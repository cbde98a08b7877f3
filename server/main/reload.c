#include "server/main/reload.h"

#include <stdlib.h>
#include <string.h>

#include "server/clients/admission.h"
#include "server/config/option_table.h"
#include "server/config/print.h"
#include "server/main/descriptors.h"
#include "server/net/listening.h"
#include "shared/base/error.h"

#define VALUE_SIZE 8192 /* of all values of an option */
#define SHOWN_MAX 100

static void log_change(struct okv_server *server, const struct okv_option *option,
                       const struct okv_config *to)
{
    bool is_reloadable = option->flags & OKV_OPTION_RELOADABLE;
    char before[VALUE_SIZE], now[VALUE_SIZE];

    okv_config_value(&server->config, option, before, sizeof before);
    okv_config_value(to, option, now, sizeof now);
    if (strcmp(before, now) != 0)
        okv_log_say(&server->log, is_reloadable ? OKV_LOG_NOTICE : OKV_LOG_WARNING, "config",
                    "%s: %.*s -> %.*s%s", option->name, SHOWN_MAX, *before ? before : "(default)",
                    SHOWN_MAX, *now ? now : "(default)", is_reloadable ? "" : ": restart to apply");
}

static void log_changes(struct okv_server *server, const struct okv_config *to)
{
    for (const struct okv_option *option = okv_config_options; option->name; option++)
        if (!(option->flags & OKV_OPTION_COMMAND_LINE))
            log_change(server, option, to);
}

/* What a start made room for is the limit. */
static void fit(struct okv_server *server, struct okv_config *to)
{
    struct okv_diag diag = {.text = ""};
    uint32_t most = server->admission->most;

    if (to->max_clients > most) {
        okv_log_say(&server->log, OKV_LOG_WARNING, "config",
                    "max-clients %u: the start made room for %u: restart to apply", to->max_clients,
                    most);
        to->max_clients = most;
    }
    /* With the workers and listeners that there are. */
    struct okv_config *running = malloc(sizeof *running);
    if (!running)
        return;
    /* Clients change options of the server's meanwhile; what is taken from there stays. */
    *running = *to;
    running->workers = server->config.workers;
    running->listen_count = server->config.listen_count;
    memcpy(running->listen, server->config.listen, sizeof running->listen);
    running->resp_count = server->config.resp_count;
    running->metrics = server->config.metrics;
    if (okv_descriptors_raise(running, &diag))
        okv_log_say(&server->log, OKV_LOG_WARNING, "config", "%s", diag.text);
    to->max_clients = running->max_clients;
    free(running);
}

/* Their fields are of 32 bits. */
static void copy_reloadable(const struct okv_config *from, struct okv_config *to)
{
    for (const struct okv_option *option = okv_config_options; option->name; option++) {
        if (!(option->flags & OKV_OPTION_RELOADABLE))
            continue;
        const char *value = (const char *)from + option->offset;
        char *field = (char *)to + option->offset;
        atomic_store((_Atomic uint32_t *)field, atomic_load((const _Atomic uint32_t *)value));
    }
}

static void apply(struct okv_server *server, struct okv_config *to)
{
    struct okv_config *config = &server->config;

    fit(server, to);
    log_changes(server, to);
    copy_reloadable(to, config);
    const struct okv_admission_limits limits = okv_admission_limits_of(config);
    okv_admission_set_limits(server->admission, &limits);
    pthread_mutex_lock(&server->doors_lock);
    for (unsigned i = 0; i < server->listener_count; i++)
        if (server->listeners[i])
            okv_server_set_patience(server->listeners[i], config);
    pthread_mutex_unlock(&server->doors_lock);
    okv_log_set_format(&server->log, config->log_format);
    okv_log_say(&server->log, OKV_LOG_NOTICE, "config", "configuration read from %.150s",
                config->settings.file);
}

void okv_reload(struct okv_server *server)
{
    if (!server->config.settings.file)
        return;
    struct okv_config *to = calloc(1, sizeof *to);
    int rc = to ? okv_config_reread(&server->config, to) : OKV_ENOMEM;

    if (rc == 0)
        apply(server, to);
    else
        okv_log_say(&server->log, OKV_LOG_WARNING, "config", "configuration stays as it was: %s",
                    rc == OKV_EINVAL ? to->settings.wrong : okv_error_text(rc));
    if (to)
        okv_config_fini(to);
    free(to);
}
