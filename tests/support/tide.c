#include "tests/support/tide.h"

#include "tests/support/bulk.h"
#include "tests/support/patient_open.h"
#include "tests/support/random.h"

/* Everything that was put is there, is read, and is there to be deleted. */
static int tide_once(struct tide *tide, okv *handle, uint64_t items)
{
    struct bulk bulk = {.begin = tide->begin, .end = tide->begin + items, .stop = &tide->stop};
    static const int kinds[] = {OKV_PUT, OKV_GET, OKV_DELETE};
    int rc = OKV_OK;

    for (unsigned i = 0; i < 3 && rc == OKV_OK && !atomic_load(&tide->stop); i++) {
        bulk.kind = kinds[i];
        rc = bulk_run(handle, &bulk, &tide->culprit);
    }
    return rc;
}

static void *tide_run(void *user)
{
    struct tide *tide = user;
    okv *handle = NULL;
    uint64_t random = tide->seed;

    tide->failure = patient_open(tide->uri, NULL, &handle, NULL, 0);
    while (tide->failure == OKV_OK && !atomic_load(&tide->stop)) {
        uint64_t items = tide->least + random_below(&random, tide->most - tide->least + 1);
        tide->failure = tide_once(tide, handle, items);
        tide->tides += !atomic_load(&tide->stop);
        atomic_store(&tide->turned, true);
    }
    atomic_store(&tide->turned, true);
    okv_close(&handle);
    return NULL;
}

bool tide_start(struct tide *tide)
{
    atomic_init(&tide->stop, false);
    atomic_init(&tide->turned, false);
    return pthread_create(&tide->thread, NULL, tide_run, tide) == 0;
}

void tide_stop(struct tide *tide)
{
    atomic_store(&tide->stop, true);
    pthread_join(tide->thread, NULL);
}
