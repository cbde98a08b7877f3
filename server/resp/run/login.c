#include "server/resp/run/login.h"

#include <string.h>

#include "server/clients/refusal.h"
#include "server/core/server.h"
#include "server/identity/authority.h"
#include "server/resp/run/place.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/format/wire.h"

void okv_resp_login_begin(struct okv_resp_client *client)
{
    client->is_authenticated = client->resp->server->config.users == NULL;
    memset(client->rights, client->is_authenticated ? (int)OKV_RIGHTS_ALL : 0,
           sizeof client->rights);
}

int okv_resp_log_in(struct okv_resp_client *client, const struct okv_resp_login *login)
{
    struct okv_server *server = client->resp->server;
    struct okv_login_grant grant;

    if (!okv_authority_log_in(server->authority, login->user, login->password,
                              login->password_length, &grant)) {
        const struct okv_refusal refusal = {client->common.peer,
                                            login->user,
                                            false,
                                            OKV_REJECT_DENIED,
                                            "the server knows no such user with this password: "
                                            "`okv keygen --password KEYFILE' prints it",
                                            ""};
        OKV_STATS_ADD(&server->stats, rejected_denied, 1);
        okv_refusal_log(server, &refusal);
        return OKV_EDENIED;
    }
    okv_resp_client_set_user(client, login->user);
    memcpy(client->common.fingerprint, grant.fingerprint, sizeof client->common.fingerprint);
    memcpy(client->rights, grant.rights, sizeof client->rights);
    client->is_authenticated = true;
    if (okv_resp_place_take(server, client) == 0)
        return 0;
    client->state = OKV_RESP_DRAINING;
    return OKV_EREFUSED;
}

void okv_resp_log_out(struct okv_resp_client *client)
{
    okv_resp_client_set_user(client, "");
    if (client->is_authenticated)
        client->unauthenticated_ns = okv_clock_ns();
    okv_resp_login_begin(client);
    if (!okv_resp_place_wait(client->resp->server, client))
        client->state = OKV_RESP_DRAINING;
}

bool okv_resp_login_holds(struct okv_resp_client *client)
{
    struct okv_server *server = client->resp->server;
    unsigned all = 0;

    if (!server->config.users || !client->is_authenticated)
        return true;
    okv_authority_rights(server->authority, client->common.user, client->common.fingerprint,
                         client->rights);
    for (unsigned i = 0; i < server->database_count; i++)
        all |= client->rights[i];
    return all != 0;
}
