/* Requests of clients: accept and reject. */
#ifndef OKV_SHARED_TRANSPORT_LOCAL_ACCEPT_H
#define OKV_SHARED_TRANSPORT_LOCAL_ACCEPT_H

#include "shared/transport/common/pending.h"

/* How clients are greeted and their hellos are read. */
extern const struct okv_pending_ops okv_local_pending_ops;

int okv_local_accept(struct okv_request *request, const struct okv_accept *accept);
void okv_local_reject(struct okv_request *request, const uint8_t *reason, size_t length);

#endif
