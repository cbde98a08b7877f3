/* Orders of administrators, and what they are told. */
#ifndef OKV_SERVER_COPIES_ORDERS_H
#define OKV_SERVER_COPIES_ORDERS_H

#include "server/copies/state.h"

/* Takes the orders that have come. */
void okv_orders_take(struct okv_copies *copies);
void okv_orders_end(struct okv_copies *copies);

#endif
