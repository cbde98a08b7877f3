#include "server/main/unnamed_logs.h"

#include <stdio.h>
#include <string.h>

#include "server/database/logs.h"

static bool is_served(const struct okv_config *config, const char *name)
{
    for (unsigned i = 0; i < config->database_count; i++)
        if (strcmp(config->databases[i].name, name) == 0)
            return true;
    return false;
}

/* ---- without --database ---- */

struct count {
    const struct okv_config *config;
    unsigned unnamed;
};

static void count_unnamed(void *user, const char *name)
{
    struct count *count = user;

    count->unnamed += !is_served(count->config, name);
}

static void print_option(void *user, const char *name)
{
    (void)user;
    fprintf(stderr, " --database %s", name);
}

bool okv_unnamed_logs_check(const struct okv_config *config)
{
    struct count count = {.config = config};

    if (!config->data || config->names_databases)
        return true;
    okv_logs_each(config->data, count_unnamed, &count);
    if (count.unnamed == 0)
        return true;
    fprintf(stderr,
            "okv-server: --data %s: it has logs of databases that have to be named, each with the "
            ":SIZE that it had: give",
            config->data);
    okv_logs_each(config->data, print_option, NULL);
    fprintf(stderr, "\n");
    return false;
}

/* ---- with it ---- */

static void report_unnamed(void *user, const char *name)
{
    struct okv_server *server = user;

    if (is_served(&server->config, name))
        return;
    OKV_STATS_ADD(&server->stats, unnamed_logs, 1);
    okv_log_say(&server->log, OKV_LOG_WARNING, "database",
                "database %s: not served, though %.200s has its log: name it with --database %s, "
                "or move the log away",
                name, server->config.data, name);
}

void okv_unnamed_logs_report(struct okv_server *server)
{
    if (server->config.data)
        okv_logs_each(server->config.data, report_unnamed, server);
}
