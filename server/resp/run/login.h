/* The user of a RESP client, and its rights. The thread of the client's worker. */
#ifndef OKV_SERVER_RESP_RUN_LOGIN_H
#define OKV_SERVER_RESP_RUN_LOGIN_H

#include "server/resp/run/client.h"

/* Credentials of AUTH or HELLO. */
struct okv_resp_login {
    char user[OKV_NAME_SIZE];
    const uint8_t *password;
    size_t password_length;
};

/* A new client: has all rights if the server has no users, and none otherwise. */
void okv_resp_login_begin(struct okv_resp_client *client);
/* Takes the rights of the user, and a place. OKV_EDENIED: wrong password; OKV_EREFUSED: there is no
 * place for the user or its address, and the client is closed. */
int okv_resp_log_in(struct okv_resp_client *client, const struct okv_resp_login *login);
/* Back to unauthenticated, without a place. */
void okv_resp_log_out(struct okv_resp_client *client);
/* Reads the rights of the user again. False: it has none. */
bool okv_resp_login_holds(struct okv_resp_client *client);

#endif
