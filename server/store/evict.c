#include "server/store/evict.h"

#include "server/store/bucket_image.h"
#include "server/store/bucket_layout.h"
#include "server/store/bucket_transaction.h"
#include "server/store/heat.h"
#include "server/store/locking.h"
#include "server/store/move.h"
#include "shared/base/error.h"

/* New items beyond this share of the bytes that may be evicted are the hands' first choice. */
#define NEW_PERCENT 10
/* Of the bytes that are evicted, how many more may be copied to put free memory together. */
#define COPIED_PERCENT 30
/* Shares of the heap by which the reserve grows while its pieces are too small, and at most. */
#define EXTRA_STEP 64
#define EXTRA_MOST 4

static uint64_t get(const atomic_uint_fast64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void add(atomic_uint_fast64_t *counter, uint64_t count)
{
    atomic_fetch_add_explicit(counter, count, memory_order_relaxed);
}

bool okv_store_may_evict(const struct okv_store *store)
{
    return store->eviction.mode == OKV_STORE_EVICT ||
           (store->eviction.mode == OKV_STORE_EVICT_EXPIRING && get(&store->totals.expiring) > 0);
}

static uint64_t reserve_of(const struct okv_store *store)
{
    uint64_t length = store->heap.length - store->heap.floor;

    return length / 100 * OKV_EVICT_RESERVE_PERCENT + get(&store->eviction.extra_reserve);
}

/* Free memory is in pieces that nothing fits: with more of it some are larger, and the index gives
 * up segments. */
static void raise_reserve(struct okv_store *store)
{
    uint64_t length = store->heap.length - store->heap.floor;
    uint64_t extra = get(&store->eviction.extra_reserve) + length / EXTRA_STEP;

    if (extra <= length / EXTRA_MOST)
        atomic_store(&store->eviction.extra_reserve, extra);
}

/* As free memory comes together again. */
static void lower_reserve(struct okv_store *store)
{
    atomic_store(&store->eviction.extra_reserve, get(&store->eviction.extra_reserve) / 2);
}

static uint64_t unused(const struct okv_store *store)
{
    return okv_heap_unused(&store->heap) + okv_store_freed_later(&store->table);
}

bool okv_store_evict_is_due(const struct okv_store *store)
{
    return store->eviction.mode != OKV_STORE_REFUSE && unused(store) < reserve_of(store) &&
           okv_store_may_evict(store);
}

bool okv_store_evict_is_ahead(const struct okv_store *store, uint64_t size)
{
    uint64_t later = okv_store_freed_later(&store->table);

    return later >= size && later >= reserve_of(store) / 2;
}

/* ---- one item ---- */

static bool is_evictable(const struct okv_store *store, const struct okv_store_item *item)
{
    return store->eviction.mode == OKV_STORE_EVICT || item->entry.expiry_ms;
}

static void evict_item(const struct okv_store *store, struct okv_store_bucket *bucket,
                       struct okv_store_item *item)
{
    bool is_new = okv_heat_is_new(item->heat);

    bucket->evicted.of_new += is_new;
    bucket->evicted.of_main += !is_new;
    bucket->evicted.bytes += item->entry.key_length + item->entry.value_length;
    if (is_new)
        okv_heat_add_ghost(store->table.heat, bucket->heat, item->tag);
    okv_store_bucket_remove_logged(bucket, item);
}

/* ---- the hands ---- */

/* A hand meets an item: true if it is to go. */
typedef bool meet(struct okv_store_item *item);

static bool meet_new(struct okv_store_item *item)
{
    if (!okv_heat_is_new(item->heat))
        return false;
    if (okv_heat_counter_of(item->heat) > 0) {
        item->heat = okv_heat_make(OKV_HEAT_MAIN, 0);
        return false;
    }
    if (okv_heat_kind_of(item->heat) == OKV_HEAT_PASSED)
        return true;
    item->heat = okv_heat_make(OKV_HEAT_PASSED, 0);
    return false;
}

static bool meet_main(struct okv_store_item *item)
{
    if (okv_heat_is_new(item->heat))
        return false;
    if (okv_heat_counter_of(item->heat) == 0)
        return true;
    item->heat--;
    return false;
}

/* The bucket stays as it is. */
static void save_heat(struct okv_store *store, struct okv_store_bucket *bucket)
{
    const struct okv_table *table = &store->table;
    struct okv_store_tally after = bucket->published;

    after.heat_bytes = after.new_bytes = 0;
    okv_store_bucket_record(bucket, table, &after);
    okv_heat_store(table->heat, bucket->heat, bucket->number);
    okv_store_count_difference(store, &bucket->published, &after);
}

/* Buckets that are searched for an item of a size class. */
#define CLASS_BUCKETS 16
/* Items that a change has removed or moved when it tries again. */
#define CHANGED_STEP 16
/* Bytes that are copied in a step, and those of one bucket. */
#define COPIED_STEP (64u << 10)
/* Items that are looked at to find room in a bucket: each eviction looks at all that are left. */
#define LOOKED_AT 2048u

/* What a hand is to remove. */
struct quarry {
    uint64_t size; /* 0: any item; else one with an extent that fits this size */
    bool is_any;   /* whatever its heat */
    bool copies;   /* puts free memory together, however much was copied */
};

/* Whether the memory of an item is of use. */
static bool is_wanted(const struct okv_store_item *item, const struct quarry *quarry)
{
    if (!quarry->size)
        return true;
    return item->entry.extent &&
           okv_heap_size(okv_entry_extent_length(&item->entry)) == okv_heap_size(quarry->size);
}

static void evict_items(const struct okv_store *store, struct okv_store_bucket *bucket, meet *meets,
                        const struct quarry *quarry)
{
    for (unsigned i = bucket->item_count; i-- > 0;) {
        struct okv_store_item *item = &bucket->items[i];
        if (!is_evictable(store, item))
            continue;
        bool goes = meets(item) || quarry->is_any;
        if (goes && is_wanted(item, quarry))
            evict_item(store, bucket, item);
    }
}

/* Whether free memory may be put together: as long as COPIED_PERCENT of what was evicted. */
static bool may_copy(const struct okv_store *store)
{
    return get(&store->eviction.copied_bytes) * 100 <
           get(&store->eviction.evicted_bytes) * COPIED_PERCENT;
}

static unsigned visit_locked(struct okv_store *store, struct okv_store_work *work, uint64_t number,
                             meet *meets, const struct quarry *quarry)
{
    struct okv_store_record evictions = {.kind = OKV_STORE_LOG_EVICTION};
    struct okv_store_bucket *bucket = &work->bucket;
    uint64_t copied = 0;

    if (okv_store_transaction_load(store, work, number))
        return 0;
    evict_items(store, bucket, meets, quarry);
    unsigned removed = bucket->evicted.of_new + bucket->evicted.of_main + bucket->expired;
    unsigned moved = quarry->copies || may_copy(store)
                         ? okv_store_move_extents(store, bucket, false, &copied)
                         : 0;
    if (removed == 0 && moved == 0) {
        save_heat(store, bucket);
        return 0;
    }
    if (okv_store_transaction_commit_logged(store, work, &evictions))
        return 0;
    add(&store->eviction.copied_bytes, copied);
    work->bytes += copied;
    return removed + (quarry->copies ? moved : 0);
}

static void begin_round(struct okv_store *store, struct okv_store_hand *hand)
{
    uint64_t now_ms = atomic_load(&store->clock_ms);
    uint64_t begun_ms = atomic_exchange(&hand->begun_ms, now_ms);

    atomic_store(&hand->round_ms, now_ms > begun_ms ? now_ms - begun_ms : 0);
    lower_reserve(store);
}

static unsigned visit(struct okv_store *store, struct okv_store_work *work,
                      struct okv_store_hand *hand, meet *meets, const struct quarry *quarry)
{
    uint64_t number = atomic_fetch_add(&hand->next, 1) % atomic_load(&store->bucket_count);

    if (number == 0)
        begin_round(store, hand);
    okv_store_lock(store, number);
    unsigned removed = number < atomic_load(&store->bucket_count)
                           ? visit_locked(store, work, number, meets, quarry)
                           : 0;
    okv_store_unlock(store, number);
    return removed;
}

static unsigned move_a_hand(struct okv_store *store, struct okv_store_work *work,
                            const struct quarry *quarry)
{
    struct okv_store_eviction *eviction = &store->eviction;
    uint64_t of_new = get(&store->totals.new_bytes), all = get(&store->totals.heat_bytes);

    if (of_new * 100 > all * NEW_PERCENT)
        return visit(store, work, &eviction->new_hand, meet_new, quarry);
    return visit(store, work, &eviction->main_hand, meet_main, quarry);
}

/* The work at the begin of a step. */
struct step {
    unsigned pages;
    uint64_t bytes;
};

static struct step step_begin(const struct okv_store_work *work)
{
    return (struct step){work->loaded_pages, work->bytes};
}

/* Whether the step may visit another bucket. Keys can be chosen to make one of many pages, and
 * extents are copied. */
static bool step_goes_on(const struct step *step, const struct okv_store_work *work)
{
    return work->loaded_pages - step->pages < OKV_EVICT_PAGES &&
           work->bytes - step->bytes < COPIED_STEP;
}

unsigned okv_store_evict(struct okv_store *store, struct okv_store_work *work)
{
    const struct quarry quarry = {.size = 0};
    const struct step step = step_begin(work);
    unsigned removed = 0;

    if (okv_store_log_check(&store->table))
        return 0;
    while (step_goes_on(&step, work) && removed < OKV_EVICT_ITEMS && okv_store_evict_is_due(store))
        removed += move_a_hand(store, work, &quarry);
    return removed;
}

/* A first round finds new items only, which it passes. */
void okv_store_evict_at_start(struct okv_store *store, struct okv_store_work *work)
{
    uint64_t steps = 3 * (get(&store->bucket_count) / OKV_EVICT_PAGES + 1);

    for (; steps > 0 && okv_store_evict_is_due(store); steps--)
        okv_store_evict(store, work);
}

/* Free memory is short, or in pieces that are too small. In the second case an item of the same
 * size class goes, if a few buckets have one; else cold ones of any size, and what is left is put
 * together. */
bool okv_store_evict_for(struct okv_store *store, struct okv_store_work *work, uint64_t size)
{
    const struct quarry of_class = {.size = size, .is_any = true};
    const struct quarry cold = {.copies = true};
    const struct step step = step_begin(work);
    unsigned changed = 0;

    if (!okv_store_may_evict(store))
        return false;
    for (unsigned i = 0;
         i < CLASS_BUCKETS && step_goes_on(&step, work) && !okv_store_evict_is_due(store); i++)
        if (move_a_hand(store, work, &of_class) > 0)
            return true;
    if (!okv_store_evict_is_due(store))
        raise_reserve(store);
    while (step_goes_on(&step, work) && changed < CHANGED_STEP)
        changed += move_a_hand(store, work, &cold);
    return true;
}

uint64_t okv_store_hand_ms(const struct okv_store *store, const struct okv_store_hand *hand)
{
    uint64_t begun_ms = atomic_load(&hand->begun_ms), now_ms = atomic_load(&store->clock_ms);
    uint64_t so_far_ms = begun_ms && now_ms > begun_ms ? now_ms - begun_ms : 0;
    uint64_t last_ms = atomic_load(&hand->round_ms);

    return so_far_ms > last_ms ? so_far_ms : last_ms;
}

/* ---- in a bucket ---- */

/* Whether the index cannot have another segment: at once, or because that failed not long ago. */
static bool index_is_final(struct okv_store *store)
{
    uint64_t segment = (uint64_t)store->table.segment_buckets * store->table.bucket_size;

    if (get(&store->bucket_count) >= store->buckets_max ||
        unused(store) < reserve_of(store) + segment)
        return true;
    if (atomic_load_explicit(&store->growth_pause, memory_order_relaxed) <= 0)
        return false;
    atomic_fetch_sub_explicit(&store->growth_pause, 1, memory_order_relaxed);
    return true;
}

/* Whether gets of items of this bucket would take more READs than they should. */
static bool is_too_long(struct okv_store_bucket *bucket, const struct okv_table *table)
{
    if (okv_store_layout_plan(bucket, table) || bucket->pages > 1)
        return true;
    for (unsigned i = 0; i < bucket->item_count; i++) {
        const struct okv_store_item *item = &bucket->items[i];
        if (item->entry.is_reference && item->inline_size != UINT32_MAX)
            return true;
    }
    return false;
}

/* Lower goes first: new ones that were passed, new ones, main ones, by their counters. */
static unsigned rank_of(const struct okv_store_item *item)
{
    static const unsigned ranks[] = {
        [OKV_HEAT_NEW] = 1, [OKV_HEAT_PASSED] = 0, [OKV_HEAT_MAIN] = 2};
    unsigned counter = okv_heat_counter_of(item->heat);

    return ranks[okv_heat_kind_of(item->heat)] + (counter ? 2 + counter : 0);
}

/* Of two that are alike the older one: versions rise with each write of a bucket. */
static bool is_colder(const struct okv_store_item *item, const struct okv_store_item *other)
{
    unsigned a = rank_of(item), b = rank_of(other);

    return a != b ? a < b : item->entry.version < other->entry.version;
}

/* An item that was put, and not moved, has the next version. */
static struct okv_store_item *coldest(const struct okv_store *store,
                                      struct okv_store_bucket *bucket)
{
    struct okv_store_item *found = NULL;

    for (unsigned i = 0; i < bucket->item_count; i++) {
        struct okv_store_item *item = &bucket->items[i];
        if (item->entry.version == bucket->next_version || !is_evictable(store, item))
            continue;
        if (!found || is_colder(item, found))
            found = item;
    }
    return found;
}

/* What the hands would have done to the others until they met the victim without a use. */
static void cool(struct okv_store_bucket *bucket, unsigned uses)
{
    for (unsigned i = 0; i < bucket->item_count; i++) {
        uint8_t *heat = &bucket->items[i].heat;
        unsigned counter = okv_heat_counter_of(*heat);
        *heat = okv_heat_make(okv_heat_kind_of(*heat), counter > uses ? counter - uses : 0);
    }
}

void okv_store_evict_in_bucket(struct okv_store *store, struct okv_store_bucket *bucket,
                               bool insists)
{
    if (!store->table.heat || (!insists && !index_is_final(store)))
        return;
    unsigned looked_at = 0;
    while (looked_at < LOOKED_AT && is_too_long(bucket, &store->table)) {
        looked_at += bucket->item_count;
        struct okv_store_item *item = coldest(store, bucket);
        if (!item)
            break;
        cool(bucket, okv_heat_counter_of(item->heat));
        evict_item(store, bucket, item);
        bucket->evicted.in_bucket++;
    }
    bucket->only_shrinks = false; /* it has items more */
}
