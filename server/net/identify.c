#include "server/net/identify.h"

#include "server/session/session.h"

#include <stdio.h>
#include <string.h>

#include "server/core/server.h"
#include "server/identity/authority.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/identity/proof.h"

static bool has_users(const struct okv_server *server)
{
    return server->config.users != NULL;
}

static int prove(struct okv_server *server, const struct okv_request *request,
                 const struct okv_handshake_client *client, struct okv_arrival_identity *out)
{
    struct okv_claimant claimant = {
        .hello = request->hello,
        .binding = request->binding.bytes,
        .binding_length = request->binding.length,
        .key_id = client->key_id,
        .proof = client->proof,
    };
    uint64_t now_ns = okv_clock_ns();

    memcpy(claimant.client_id, client->client_id, sizeof claimant.client_id);
    memcpy(claimant.nonce, client->nonce, sizeof claimant.nonce);
    if (client->key_id == 0) {
        okv_authority_challenge(server->authority, &claimant, now_ns, out->cookie);
        return OKV_REJECT_CHALLENGE;
    }
    switch (okv_authority_decide(server->authority, &claimant, now_ns, &out->of, out->cookie)) {
    case OKV_VERDICT_PROVEN:
        return 0;
    case OKV_VERDICT_STALE:
        return OKV_REJECT_STALE;
    case OKV_VERDICT_DENIED:
        break;
    }
    return OKV_REJECT_DENIED;
}

int okv_identify(struct okv_server *server, const struct okv_request *request,
                 const struct okv_handshake_client *client, struct okv_arrival_identity *out)
{
    *out = (struct okv_arrival_identity){.rights = OKV_RIGHTS_ALL};
    if (has_users(server)) {
        int reason = prove(server, request, client, out);
        if (reason)
            return reason;
    }
    bool is_there = client->database != OKV_HANDSHAKE_NO_DATABASE;
    if (has_users(server)) /* no user learns which other databases there are */
        out->rights = is_there ? out->of.found->rights[client->database] : 0;
    if (!out->rights)
        return OKV_REJECT_NO_RIGHT;
    return is_there ? 0 : OKV_REJECT_DATABASE;
}

void okv_identify_prove(const struct okv_request *request,
                        const struct okv_arrival_identity *identity,
                        struct okv_wire_welcome *welcome)
{
    const struct okv_exchange exchange = {
        .hello = request->hello,
        .cookie = identity->cookie,
        .binding = request->binding.bytes,
        .binding_length = request->binding.length,
        .user = identity->of.user,
    };

    if (identity->of.key)
        okv_proof_server(identity->of.key, &exchange, (const uint8_t *)welcome, OKV_WELCOME_PROVEN,
                         welcome->proof);
}

/* Gives sessions the rights that they have now, and has workers do so for RESP clients. Those
 * without any end soon. */
static void apply_rights(struct okv_server *server)
{
    struct okv_client_table *table = server->clients;
    struct okv_client *client;

    pthread_mutex_lock(&table->lock);
    TAILQ_FOREACH(client, &table->lists[OKV_CLIENT_NATIVE], in_table)
    {
        unsigned rights = okv_users_rights(server->authority->users, client->user,
                                           client->fingerprint, client->database);
        atomic_store(&((struct okv_session *)client)->rights, rights);
        if (rights == 0)
            okv_server_end_unwanted(server, client->worker, OKV_CLIENT_NATIVE);
    }
    pthread_mutex_unlock(&table->lock);
    for (unsigned i = 0; i < server->config.workers; i++)
        okv_server_end_unwanted(server, i, OKV_CLIENT_RESP);
}

void okv_identify_reload(struct okv_server *server, bool is_of_client)
{
    struct okv_diag diag = {.text = ""};
    enum okv_log_level level = OKV_LOG_NOTICE;
    char text[OKV_LOG_TEXT_MAX];

    if (!has_users(server))
        return;
    if (okv_authority_reload(server->authority, &diag)) {
        OKV_STATS_ADD(&server->stats, users_refused, 1);
        level = OKV_LOG_WARNING;
        snprintf(text, sizeof text, "users stay as they were: %s", diag.text);
    } else {
        apply_rights(server);
        OKV_STATS_ADD(&server->stats, users_loaded, 1); /* who waits for it finds the new rights */
        snprintf(text, sizeof text, "users loaded from %.150s", server->config.users);
    }
    if (is_of_client)
        okv_log_line(&server->log, level, "users", okv_clock_ns(), text);
    else
        okv_log_say(&server->log, level, "users", "%s", text);
}
