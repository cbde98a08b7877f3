/* Making room in a full heap: sweep, merge, compact. */
#ifndef OKV_SERVER_STORE_COMPACT_H
#define OKV_SERVER_STORE_COMPACT_H

#include <stdbool.h>
#include <stdint.h>

#include "server/core/turn.h"
#include "server/store/state.h"

/* Takes one step that may make room for `size` bytes. Returns true when it is worth trying the
 * change again. No bucket may be locked. With work->in_steps a step is short. */
bool okv_store_make_room(struct okv_store *store, struct okv_store_work *work, uint64_t size,
                         struct okv_effort *effort);
/* Makes the next steps compact the whole heap, even if little has changed since the last pass. */
void okv_store_compact_again(struct okv_store *store);

#endif
