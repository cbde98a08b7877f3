/* The listener: its regions, requests of clients, accept and reject. */
#ifndef OKV_SHARED_TRANSPORT_VERBS_LISTEN_H
#define OKV_SHARED_TRANSPORT_VERBS_LISTEN_H

#include "shared/transport/transport.h"

int okv_verbs_listen(const struct okv_uri *uri, const struct okv_region *regions, unsigned count,
                     struct okv_listener **out, struct okv_diag *diag);
void okv_verbs_unlisten(struct okv_listener *listener);
int okv_verbs_next_request(struct okv_listener *listener, struct okv_request **out);
int okv_verbs_accept(struct okv_request *request, const struct okv_accept *accept);
void okv_verbs_reject(struct okv_request *request, const uint8_t *reason, size_t length);

#endif
