#include "server/resp/run/client.h"

#include <stdio.h>

#include "server/core/server.h"
#include "server/resp/run/shared.h"

#define HELLO_MS 10000u /* without --hello-ms */

void okv_resp_assign(struct okv_resp *resp, struct okv_resp_client *client)
{
    const struct okv_resp_listener *listener = client->listener;

    client->resp = resp;
    client->protocol = 2;
    client->common.kind = OKV_CLIENT_RESP;
    client->common.id = OKV_CLIENT_RESP_ID | client->id;
    client->common.worker = resp->worker;
    client->common.transport = listener && listener->has_tls ? "resps" : "resp";
    client->common.how = listener ? listener->where : "-";
    atomic_fetch_add(&resp->clients, 1);
    pthread_mutex_lock(&resp->lock);
    TAILQ_INSERT_TAIL(&resp->inbox, client, in_all);
    atomic_store(&resp->has_inbox, true);
    pthread_mutex_unlock(&resp->lock);
    okv_server_wake(resp->server, resp->worker);
}

void okv_resp_terminate(struct okv_resp_client *client)
{
    atomic_store(&client->common.is_killed, true);
    okv_server_end_unwanted(client->resp->server, client->resp->worker, OKV_CLIENT_RESP);
}

void okv_resp_defer(struct okv_resp_client *client, unsigned database, uint64_t batch, size_t from)
{
    if (!client->commit.batch)
        TAILQ_INSERT_TAIL(&client->resp->deferred, client, in_deferred);
    if (client->commit.batch != batch)
        client->commit.from = from; /* an earlier batch is committed: its replies may leave */
    client->commit.batch = batch;
    client->commit.database = database;
}

void okv_resp_release(struct okv_resp_client *client)
{
    if (client->commit.batch)
        TAILQ_REMOVE(&client->resp->deferred, client, in_deferred);
    client->commit.batch = 0;
}

uint64_t okv_resp_hello_ns(const struct okv_server *server)
{
    uint32_t hello_ms = server->config.hello_ms;

    return (hello_ms ? hello_ms : HELLO_MS) * UINT64_C(1000000);
}

bool okv_resp_is_short_of_memory(const struct okv_resp_client *client)
{
    return !client->is_authenticated ||
           atomic_load(&client->resp->shared->memory) >= OKV_RESP_MEMORY_MAX;
}

/* ---- what others read of a client ---- */

static void lock(struct okv_resp_client *client)
{
    pthread_mutex_lock(&client->resp->server->clients->lock);
}

static void unlock(struct okv_resp_client *client)
{
    pthread_mutex_unlock(&client->resp->server->clients->lock);
}

void okv_resp_client_set_text(struct okv_resp_client *client, char to[OKV_RESP_NAME_MAX],
                              const struct okv_resp_arg *text)
{
    lock(client);
    snprintf(to, OKV_RESP_NAME_MAX, "%.*s", (int)text->length, (const char *)text->text);
    unlock(client);
}

void okv_resp_client_set_user(struct okv_resp_client *client, const char *user)
{
    lock(client);
    snprintf(client->common.user, sizeof client->common.user, "%s", user);
    unlock(client);
}

void okv_resp_client_set_database(struct okv_resp_client *client, unsigned database)
{
    lock(client);
    client->common.database = database;
    unlock(client);
}

void okv_resp_client_set_protocol(struct okv_resp_client *client, unsigned protocol)
{
    lock(client);
    client->protocol = protocol;
    unlock(client);
}
