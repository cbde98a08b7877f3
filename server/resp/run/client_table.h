/* All RESP clients of the server, whichever worker has them. */
#ifndef OKV_SERVER_RESP_RUN_CLIENT_TABLE_H
#define OKV_SERVER_RESP_RUN_CLIENT_TABLE_H

#include "server/resp/run/client.h"

/* Which clients a CLIENT KILL means: those that have all that is named. */
struct okv_resp_choice {
    int64_t id;                       /* 0: any */
    const struct okv_resp_arg *peer;  /* NULL: any */
    const struct okv_resp_arg *local; /* likewise */
    const struct okv_resp_arg *user;  /* likewise */
    bool is_none;                     /* there are no such clients */
    uint64_t skips;                   /* the id of one that is not meant; 0: none is spared */
};

void okv_resp_table_add(struct okv_resp_client *client);
void okv_resp_table_remove(struct okv_resp_client *client);

/* Has the workers of those that it would list end them. Returns how many there are. */
unsigned okv_resp_table_kill(const struct okv_resp_client *by,
                             const struct okv_resp_choice *choice);

#define OKV_RESP_USER_DEFAULT "default" /* what one without a user is called */

int okv_resp_compare_ids(const void *a, const void *b);

struct okv_resp_selection {
    const int64_t *ids; /* [count], in the order of okv_resp_compare_ids() */
    uint32_t count;     /* 0: all */
};

/* Adds a line, as CLIENT LIST has it, for each of the selected clients that use a database of which
 * `by` is admin, or have its user. */
void okv_resp_table_list(const struct okv_resp_client *by, const struct okv_resp_selection *which,
                         struct okv_resp_buffer *out);

/* RESP clients as clients of the server. */
extern const struct okv_client_source okv_resp_clients;

#endif
