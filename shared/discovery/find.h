/* From SCHEME://discover/NAME to the address of the server. */
#ifndef OKV_SHARED_DISCOVERY_FIND_H
#define OKV_SHARED_DISCOVERY_FIND_H

#include "shared/base/diag.h"
#include "shared/base/uri.h"

/* Fills in host and port of the server that `uri` names, and leaves the rest of `uri` as it is.
 * Only servers that announce a URI of the same scheme count. Blocks for a second at most once its
 * ports are open, and not beyond half of the time to `deadline_ns`. OKV_EADDRESS: no server has the
 * name, or several have it; what okv_discovery_search() returns. */
int okv_discovery_find(struct okv_uri *uri, uint64_t deadline_ns, struct okv_diag *diag);

#endif
