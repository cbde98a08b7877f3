/* Orders of administrators, and what they are told. */
#ifndef OKV_SERVER_COPIES_ORDERS_H
#define OKV_SERVER_COPIES_ORDERS_H

#include "server/copies/state.h"

/* Takes the orders that have come. */
void okv_orders_take(struct okv_copies *copies);
/* Renews the report, if something has changed. */
void okv_orders_report(struct okv_copies *copies);
/* `text`: "" when the order is carried out, else why not. */
void okv_orders_answer(struct okv_copies *copies, uint64_t number, const char *text);
void okv_orders_end(struct okv_copies *copies);

#endif
