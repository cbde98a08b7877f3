/* Results of orders, as administrators ask for them. */
#ifndef OKV_SERVER_COPIES_RESULTS_H
#define OKV_SERVER_COPIES_RESULTS_H

#include "server/copies/state.h"

/* `text`: "" when the order is carried out, else why not. */
void okv_results_add(struct okv_copies *copies, uint64_t number, const char *text);

#endif
