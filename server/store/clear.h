/*
 * Empties a range of the heap, where items are evicted, for a value that needs its pages in a row.
 *
 * The heap knows the hash of the key of each extent (owners.h). So the items in a range are found
 * by their addresses, whatever the size of the table: cold ones are evicted, others are copied
 * elsewhere. Nothing is allocated in the range meanwhile. Extents that no item refers to, as of
 * values that are under way, and pinned ones stay, and the range is given up.
 */
#ifndef OKV_SERVER_STORE_CLEAR_H
#define OKV_SERVER_STORE_CLEAR_H

#include <stdbool.h>

#include "server/store/state.h"

/* NULL: there is no memory. */
struct okv_store_clearing *okv_store_clearing_create(void);
/* Accepts NULL. */
void okv_store_clearing_destroy(struct okv_store_clearing *clearing);

/* Bytes of the shortest range: some slabs. */
#define OKV_CLEAR_LEAST (UINT64_C(32) << 10)

/* Whether a range is being emptied. Any thread. */
bool okv_store_clear_goes_on(const struct okv_store *store);

/* What a step came to. */
enum okv_clear {
    OKV_CLEAR_GOES_ON,
    OKV_CLEAR_WAITS,  /* until the batch of the log is published */
    OKV_CLEAR_ENDS,   /* a range is free */
    OKV_CLEAR_FAILED, /* a range could not be emptied, or none was found */
};
/* Takes a step towards `size` free bytes in a row. No bucket may be locked. */
enum okv_clear okv_store_clear(struct okv_store *store, struct okv_store_work *work, uint64_t size);
/* Takes all steps for a range, from which items are moved, and not evicted. Likewise. */
void okv_store_clear_by_moves(struct okv_store *store, struct okv_store_work *work, uint64_t size);

#endif
