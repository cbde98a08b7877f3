/* One connection: its memory, where its completions find it, and how it begins to end. */
#ifndef OKV_SHARED_TRANSPORT_VERBS_CONN_H
#define OKV_SHARED_TRANSPORT_VERBS_CONN_H

#include "shared/transport/verbs/verbs.h"

/* A connection with its queue pair in the reset state. `region` is what a server lends; a client
 * has NULL. `id` stays the caller's until `conn->id` is set. Any thread. OKV_EAGAIN: the endpoint
 * is full. */
int okv_verbs_conn_new(struct verbs_endpoint *endpoint, const struct verbs_region *region,
                       struct verbs_conn **out, struct okv_diag *diag);
/* Frees a connection in no list; `conn->id` must be destroyed. Any thread. */
void okv_verbs_conn_free(struct verbs_conn *conn);
/* From now on the completions of the connection are found by its queue pair's number. */
void okv_verbs_conn_admit(struct verbs_conn *conn);
/* From now on its completions are dropped. */
void okv_verbs_conn_expel(struct verbs_conn *conn);
/* NULL: there is none. */
struct verbs_conn *okv_verbs_conn_find(struct verbs_endpoint *endpoint, uint32_t qp_num);
int okv_verbs_set_remote(struct okv_conn *conn, uint64_t address, uint64_t length, uint32_t rkey);
/* Starts to end a connection, once; `status` is what OKV_EVENT_CLOSED will say. */
void okv_verbs_conn_fail(struct verbs_conn *conn, int status);

#endif
