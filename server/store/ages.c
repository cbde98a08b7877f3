#include "server/store/ages.h"

#include <stdlib.h>

/* Of all places, as many are to be in use at most: few rows are too short then. */
#define ITEMS_MAX (OKV_AGES_ROWS * OKV_AGES_ROW / 2)
/* Evictions that a mean is of, about. */
#define MEAN_OF 64
/* Of a ms, in which means are kept: or they would be too low by half of MEAN_OF. */
#define FINE 1024u

/* Times are in units of 16 ms, and come again after two years. */
#define UNIT_MS 16

#define NAME (UINT64_C(0xffffffff) << 32)

typedef _Atomic uint64_t ages_place;

struct okv_ages *okv_ages_create(const atomic_uint_fast64_t *clock_ms,
                                 const atomic_uint_fast64_t *items)
{
    struct okv_ages *ages = calloc(1, sizeof *ages);

    if (ages) {
        ages->clock_ms = clock_ms;
        ages->items = items;
    }
    return ages;
}

static uint64_t get(const ages_place *place)
{
    return atomic_load_explicit(place, memory_order_relaxed);
}

static uint32_t now(const struct okv_ages *ages)
{
    return (uint32_t)(atomic_load_explicit(ages->clock_ms, memory_order_relaxed) / UNIT_MS);
}

/* Since a place was written. */
static uint32_t age_of(const struct okv_ages *ages, uint64_t place)
{
    return now(ages) - (uint32_t)place;
}

/* A place that is free belongs to no name. */
static uint64_t name_of(uint64_t hash)
{
    return hash & NAME ? hash & NAME : UINT64_C(1) << 63;
}

static ages_place *row_of(struct okv_ages *ages, uint64_t hash)
{
    return ages->place[hash % OKV_AGES_ROWS];
}

static ages_place *find(struct okv_ages *ages, uint64_t hash)
{
    ages_place *row = row_of(ages, hash);
    uint64_t name = name_of(hash);

    for (unsigned i = 0; i < OKV_AGES_ROW; i++)
        if ((get(&row[i]) & NAME) == name)
            return &row[i];
    return NULL;
}

/* A free place of the row, or else the one of the item that was used first: it may be gone. */
static ages_place *oldest(struct okv_ages *ages, uint64_t hash)
{
    ages_place *row = row_of(ages, hash), *found = row;

    for (unsigned i = 1; i < OKV_AGES_ROW && get(found); i++)
        if (!get(&row[i]) || age_of(ages, get(&row[i])) > age_of(ages, get(found)))
            found = &row[i];
    return found;
}

/* Items that are in the sample no longer: their uses would be missed. */
static void forget(struct okv_ages *ages, unsigned thinning)
{
    ages_place *all = &ages->place[0][0];

    for (unsigned i = 0; i < OKV_AGES_ROWS * OKV_AGES_ROW; i++)
        if (!okv_ages_is_left(get(&all[i]), thinning))
            atomic_store_explicit(&all[i], 0, memory_order_relaxed);
}

static void adjust(struct okv_ages *ages)
{
    uint64_t items = atomic_load_explicit(ages->items, memory_order_relaxed);
    unsigned thinning = atomic_load_explicit(&ages->thinning, memory_order_relaxed);

    if (items >> thinning > ITEMS_MAX)
        forget(ages, ++thinning);
    else if (thinning > 0 && items >> thinning < ITEMS_MAX / 4)
        thinning--;
    else
        return;
    atomic_store_explicit(&ages->thinning, thinning, memory_order_relaxed);
}

void okv_ages_note_put(struct okv_ages *ages, uint64_t hash)
{
    if (!okv_ages_has(ages, hash))
        return;
    ages_place *found = find(ages, hash);
    if (!found)
        found = oldest(ages, hash);
    atomic_store_explicit(found, name_of(hash) | now(ages), memory_order_relaxed);
    adjust(ages);
}

void okv_ages_note_use(struct okv_ages *ages, uint64_t hash)
{
    ages_place *place = okv_ages_has(ages, hash) ? find(ages, hash) : NULL;

    if (place)
        atomic_store_explicit(place, name_of(hash) | now(ages), memory_order_relaxed);
}

void okv_ages_note_gone(struct okv_ages *ages, uint64_t hash)
{
    ages_place *place = okv_ages_has(ages, hash) ? find(ages, hash) : NULL;

    if (place)
        atomic_store_explicit(place, 0, memory_order_relaxed);
}

static void add(struct okv_ages_mean *mean, uint64_t age_ms)
{
    unsigned count = atomic_load_explicit(&mean->count, memory_order_relaxed);
    uint64_t fine = atomic_load_explicit(&mean->fine_ms, memory_order_relaxed);

    if (count < MEAN_OF)
        atomic_store_explicit(&mean->count, ++count, memory_order_relaxed);
    fine = (fine * (count - 1) + age_ms * FINE) / count;
    atomic_store_explicit(&mean->fine_ms, fine, memory_order_relaxed);
}

void okv_ages_note_eviction(struct okv_ages *ages, uint64_t hash, bool is_new)
{
    ages_place *place = okv_ages_has(ages, hash) ? find(ages, hash) : NULL;

    if (!place)
        return;
    uint64_t age_ms = (uint64_t)age_of(ages, get(place)) * UNIT_MS;
    atomic_store_explicit(place, 0, memory_order_relaxed);
    add(is_new ? &ages->of_new : &ages->of_main, age_ms);
}

uint64_t okv_ages_mean_ms(const struct okv_ages *ages, bool is_new)
{
    if (!ages)
        return 0;
    const struct okv_ages_mean *mean = is_new ? &ages->of_new : &ages->of_main;
    return atomic_load_explicit(&mean->fine_ms, memory_order_relaxed) / FINE;
}
