#include "tests/faults/inject.h"

#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

extern const char __executable_start[];

struct inject_shared *inject;
static __thread bool is_client;
static __thread bool is_unwatched;

void inject_init(void)
{
    void *frames[2];

    inject = mmap(NULL, sizeof *inject, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (inject == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    backtrace(frames, 2); /* loads what it needs, which a child need not do again */
}

void inject_plan(const struct inject_plan *plan)
{
    inject->plan = *plan;
    inject->clean += plan->nth == 0;
    for (int side = 0; side < INJECT_SIDES; side++)
        atomic_store(&inject->points[side], 0);
    memset(&inject->failure, 0, sizeof inject->failure);
    atomic_store(&inject->armed, true);
}

void inject_be_client(void)
{
    is_client = true;
}

void inject_watch(bool watch)
{
    is_unwatched = !watch;
}

static uintptr_t site_key(uintptr_t offset, enum inject_side side)
{
    return offset | (uintptr_t)(side == INJECT_SERVER) << 63;
}

/* The place of a key, or a free one. */
static struct inject_site *site_place(uintptr_t key)
{
    size_t at = (key * UINT64_C(0x9e3779b97f4a7c15)) >> 40;

    for (size_t i = 0; i < INJECT_SITES_MAX; i++) {
        struct inject_site *site = &inject->sites[(at + i) % INJECT_SITES_MAX];
        uintptr_t there = atomic_load(&site->offset);
        if (there == key || there == 0)
            return site;
    }
    return NULL;
}

const struct inject_site *inject_site_find(uintptr_t offset, enum inject_side side)
{
    struct inject_site *site = site_place(site_key(offset, side));

    return site && atomic_load(&site->offset) ? site : NULL;
}

static struct inject_site *site_of(const char *function, uintptr_t offset, enum inject_side side)
{
    uintptr_t key = site_key(offset, side);

    for (;;) {
        struct inject_site *site = site_place(key);
        uintptr_t none = 0;
        if (!site) {
            atomic_fetch_add(&inject->lost, 1);
            return NULL;
        }
        if (atomic_load(&site->offset) == key)
            return site;
        if (atomic_compare_exchange_strong(&site->offset, &none, key)) {
            site->function = function;
            site->late = inject->plan.nth != 0;
            return site;
        }
    }
}

static void site_count(struct inject_site *site, unsigned points)
{
    atomic_fetch_add(&site->calls, 1);
    atomic_fetch_add(&site->points, points);
    if (atomic_exchange(&site->last_clean, inject->clean) != inject->clean)
        atomic_fetch_add(&site->clean, 1);
}

static void record(const char *function, uintptr_t offset, int way)
{
    struct inject_failure *failure = &inject->failure;
    void *frames[INJECT_FRAMES + 2];
    int count = backtrace(frames, INJECT_FRAMES + 2);

    failure->function = function;
    failure->offset = offset;
    failure->way = way;
    for (int i = 3; i < count; i++) /* above this, inject_point, the wrapper and the call */
        failure->frames[failure->frame_count++] =
            (uintptr_t)frames[i] - (uintptr_t)__executable_start;
    atomic_store(&failure->happened, true);
}

int inject_point(const char *function, const void *caller, const int *ways, unsigned count)
{
    if (!inject || !atomic_load(&inject->armed) || is_unwatched)
        return 0;
    const struct inject_plan *plan = &inject->plan;
    enum inject_side side = is_client ? INJECT_CLIENT : INJECT_SERVER;
    uintptr_t offset = (uintptr_t)caller - (uintptr_t)__executable_start;
    struct inject_site *site = site_of(function, offset, side);

    if (site && plan->nth == 0)
        site_count(site, count);
    if (plan->offset && plan->offset != offset)
        return 0;
    uint64_t passed = atomic_fetch_add(&inject->points[side], count);
    if (plan->nth == 0 || plan->side != side || plan->nth <= passed || plan->nth > passed + count)
        return 0;
    int way = ways[plan->nth - passed - 1];
    if (site)
        atomic_fetch_add(&site->failed, 1);
    record(function, offset, way);
    return way;
}
