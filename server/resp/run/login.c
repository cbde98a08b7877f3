#include "server/resp/run/login.h"

#include <stdio.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"

void okv_resp_login_begin(struct okv_resp_client *client)
{
    client->is_known = client->resp->server->config.users == NULL;
    memset(client->rights, client->is_known ? (int)OKV_RIGHTS_ALL : 0, sizeof client->rights);
}

static void set_user(struct okv_resp_client *client, const char *name)
{
    struct okv_resp_door *door = &client->resp->server->resp_door;

    pthread_mutex_lock(&door->lock);
    snprintf(client->user, sizeof client->user, "%s", name);
    pthread_mutex_unlock(&door->lock);
}

/* Counts the client for its user instead of nobody. */
static bool move_in(struct okv_resp_client *client)
{
    struct okv_admission *admission = &client->resp->server->admission;
    const struct okv_admission_client who = {
        .user = client->user,
        .address = client->address,
        .is_admin = client->rights[client->database] & OKV_RIGHT_ADMIN,
    };

    if (client->has_place)
        okv_admission_release(admission, client->place);
    client->has_place = okv_admission_admit(admission, &who, NULL, &client->place) == 0;
    return client->has_place;
}

int okv_resp_log_in(struct okv_resp_client *client, const struct okv_resp_login *login)
{
    struct okv_server *server = client->resp->server;
    struct okv_login_grant grant;

    if (!okv_authority_log_in(&server->authority, login->user, login->password,
                              login->password_length, &grant)) {
        OKV_STATS_ADD(&server->stats, rejected_denied, 1);
        return OKV_EDENIED;
    }
    set_user(client, login->user);
    memcpy(client->fingerprint, grant.fingerprint, sizeof client->fingerprint);
    memcpy(client->rights, grant.rights, sizeof client->rights);
    client->is_known = true;
    if (move_in(client))
        return 0;
    OKV_STATS_ADD(&server->stats, rejected_user, 1);
    client->is_ending = true;
    return OKV_EREFUSED;
}

void okv_resp_log_out(struct okv_resp_client *client)
{
    set_user(client, "");
    if (client->is_known)
        client->unknown_ns = okv_clock_ns();
    okv_resp_login_begin(client);
    client->is_ending = client->is_ending || !move_in(client);
}

bool okv_resp_login_holds(struct okv_resp_client *client)
{
    struct okv_server *server = client->resp->server;
    unsigned all = 0;

    if (!server->config.users || !client->is_known)
        return true;
    okv_authority_rights(&server->authority, client->user, client->fingerprint, client->rights);
    for (unsigned i = 0; i < server->database_count; i++)
        all |= client->rights[i];
    return all != 0;
}
