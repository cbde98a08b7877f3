#include "tests/faults/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/faults/program.h"
#include "tests/support/random.h"

/* Runs in a row that met no failure: there is none left. */
#define MISSES_MAX 20
/* Runs that may pass by a site. */
#define ATTEMPTS 50

void plan_choose_seed(void)
{
    srandom((unsigned)random_seed());
}

bool plan_clean(struct runs *runs)
{
    const struct inject_plan plan = {.nth = 0};
    bool passed = true;

    for (int i = 0; i < PLAN_CLEAN; i++)
        passed &= runs_do(runs, &plan);
    for (unsigned i = 0; i < INJECT_SITES_MAX; i++)
        if (atomic_exchange(&inject->sites[i].clean, 0) == PLAN_CLEAN)
            inject->sites[i].steady = true;
    return passed;
}

bool plan_every_point(struct runs *runs, enum inject_side side)
{
    bool passed = true;
    unsigned missed = 0;

    for (uint64_t n = 1; missed < MISSES_MAX && !runs_are_enough(runs); n++) {
        const struct inject_plan plan = {.side = side, .nth = n};
        passed &= runs_do(runs, &plan);
        missed = atomic_load(&inject->failure.happened) ? 0 : missed + 1;
    }
    return passed;
}

static bool fail_site(struct runs *runs, enum inject_side side, const struct inject_site *site)
{
    unsigned calls = atomic_load(&site->calls), ways = atomic_load(&site->points) / calls;
    bool passed = true;

    for (unsigned way = 0; way < ways; way++) {
        unsigned call = (unsigned)random() % ((calls + PLAN_CLEAN - 1) / PLAN_CLEAN);
        struct inject_plan plan = {
            .side = side, .nth = 1 + call * ways + way, .offset = inject_site_offset(site)};
        passed &= runs_do(runs, &plan);
        /* There may be fewer calls than in the clean runs, or none: some depend on timing. */
        plan.nth = 1 + way;
        for (int i = 0; i < ATTEMPTS && !atomic_load(&inject->failure.happened); i++)
            passed &= runs_do(runs, &plan);
    }
    return passed;
}

bool plan_every_site(struct runs *runs, enum inject_side side, bool missed_only)
{
    bool passed = true;

    for (unsigned i = 0; i < INJECT_SITES_MAX; i++) {
        const struct inject_site *site = &inject->sites[i];
        if (atomic_load(&site->calls) == 0 || inject_site_side(site) != side ||
            (missed_only && atomic_load(&site->failed)))
            continue;
        passed &= fail_site(runs, side, site);
    }
    return passed;
}

bool plan_summarize(const struct runs *runs, enum inject_side side)
{
    unsigned sites = 0, failed_sites = 0, late = 0, missed = 0;
    uint64_t points = 0, failures = 0;

    for (unsigned i = 0; i < INJECT_SITES_MAX; i++) {
        const struct inject_site *site = &inject->sites[i];
        if (!atomic_load(&site->offset) || inject_site_side(site) != side)
            continue;
        failures += atomic_load(&site->failed);
        late += atomic_load(&site->calls) == 0;
        if (atomic_load(&site->calls) == 0)
            continue;
        sites++;
        points += atomic_load(&site->points) / PLAN_CLEAN;
        failed_sites += atomic_load(&site->failed) > 0;
        if (atomic_load(&site->failed))
            continue;
        missed += site->steady;
        program_print_place(stdout, site->steady ? "never failed" : "never failed, and seldom met",
                            site->function, inject_site_offset(site));
    }
    printf("%s: %" PRIu64
           " points in a clean run, at %u sites; %u of them were made to fail, %" PRIu64
           " times; %u more sites were met after failures; %u runs, %u wrong\n",
           runs->name, points, sites, failed_sites, failures, late, runs->count, runs->wrong);
    return missed == 0 && atomic_load(&inject->lost) == 0;
}
