/* Counts how a copy came to lead and to follow, for those who watch a cluster. */
#ifndef OKV_SERVER_COPIES_ELECTIONS_H
#define OKV_SERVER_COPIES_ELECTIONS_H

#include "server/copies/state.h"

/* After each step of its protocol. */
void okv_elections_note(struct okv_copy *copy);

#endif
