/* What the role of a copy means to its clients. */
#ifndef OKV_SERVER_COPIES_ROLE_H
#define OKV_SERVER_COPIES_ROLE_H

#include "server/copies/state.h"

/* Shows the status of the protocol to clients: the lease in the status block, whether writes are
 * refused, and who may stay connected. True: it is to be called again soon, since clients of an
 * earlier epoch are still there. */
bool okv_role_show(struct okv_copy *copy);

#endif
