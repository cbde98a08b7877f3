/* When a server hands over what it leads without a command. */
#ifndef OKV_SERVER_COPIES_LEAVING_H
#define OKV_SERVER_COPIES_LEAVING_H

#include "server/copies/state.h"

/* In each pass. */
void okv_leaving_run(struct okv_copies *copies);

#endif
