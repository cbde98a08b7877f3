#include "server/main/status_log.h"

#include <errno.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "server/config/databases.h"
#include "server/core/door.h"
#include "server/database/database.h"
#include "server/database/durable.h"
#include "server/store/region.h"
#include "server/worker/worker.h"
#include "shared/base/mapping.h"
#include "shared/base/size.h"
#include "shared/devices/fabric.h"

void okv_status_log_found(struct okv_server *server, const struct okv_database *database)
{
    const struct okv_durable *durable = database->durable;
    const struct okv_wal_found *found = &durable->found;
    const struct okv_store_eviction *eviction = &database->store.eviction;
    uint64_t evicted = atomic_load(&eviction->evicted_new) + atomic_load(&eviction->evicted_main);

    if (evicted > 0)
        okv_log_say(&server->log, OKV_LOG_WARNING, "database",
                    "database %s: there was no room for all items: %llu were evicted",
                    database->config->name, (unsigned long long)evicted);
    if (found->snapshot == 0 && found->segments == 0)
        okv_log_say(&server->log, OKV_LOG_NOTICE, "database",
                    "database %s: new: there was no log of it in %.200s", durable->name,
                    durable->data);
    okv_log_say(
        &server->log, found->is_unclean ? OKV_LOG_WARNING : OKV_LOG_NOTICE, "database",
        "database %s: %llu items: %llu of a snapshot, and %llu records in %llu "
        "segments, read in %.1f s%s",
        database->config->name, (unsigned long long)atomic_load(&database->store.totals.items),
        (unsigned long long)found->snapshot_items, (unsigned long long)found->records,
        (unsigned long long)found->segments, (double)durable->found_ns / 1e9,
        found->is_unclean ? "; it was not stopped, so changes that were not synced may be lost, "
                            "and versions are raised"
        : found->is_cut   ? "; the last batch was not whole and not answered, and is left out"
                          : "");
}

void okv_status_log_memory_only(struct okv_server *server, const struct okv_database *database)
{
    okv_log_say(&server->log, OKV_LOG_WARNING, "database",
                "database %s: in memory only: its items will be gone when the server ends "
                "(--data DIR keeps them)",
                database->config->name);
}

void okv_status_log_lost(struct okv_server *server, struct okv_database *database)
{
    unsigned long long items = atomic_load(&database->store.totals.items);

    if (!database->durable && items > 0)
        okv_log_say(&server->log, OKV_LOG_WARNING, "database",
                    "database %s: was in memory only; %llu items are gone", database->config->name,
                    items);
}

static const char *limit_text(int resource, char text[OKV_SIZE_TEXT])
{
    struct rlimit limit;

    if (getrlimit(resource, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return "unlimited";
    okv_size_format(limit.rlim_cur, text, OKV_SIZE_TEXT);
    return text;
}

/* Beside the regions there are buffers of clients, and the log's. */
static void warn_of_limit(struct okv_server *server, uint64_t memory, uint64_t limit)
{
    char text[OKV_SIZE_TEXT];

    if (memory <= limit / 8 * 7)
        return;
    okv_size_format(limit, text, sizeof text);
    okv_log_say(&server->log, OKV_LOG_WARNING, "server",
                "the control group may use %s, and the databases take most of it: the kernel may "
                "kill the server as they fill; lower --memory, or raise the limit (memory.max, "
                "MemoryMax=)",
                text);
}

void okv_status_log_begin(struct okv_server *server)
{
    const struct okv_config *config = &server->config;
    char memory_text[OKV_SIZE_TEXT], locked_text[OKV_SIZE_TEXT];
    struct rlimit files = {0};
    uint64_t memory = okv_config_memory(config);

    okv_size_format(memory, memory_text, sizeof memory_text);
    getrlimit(RLIMIT_NOFILE, &files);
    okv_log_say(&server->log, OKV_LOG_NOTICE, "server",
                "version %s, pid %d, memory %s, databases %u, workers %u, max clients %u; limits: "
                "descriptors %llu, locked memory %s",
                OKV_VERSION, (int)getpid(), memory_text, config->database_count, config->workers,
                config->max_clients, (unsigned long long)files.rlim_cur,
                limit_text(RLIMIT_MEMLOCK, locked_text));
    warn_of_limit(server, memory, okv_config_memory_limit(config));
}

/* A server that cannot say so serves all the same. */
static void print_ready(struct okv_server *server)
{
    struct okv_door_text door;

    printf("ready");
    for (unsigned i = 0; i < server->listener_count; i++) {
        okv_door_describe(server, i, &door);
        printf(" %s", door.where);
    }
    for (unsigned i = 0; i < server->socket_count; i++)
        printf(" %s", server->sockets[i].where);
    printf("\n");
    if (fflush(stdout) == 0)
        return;
    okv_log_say(&server->log, OKV_LOG_WARNING, "server",
                "standard output does not take the line `ready': %s", strerror(errno));
    __fpurge(stdout);
    clearerr(stdout);
}

/* A user of such a host expects ofi:// to take its fabric. */
static void warn_of_tcp(struct okv_server *server, const struct okv_door_text *door)
{
    char device[96];

    if (strncmp(door->where, "ofi:", 4) == 0 &&
        (strstr(door->how, "provider net") || strstr(door->how, "provider tcp")) &&
        okv_unused_fabric("", device, sizeof device))
        okv_log_say(&server->log, OKV_LOG_WARNING, "listener",
                    "%s goes over TCP: this host has %s, which okv cannot use yet", door->where,
                    device);
}

/* A NIC keeps few translations: each READ elsewhere costs one more access to memory. */
static void warn_of_small_pages(struct okv_server *server)
{
    for (unsigned i = 0; i < server->database_count; i++) {
        const struct okv_database *database = &server->databases[i];
        if (server->config.pages != OKV_REGION_AUTO || okv_region_is_huge(&database->region) ||
            database->region.length < OKV_REGION_LARGE)
            continue;
        okv_log_say(&server->log, OKV_LOG_WARNING, "database",
                    "database %s: on small pages, with which NICs are slow: reserve %llu huge ones "
                    "before the start for all databases (sysctl vm.nr_hugepages, and on a host of "
                    "several nodes that of the server's); --huge=off omits this line",
                    database->config->name,
                    (unsigned long long)(okv_config_memory(&server->config) / OKV_HUGE_PAGE + 1));
    }
}

void okv_status_log_ready(struct okv_server *server)
{
    struct okv_door_text door;

    for (unsigned i = 0; i < server->listener_count; i++) {
        okv_door_describe(server, i, &door);
        okv_log_say(&server->log, OKV_LOG_NOTICE, "listener", "%s: %s", door.where, door.how);
        warn_of_tcp(server, &door);
    }
    for (unsigned i = 0; i < server->socket_count; i++)
        okv_log_say(&server->log, OKV_LOG_NOTICE, "listener", "%s: %s", server->sockets[i].where,
                    server->sockets[i].how);
    if (server->config.reachable && !server->config.users)
        okv_log_say(&server->log, OKV_LOG_WARNING, "listener",
                    "open: anyone who reaches it from another host can read, write and flush "
                    "everything");
    if (server->config.loopback && !server->config.users)
        okv_log_say(&server->log, OKV_LOG_WARNING, "listener",
                    "%s: every user of this host can read, write and flush everything: name who "
                    "may with --users, or listen on a path (local:///PATH, resp:///PATH)",
                    server->config.loopback);
    warn_of_small_pages(server);
    if (server->config.group[0])
        okv_log_say(&server->log, OKV_LOG_NOTICE, "discovery", "announced as %s in group %s",
                    server->config.name, server->config.group);
    print_ready(server);
}

void okv_status_log_status(struct okv_server *server)
{
    okv_log_say(&server->log, OKV_LOG_NOTICE, "server",
                "status: pid %d, up %llu s, %llu clients of %u, %llu requests wait", (int)getpid(),
                (unsigned long long)(okv_server_uptime_ms(server) / 1000),
                (unsigned long long)(atomic_load(&server->stats.sessions) +
                                     atomic_load(&server->stats.resp_clients)),
                server->config.max_clients,
                (unsigned long long)atomic_load(&server->stats.requests_waiting));
    for (unsigned i = 0; i < server->database_count; i++) {
        const struct okv_database *database = &server->databases[i];
        okv_log_say(&server->log, OKV_LOG_NOTICE, "database",
                    "status: database %s: %llu items, %llu of %llu bytes", database->config->name,
                    (unsigned long long)atomic_load(&database->store.totals.items),
                    (unsigned long long)okv_heap_used(&database->store.heap),
                    (unsigned long long)database->region.length);
    }
}

void okv_status_log_little_room(struct okv_server *server)
{
    for (unsigned i = 0; i < server->listener_count; i++) {
        uint32_t room = okv_workers_room(server, i);
        if (room >= server->config.max_clients)
            continue;
        okv_log_say(&server->log, OKV_LOG_WARNING, "listener",
                    "%s: its device has room for %u clients, and --max-clients is %u: "
                    "takes no more than that; more --workers or fewer --credits make room",
                    server->listeners[i]->where, room, server->config.max_clients);
    }
}
