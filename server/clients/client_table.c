#include "server/clients/client_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/core/server.h"
#include "server/database/database.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

void okv_client_table_init(struct okv_client_table *table)
{
    TAILQ_INIT(&table->lists[OKV_CLIENT_NATIVE]);
    TAILQ_INIT(&table->lists[OKV_CLIENT_RESP]);
    TAILQ_INIT(&table->half_open);
    pthread_mutex_init(&table->lock, NULL);
}

void okv_client_table_fini(struct okv_client_table *table)
{
    pthread_mutex_destroy(&table->lock);
}

/* Workers add new RESP clients in any order. */
static void insert(struct okv_client_list *list, struct okv_client *client)
{
    struct okv_client *before;

    TAILQ_FOREACH_REVERSE(before, list, okv_client_list, in_table)
    {
        if (before->id < client->id)
            break;
    }
    if (before)
        TAILQ_INSERT_AFTER(list, before, client, in_table);
    else
        TAILQ_INSERT_HEAD(list, client, in_table);
}

void okv_client_table_add(struct okv_client_table *table, struct okv_client *client,
                          bool is_half_open)
{
    client->scanned = NULL;
    LIST_INIT(&client->scanners);
    pthread_mutex_lock(&table->lock);
    insert(&table->lists[client->kind], client);
    client->is_watched = is_half_open;
    if (is_half_open)
        TAILQ_INSERT_TAIL(&table->half_open, client, in_half_open);
    pthread_mutex_unlock(&table->lock);
}

static void set_scanned(struct okv_client *scanner, struct okv_client *scanned)
{
    if (scanner->scanned)
        LIST_REMOVE(scanner, in_scanners);
    scanner->scanned = scanned;
    if (scanned)
        LIST_INSERT_HEAD(&scanned->scanners, scanner, in_scanners);
}

void okv_client_table_remove(struct okv_client_table *table, struct okv_client *client)
{
    struct okv_client *scanner;

    pthread_mutex_lock(&table->lock);
    set_scanned(client, NULL);
    /* Their scans go on with the one that follows. */
    while ((scanner = LIST_FIRST(&client->scanners)))
        set_scanned(scanner, TAILQ_PREV(client, okv_client_list, in_table));
    TAILQ_REMOVE(&table->lists[client->kind], client, in_table);
    okv_client_table_unwatch(table, client);
    pthread_mutex_unlock(&table->lock);
}

void okv_client_table_unwatch(struct okv_client_table *table, struct okv_client *client)
{
    if (client->is_watched)
        TAILQ_REMOVE(&table->half_open, client, in_half_open);
    client->is_watched = false;
}

bool okv_client_table_scan(struct okv_client_table *table, struct okv_client *scanner, bool goes_on,
                           void (*of)(void *user, struct okv_client *client), void *user)
{
    struct okv_client *client, *last = NULL;

    pthread_mutex_lock(&table->lock);
    /* Without one, all that it has looked at have gone. */
    if (goes_on && scanner->scanned)
        client = TAILQ_NEXT(scanner->scanned, in_table);
    else
        client = TAILQ_FIRST(&table->lists[scanner->kind]);
    for (unsigned i = 0; client && i < OKV_CLIENTS_PER_SCAN; i++) {
        of(user, client);
        last = client;
        client = TAILQ_NEXT(client, in_table);
    }
    set_scanned(scanner, client ? last : NULL);
    pthread_mutex_unlock(&table->lock);
    return client != NULL;
}

static uint64_t now_of(const atomic_uint_fast64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

/* The worker may have written a time that is later than ours. */
static uint64_t ms_since(uint64_t ns, uint64_t now_ns)
{
    return now_ns > ns ? (now_ns - ns) / 1000000 : 0;
}

static int write_line(const struct okv_client *client, const char *database, char *out, size_t size)
{
    const struct okv_report_share *report = &client->report;
    uint64_t now_ns = okv_clock_ns();
    char peer[sizeof client->peer];

    /* One word: the address of a local client has spaces. */
    memcpy(peer, client->peer, sizeof peer);
    for (char *at = peer; *at; at++)
        if (*at == ' ')
            *at = '_';
    return snprintf(out, size,
                    "%016" PRIx64 " %s %s %" PRIu64 " %" PRIu64 " %s %" PRIu64 " %" PRIu32
                    " %" PRIu64 " %" PRIu64 " %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %s %s\n",
                    client->id, client->user[0] ? client->user : "-", peer,
                    ms_since(client->created_ns, now_ns), now_of(&client->requests), database,
                    ms_since(now_of(&client->active_ns), now_ns), client->request_slots,
                    now_of(&client->bytes_in), now_of(&client->bytes_out), report->is_due,
                    now_of(&report->gets), now_of(&report->hits), now_of(&client->hits_over),
                    client->transport, client->how);
}

size_t okv_clients_list(struct okv_server *server, unsigned database, uint64_t after, char *out,
                        size_t size)
{
    const struct okv_database_config *config = server->databases[database].config;
    struct okv_client_table *table = server->clients;
    size_t used = 0;

    pthread_mutex_lock(&table->lock);
    for (unsigned kind = OKV_CLIENT_NATIVE; kind <= OKV_CLIENT_RESP && used == 0; kind++) {
        const struct okv_client *client;
        TAILQ_FOREACH(client, &table->lists[kind], in_table)
        {
            if (client->database != database || client->id <= after)
                continue;
            size_t length = (size_t)write_line(client, config->name, out + used, size - used);
            if (length >= size - used)
                break;
            used += length;
        }
    }
    pthread_mutex_unlock(&table->lock);
    return used;
}

int okv_clients_kill(struct okv_server *server, unsigned database, uint64_t id)
{
    enum okv_client_kind kind = id & OKV_CLIENT_RESP_ID ? OKV_CLIENT_RESP : OKV_CLIENT_NATIVE;
    struct okv_client_table *table = server->clients;
    struct okv_client *client;

    pthread_mutex_lock(&table->lock);
    TAILQ_FOREACH(client, &table->lists[kind], in_table)
    {
        if (client->database == database && client->id == id)
            break;
    }
    if (client) {
        atomic_store(&client->is_killed, true);
        okv_server_end_unwanted(server, client->worker, kind);
    }
    pthread_mutex_unlock(&table->lock);
    return client ? 0 : OKV_ENOTFOUND;
}

static bool is_of_the_past(const struct okv_server *server, const struct okv_client *client,
                           unsigned database, uint64_t epoch)
{
    if (client->epoch == 0)
        return false;
    if (client->kind == OKV_CLIENT_RESP)
        return client->epoch <= atomic_load(&server->role_changes);
    return client->database == database && client->epoch != epoch;
}

unsigned okv_clients_depose(struct okv_server *server, unsigned database, uint64_t epoch)
{
    struct okv_client_table *table = server->clients;
    unsigned count = 0;

    pthread_mutex_lock(&table->lock);
    for (unsigned kind = OKV_CLIENT_NATIVE; kind <= OKV_CLIENT_RESP; kind++) {
        struct okv_client *client;
        TAILQ_FOREACH(client, &table->lists[kind], in_table)
        {
            if (!is_of_the_past(server, client, database, epoch))
                continue;
            count++;
            if (!atomic_exchange(&client->is_deposed, true))
                okv_server_end_unwanted(server, client->worker, kind);
        }
    }
    pthread_mutex_unlock(&table->lock);
    return count;
}

struct okv_client_who okv_client_who(const char *peer, const char *user)
{
    struct okv_client_who who;

    snprintf(who.text, sizeof who.text, "%s%s%s%s", peer, user[0] ? " (user " : "", user,
             user[0] ? ")" : "");
    return who;
}
