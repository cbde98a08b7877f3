/* All RESP clients of the server, whichever worker has them. */
#ifndef OKV_SERVER_RESP_LISTING_H
#define OKV_SERVER_RESP_LISTING_H

#include "server/resp/client.h"

/* Which clients a CLIENT KILL means: those that have all that is named. */
struct okv_resp_choice {
    int64_t id;                      /* 0: any */
    const struct okv_resp_arg *peer; /* NULL: any */
    const struct okv_resp_arg *user; /* likewise */
    uint64_t skips;                  /* the id of one that is not meant; 0: none is spared */
};

/* Has their workers end them. Returns how many there are. */
unsigned okv_resp_clients_kill(const struct okv_resp_client *by,
                               const struct okv_resp_choice *choice);

/* Adds a line, as CLIENT LIST has it, for each client, or for `only`. Who has not the right admin
 * sees those of its own user. */
void okv_resp_clients_list(const struct okv_resp_client *by, const struct okv_resp_client *only,
                           struct okv_resp_buffer *out);

#endif
