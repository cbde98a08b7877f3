#include "server/store/maintain.h"

#include "server/store/compact.h"
#include "server/store/pending.h"
#include "server/store/resize.h"

/* A step at least, so that this comes to an end: a change may need more than its size. */
static void make_room(struct okv_store *store, struct okv_store_work *work, uint64_t size)
{
    struct okv_effort effort = OKV_EFFORT;

    effort.evictions = 0; /* which are changes of a batch */
    while (okv_store_make_room(store, work, size, &effort))
        if (okv_heap_has_room(&store->heap, size))
            return;
    atomic_store(&store->table.pending->is_exhausted, true);
}

void okv_store_maintain(struct okv_store *store, struct okv_store_work *work, uint64_t changes)
{
    struct okv_store_pending *pending = store->table.pending;
    uint64_t wanted = atomic_exchange(&pending->wants_room, 0);
    bool was_direct = pending->is_direct;

    atomic_store(&pending->is_exhausted, false);
    pending->is_direct = true;
    while (changes-- > 0)
        okv_store_resize(store, work);
    if (wanted)
        make_room(store, work, wanted);
    pending->is_direct = was_direct;
    okv_store_take_slack(store);
}
