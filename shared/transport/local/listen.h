/* The listener: requests of clients, accept and reject. */
#ifndef OKV_SHARED_TRANSPORT_LOCAL_LISTEN_H
#define OKV_SHARED_TRANSPORT_LOCAL_LISTEN_H

#include "shared/transport/transport.h"

int okv_local_listen(const struct okv_uri *uri, const struct okv_region *regions, unsigned count,
                     struct okv_listener **out, struct okv_diag *diag);
void okv_local_unlisten(struct okv_listener *listener);
int okv_local_accept(struct okv_request *request, const struct okv_accept *accept);
void okv_local_reject(struct okv_request *request, const uint8_t *reason, size_t length);

#endif
