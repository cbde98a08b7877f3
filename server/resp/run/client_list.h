/* The RESP clients of all workers. Any thread. */
#ifndef OKV_SERVER_RESP_RUN_CLIENT_LIST_H
#define OKV_SERVER_RESP_RUN_CLIENT_LIST_H

#include "server/resp/run/client.h"

/* The filters of CLIENT KILL: all must match. */
struct okv_resp_choice {
    int64_t id;                       /* 0: any */
    const struct okv_resp_arg *peer;  /* NULL: any */
    const struct okv_resp_arg *local; /* likewise */
    const struct okv_resp_arg *user;  /* likewise */
    bool is_none;                     /* no client matches */
    uint64_t skips;                   /* id of a client that does not match; or 0 */
};

/* A call looks at OKV_CLIENTS_PER_SCAN clients. `goes_on`: those after the ones of the last call
 * for `by`. Returns whether there are more. */

/* Terminates the matching clients among those that `by` may see, and adds to *count how many there
 * are. */
bool okv_resp_table_kill(struct okv_resp_client *by, const struct okv_resp_choice *choice,
                         bool goes_on, uint32_t *count);

#define OKV_RESP_USER_DEFAULT "default" /* name of the user of a client without one */

int okv_resp_compare_ids(const void *a, const void *b);

struct okv_resp_selection {
    const int64_t *ids; /* [count], in the order of okv_resp_compare_ids() */
    uint32_t count;     /* 0: all */
};

/* Adds the client's own line of CLIENT LIST. */
void okv_resp_table_describe(const struct okv_resp_client *client, struct okv_resp_buffer *out);
/* Adds a line of CLIENT LIST for each selected client that `by` may see: those that use a database
 * of which it is admin, and those of its own user. */
bool okv_resp_table_list(struct okv_resp_client *by, const struct okv_resp_selection *which,
                         bool goes_on, struct okv_resp_buffer *out);

#endif
