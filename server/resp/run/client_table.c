#include "server/resp/run/client_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/database/database.h"
#include "server/resp/proto/args.h"
#include "server/resp/run/call.h"
#include "server/resp/run/shared.h"
#include "server/worker/worker.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* In ids of RESP clients where they stand beside those of sessions, which have no such bit. */
#define ID_BIT (UINT64_C(1) << 63)
#define LINE_MAX_TEXT 1024 /* more than names, addresses and numbers can have */

/* What CLIENT LIST calls it. */
static const char *user_of(const struct okv_resp_client *client)
{
    return client->user[0] ? client->user : OKV_RESP_USER_DEFAULT;
}

static bool is_text(const struct okv_resp_arg *arg, const char *text)
{
    return !arg || (strlen(text) == arg->length && memcmp(text, arg->text, arg->length) == 0);
}

/* Workers meet new clients in any order. */
void okv_resp_table_add(struct okv_resp_client *client)
{
    struct okv_resp_shared *shared = client->resp->shared;
    struct okv_resp_client *before;

    pthread_mutex_lock(&shared->lock);
    TAILQ_FOREACH_REVERSE(before, &shared->clients, okv_resp_client_list, in_table)
    {
        if (before->id < client->id)
            break;
    }
    if (before)
        TAILQ_INSERT_AFTER(&shared->clients, before, client, in_table);
    else
        TAILQ_INSERT_HEAD(&shared->clients, client, in_table);
    pthread_mutex_unlock(&shared->lock);
}

void okv_resp_table_remove(struct okv_resp_client *client)
{
    struct okv_resp_shared *shared = client->resp->shared;

    pthread_mutex_lock(&shared->lock);
    TAILQ_REMOVE(&shared->clients, client, in_table);
    pthread_mutex_unlock(&shared->lock);
}

/* ---- for administrators ---- */

static uint64_t now_of(const atomic_uint_fast64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static uint64_t ms_since(uint64_t since_ns, uint64_t now_ns)
{
    return now_ns > since_ns ? (now_ns - since_ns) / 1000000u : 0;
}

/* docs/protocol.md section 2.5. */
static int write_line(const struct okv_resp_client *client, const char *database, char *out,
                      size_t size)
{
    const struct okv_resp_listener *listener = client->listener;
    uint64_t now_ns = okv_clock_ns();

    return snprintf(out, size,
                    "%016" PRIx64 " %s %s %" PRIu64 " %" PRIu64 " %s %" PRIu64 " 0 %" PRIu64
                    " %" PRIu64 " 0 0 0 %s %s\n",
                    ID_BIT | client->id, client->user[0] ? client->user : "-",
                    listener && listener->path ? client->address : client->peer,
                    ms_since(client->created_ns, now_ns), now_of(&client->requests), database,
                    ms_since(now_of(&client->active_ns), now_ns), now_of(&client->bytes_in),
                    now_of(&client->bytes_out), listener && listener->has_tls ? "resps" : "resp",
                    listener ? listener->where : "-");
}

static size_t list_clients(struct okv_server *server, unsigned database, uint64_t after, char *out,
                           size_t size)
{
    struct okv_resp_shared *shared = server->resp_shared;
    const struct okv_resp_client *client;
    size_t used = 0;

    pthread_mutex_lock(&shared->lock);
    TAILQ_FOREACH(client, &shared->clients, in_table)
    {
        if (client->database != database || (ID_BIT | client->id) <= after)
            continue;
        size_t length = (size_t)write_line(client, server->databases[database].config->name,
                                           out + used, size - used);
        if (length >= size - used)
            break;
        used += length;
    }
    pthread_mutex_unlock(&shared->lock);
    return used;
}

static int end_client(struct okv_server *server, unsigned database, uint64_t id)
{
    struct okv_resp_shared *shared = server->resp_shared;
    struct okv_resp_client *client;

    pthread_mutex_lock(&shared->lock);
    TAILQ_FOREACH(client, &shared->clients, in_table)
    {
        if (client->database == database && (ID_BIT | client->id) == id)
            break;
    }
    if (client)
        okv_resp_terminate(client);
    pthread_mutex_unlock(&shared->lock);
    return client ? 0 : OKV_ENOTFOUND;
}

static void recheck(struct okv_server *server)
{
    for (unsigned i = 0; i < server->config.workers; i++)
        okv_resp_recheck(&server->workers[i].resp);
}

const struct okv_client_source okv_resp_clients = {list_clients, end_client, recheck};

/* ---- for clients ---- */

/* An admin sees all clients of the database, others those of their own user. */
static bool may_see(const struct okv_resp_client *by, const struct okv_resp_client *client)
{
    return okv_resp_may(by, client->database, OKV_RIGHT_ADMIN) ||
           strcmp(client->user, by->user) == 0;
}

unsigned okv_resp_table_kill(const struct okv_resp_client *by, const struct okv_resp_choice *choice)
{
    struct okv_resp_shared *shared = by->resp->shared;
    struct okv_resp_client *client;
    unsigned count = 0;

    pthread_mutex_lock(&shared->lock);
    TAILQ_FOREACH(client, &shared->clients, in_table)
    {
        if (choice->is_none || (choice->id && (uint64_t)choice->id != client->id) ||
            client->id == choice->skips || !is_text(choice->peer, client->peer) ||
            !is_text(choice->local, client->local) || !is_text(choice->user, user_of(client)) ||
            !may_see(by, client))
            continue;
        okv_resp_terminate(client);
        count++;
    }
    pthread_mutex_unlock(&shared->lock);
    return count;
}

/* What okv has nothing for is 0. */
static void add_line(const struct okv_resp_client *client, uint64_t unserved, uint64_t now_ns,
                     struct okv_resp_buffer *out)
{
    const char *command = atomic_load_explicit(&client->command, memory_order_relaxed);
    uint64_t active_ns = atomic_load_explicit(&client->active_ns, memory_order_relaxed);
    uint64_t unsent = atomic_load_explicit(&client->unsent, memory_order_relaxed);
    uint64_t queued_bytes = atomic_load_explicit(&client->queued_bytes, memory_order_relaxed);
    int queued = atomic_load_explicit(&client->queued, memory_order_relaxed);
    uint64_t idle_ns = now_ns > active_ns ? now_ns - active_ns : 0;
    char line[LINE_MAX_TEXT], name[32];

    okv_resp_lower(command ? command : "NULL", name, sizeof name);
    int length = snprintf(
        line, sizeof line,
        "id=%" PRIu64 " addr=%s laddr=%s fd=%d name=%s age=%" PRIu64 " idle=%" PRIu64
        " flags=%s db=%u sub=0 psub=0 ssub=0 multi=%d qbuf=%" PRIu64
        " qbuf-free=0 argv-mem=0 multi-mem=%" PRIu64 " rbs=0 rbp=0 obl=0 oll=0 omem=%" PRIu64
        " tot-mem=%" PRIu64 " events=%s cmd=%s user=%s redir=-1 resp=%u\n",
        client->id, client->peer, client->local, client->stream.fd, client->name,
        (now_ns - client->created_ns) / 1000000000u, idle_ns / 1000000000u, queued < 0 ? "N" : "x",
        client->database, queued, unserved, queued_bytes, unsent, unserved + queued_bytes + unsent,
        unsent ? "rw" : "r", name, user_of(client), client->protocol);
    okv_resp_buffer_add(out, line, (size_t)length);
}

int okv_resp_compare_ids(const void *a, const void *b)
{
    const int64_t *one = a, *other = b;

    return (*one > *other) - (*one < *other);
}

static bool is_listed(const struct okv_resp_client *client, const struct okv_resp_selection *which)
{
    const int64_t id = (int64_t)client->id;

    return which->count == 0 ||
           bsearch(&id, which->ids, which->count, sizeof id, okv_resp_compare_ids);
}

void okv_resp_table_list(const struct okv_resp_client *by, const struct okv_resp_selection *which,
                         struct okv_resp_buffer *out)
{
    struct okv_resp_shared *shared = by->resp->shared;
    const struct okv_resp_client *client;
    uint64_t now_ns = okv_clock_ns();

    pthread_mutex_lock(&shared->lock);
    TAILQ_FOREACH(client, &shared->clients, in_table)
    {
        uint64_t unserved = client == by
                                ? by->in.used - by->at
                                : atomic_load_explicit(&client->unserved, memory_order_relaxed);
        if (is_listed(client, which) && may_see(by, client))
            add_line(client, unserved, now_ns, out);
    }
    pthread_mutex_unlock(&shared->lock);
}
