/* Listening: the socket in the file system, the seals of the regions. */
#ifndef OKV_SHARED_TRANSPORT_LOCAL_LISTEN_H
#define OKV_SHARED_TRANSPORT_LOCAL_LISTEN_H

#include "shared/transport/transport.h"

int okv_local_listen(const struct okv_uri *uri, const struct okv_region *regions, unsigned count,
                     struct okv_listener **out, struct okv_diag *diag);
void okv_local_unlisten(struct okv_listener *listener);

#endif
