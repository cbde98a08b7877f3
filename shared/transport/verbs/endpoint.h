/* Endpoints: how they are made and freed. closing.h ends them. */
#ifndef OKV_SHARED_TRANSPORT_VERBS_ENDPOINT_H
#define OKV_SHARED_TRANSPORT_VERBS_ENDPOINT_H

#include "shared/transport/verbs/verbs.h"

struct verbs_endpoint_params {
    struct ibv_context *verbs;
    struct verbs_domain domain;
    bool owns_verbs; /* on failure the caller keeps both */
    const struct verbs_listener *listener;
    struct rdma_event_channel *cm;
    struct okv_message_limits limits;
    unsigned max_conns;
    unsigned reads_per_conn;
    unsigned vector; /* of completions: which processor is interrupted */
};

int okv_verbs_endpoint_new(const struct verbs_endpoint_params *params, struct verbs_endpoint **out,
                           struct okv_diag *diag);
int okv_verbs_endpoint_create(struct okv_listener *listener,
                              const struct okv_message_limits *limits, unsigned max_conns,
                              struct okv_endpoint **out, struct okv_diag *diag);
/* Frees one that has no connections. */
void okv_verbs_endpoint_free(struct verbs_endpoint *endpoint);

#endif
