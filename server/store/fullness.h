/* Reports when a store begins to refuse writes for lack of room, and when it takes them again. */
#ifndef OKV_SERVER_STORE_FULLNESS_H
#define OKV_SERVER_STORE_FULLNESS_H

#include "server/store/store.h"

/* `report` may come from any thread that writes; it does not call the store. Before the first
 * write. */
void okv_store_report_fullness(struct okv_store *store, void (*report)(void *user, bool is_full),
                               void *user);

/* What helps a store that refuses a write now, for operators: a clause. Any thread. */
const char *okv_store_fullness_advice(const struct okv_store *store);

/* A write ended with OKV_EFULL, or with 0. Any thread. */
void okv_store_note_full(struct okv_store *store);
void okv_store_note_taken(struct okv_store *store);

#endif
