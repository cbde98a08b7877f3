/* Moves extents, so that free memory comes together. */
#ifndef OKV_SERVER_STORE_MOVE_H
#define OKV_SERVER_STORE_MOVE_H

#include "server/store/state.h"

/* Copies extents of a loaded bucket to better positions: those in sparse slabs, or `downwards` all
 * that an earlier position is free for. Adds their bytes; returns how many it moved. */
unsigned okv_store_move_extents(struct okv_store *store, struct okv_store_bucket *bucket,
                                bool downwards, uint64_t *bytes);

/* Copies the extent of an item of a loaded bucket elsewhere. Returns its bytes; 0: there is no
 * room, or it stays, since it is long or pinned. */
uint64_t okv_store_move_extent(struct okv_store *store, struct okv_store_bucket *bucket,
                               struct okv_store_item *item);

#endif
