#include "tests/support/growth_cycles.h"

#include "tests/support/bulk.h"
#include "tests/support/patient_open.h"
#include "tests/support/random.h"

/* Everything that was put is there, is read, and is there to be deleted. */
static int cycle_once(struct growth_cycles *cycles, okv *handle, uint64_t items)
{
    struct bulk bulk = {
        .begin = cycles->begin, .end = cycles->begin + items, .stop = &cycles->stop};
    static const int kinds[] = {OKV_PUT, OKV_GET, OKV_DELETE};
    int rc = OKV_OK;

    for (unsigned i = 0; i < 3 && rc == OKV_OK && !atomic_load(&cycles->stop); i++) {
        bulk.kind = kinds[i];
        rc = bulk_run(handle, &bulk, &cycles->culprit);
        if (cycles->may_vanish && rc == OKV_ENOTFOUND)
            rc = OKV_OK;
    }
    return rc;
}

static void *cycle_run(void *user)
{
    struct growth_cycles *cycles = user;
    okv *handle = NULL;
    uint64_t random = cycles->seed;

    cycles->failure = patient_open(cycles->uri, NULL, &handle, NULL, 0);
    while (cycles->failure == OKV_OK && !atomic_load(&cycles->stop)) {
        uint64_t items = cycles->least + random_below(&random, cycles->most - cycles->least + 1);
        cycles->failure = cycle_once(cycles, handle, items);
        cycles->whole += !atomic_load(&cycles->stop);
        atomic_store(&cycles->one_is_over, true);
    }
    atomic_store(&cycles->one_is_over, true);
    okv_close(&handle);
    return NULL;
}

bool growth_cycles_start(struct growth_cycles *cycles)
{
    atomic_init(&cycles->stop, false);
    atomic_init(&cycles->one_is_over, false);
    return pthread_create(&cycles->thread, NULL, cycle_run, cycles) == 0;
}

void growth_cycles_stop(struct growth_cycles *cycles)
{
    atomic_store(&cycles->stop, true);
    pthread_join(cycles->thread, NULL);
}
