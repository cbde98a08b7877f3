/* Who a RESP client is, and what its user may do. The thread of the client's worker. */
#ifndef OKV_SERVER_RESP_RUN_LOGIN_H
#define OKV_SERVER_RESP_RUN_LOGIN_H

#include "server/resp/run/client.h"

/* Who a client says it is. */
struct okv_resp_login {
    char user[OKV_NAME_SIZE];
    const uint8_t *password;
    size_t password_length;
};

/* A client that has said nothing yet: it may do everything where the server serves everybody, and
 * else nothing. */
void okv_resp_login_begin(struct okv_resp_client *client);
/* With the password of the user it has that user's rights. OKV_EDENIED: it is another one;
 * OKV_EREFUSED: there is no room for another client of this user, and this one ends. */
int okv_resp_log_in(struct okv_resp_client *client, const struct okv_resp_login *login);
/* It is as one that has said nothing, and counts as one; without room for another it ends. */
void okv_resp_log_out(struct okv_resp_client *client);
/* Looks whether the user has other rights now. False: it has none. */
bool okv_resp_login_holds(struct okv_resp_client *client);

#endif
