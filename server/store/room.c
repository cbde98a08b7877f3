#include "server/store/room.h"

#include <limits.h>

#include "server/store/compact.h"
#include "server/store/fullness.h"
#include "server/store/pending.h"
#include "shared/base/error.h"

/* After a round that left nothing to be done, changes of the table before another one. */
#define PAUSE 64

static const struct okv_store_effort at_once = OKV_STORE_EFFORT;
static const struct okv_store_effort in_short_steps = {
    .merges = 1024, .sweeps = 4 * OKV_STORE_SHORT_STEPS, .compactions = 4 * OKV_STORE_SHORT_STEPS};

static void end_round(struct okv_store *store)
{
    struct okv_store_round *round = &store->round;

    if (round->left.compactions > 0) {
        round->refused = atomic_load(&round->size);
        round->not_before = okv_store_count_changes(store) + PAUSE;
    }
    atomic_store(&round->size, 0);
}

/* Returns whether the change is worth another attempt. */
static bool take_step(struct okv_store *store, struct okv_store_work *work, uint64_t size)
{
    struct okv_store_round *round = &store->round;
    bool goes_on = false;

    pthread_mutex_lock(&round->lock);
    if (size < round->refused || okv_store_count_changes(store) >= round->not_before) {
        if (atomic_load(&round->size) == 0)
            round->left = in_short_steps;
        if (atomic_load(&round->size) < size)
            atomic_store(&round->size, size);
        goes_on = okv_store_make_room(store, work, size, &round->left);
        if (!goes_on)
            end_round(store);
    }
    pthread_mutex_unlock(&round->lock);
    return goes_on;
}

void okv_store_search_begin(struct okv_store_search *search, const struct okv_store_work *work,
                            unsigned *steps, bool waits_for_log)
{
    *search = (struct okv_store_search){
        .effort = at_once, .can_wait = !steps, .waits_for_log = waits_for_log};
    search->own_steps = work->in_steps ? 1 : UINT_MAX;
    search->steps = steps ? steps : &search->own_steps;
}

int okv_store_search_room(struct okv_store *store, struct okv_store_work *work, uint64_t size,
                          struct okv_store_search *search)
{
    if (search->is_over || (!search->can_wait && *search->steps == 0)) {
        okv_store_note_full(store);
        return OKV_EFULL;
    }
    if (*search->steps == 0 || okv_heap_frees_later(&store->heap, size) ||
        (search->waits_for_log && okv_store_pending_waits_for_room(store, size)))
        return OKV_EAGAIN;
    --*search->steps;
    /* One more attempt in any case: a wipe or a pin may have ended since the last one. */
    search->is_over = search->waits_for_log ||
                      !(work->in_steps ? take_step(store, work, size)
                                       : okv_store_make_room(store, work, size, &search->effort));
    return 0;
}

void okv_store_room_taken(struct okv_store *store, uint64_t size)
{
    struct okv_store_round *round = &store->round;
    uint64_t wanted = atomic_load_explicit(&round->size, memory_order_relaxed);

    okv_store_note_taken(store);
    if (wanted == 0 || size < wanted)
        return;
    pthread_mutex_lock(&round->lock);
    round->left = in_short_steps;
    pthread_mutex_unlock(&round->lock);
}
