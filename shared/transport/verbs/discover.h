/* From rdma://discover/NAME to the address of the server. */
#ifndef OKV_SHARED_TRANSPORT_VERBS_DISCOVER_H
#define OKV_SHARED_TRANSPORT_VERBS_DISCOVER_H

#include "shared/transport/verbs/verbs.h"

/* Fills in host and port of the server that `uri` names. Blocks for a second at most. OKV_EADDRESS
 * when no server has the name, or several have it. */
int okv_verbs_discover(struct okv_uri *uri, uint64_t deadline_ns, struct okv_diag *diag);

#endif
