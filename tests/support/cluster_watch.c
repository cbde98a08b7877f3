#include "tests/support/cluster_watch.h"

#include <string.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/patient_open.h"

/* Gets between two pauses of 1 ms, which leave the servers of a small machine time. */
#define BURST 256
#define KEY CLUSTER_WATCHED
#define KEY_LENGTH (sizeof KEY - 1)

static void complain(struct cluster_watcher *watcher, const char *what, int rc, uint64_t seen,
                     uint64_t least)
{
    snprintf(watcher->wrong, sizeof watcher->wrong, "%s: %s: %s: it has %llu, and told was %llu",
             what, okv_errname(rc), okv_why(watcher->handle), (unsigned long long)seen,
             (unsigned long long)least);
    atomic_store(&watcher->watch->is_wrong, true);
}

static void note_longest(atomic_uint_fast64_t *longest_ns, uint64_t ns)
{
    uint64_t before = atomic_load(longest_ns);

    while (ns > before && !atomic_compare_exchange_weak(longest_ns, &before, ns))
        continue;
}

static uint64_t epoch_of(const okv *handle)
{
    struct okv_info info;

    okv_info(handle, &info);
    return info.epoch;
}

/* False: it was refused. */
static bool put(struct cluster_watcher *watcher, uint64_t number, uint64_t *answered_ns)
{
    struct cluster_watch *watch = watcher->watch;

    atomic_store(&watch->number, number);
    int rc = okv_put(watcher->handle, KEY, KEY_LENGTH, &number, sizeof number, NULL);
    atomic_fetch_add(&watch->unknown, rc == OKV_EUNKNOWN);
    if (rc && rc != OKV_EUNKNOWN)
        complain(watcher, "put", rc, number, atomic_load(&watch->told));
    if (rc)
        return rc == OKV_EUNKNOWN;
    uint64_t now_ns = okv_clock_ns();
    note_longest(&watch->put_ns, now_ns - *answered_ns);
    *answered_ns = now_ns;
    atomic_store(&watch->told, number);
    atomic_store(&watch->epoch, epoch_of(watcher->handle));
    return true;
}

static void *write_on(void *user)
{
    struct cluster_watcher *watcher = user;
    uint64_t answered_ns = okv_clock_ns(), number = 0;

    while (!atomic_load(&watcher->watch->has_to_stop) && put(watcher, ++number, &answered_ns))
        continue;
    return NULL;
}

static bool get(struct cluster_watcher *watcher)
{
    struct cluster_watch *watch = watcher->watch;
    uint64_t least = atomic_load(&watch->told), number = 0, begun_ns = okv_clock_ns();
    size_t length;
    int rc = okv_get(watcher->handle, KEY, KEY_LENGTH, &number, sizeof number, &length, NULL);

    note_longest(&watch->get_ns, okv_clock_ns() - begun_ns);
    if (rc || number < least || number > atomic_load(&watch->number)) {
        complain(watcher, "get", rc, number, least);
        return false;
    }
    atomic_fetch_add(&watch->gets, 1);
    return true;
}

static void *read_on(void *user)
{
    struct cluster_watcher *watcher = user;
    bool is_right = true;

    while (is_right && !atomic_load(&watcher->watch->has_to_stop)) {
        for (unsigned i = 0; i < BURST && is_right; i++)
            is_right = get(watcher);
        pace_sleep_ms(1);
    }
    return NULL;
}

static void start(struct cluster_watch *watch, struct cluster_watcher *watcher, const char *uri,
                  const struct okv_options *options, void *(*run)(void *))
{
    char why[320];

    watcher->watch = watch;
    if (patient_open(uri, options, &watcher->handle, why, sizeof why))
        fail_msg("%s: %s", uri, why);
    assert_int_equal(pthread_create(&watcher->thread, NULL, run, watcher), 0);
}

void cluster_watch_start(struct cluster_watch *watch, const char *uri,
                         const struct okv_options *options)
{
    start(watch, &watch->writer, uri, options, write_on);
    watch->has_writer = true;
    cluster_watch_await_epoch(watch, 0);
    for (; watch->running < CLUSTER_READERS; watch->running++)
        start(watch, &watch->readers[watch->running], uri, options, read_on);
}

void cluster_watch_await_epoch(struct cluster_watch *watch, uint64_t after)
{
    uint64_t end = pace_guard_end();

    while (atomic_load(&watch->epoch) <= after) {
        if (atomic_load(&watch->is_wrong)) {
            cluster_watch_stop(watch);
            cluster_watch_check(watch);
        }
        if (okv_clock_ns() > end)
            fail_msg("no put is answered after epoch %llu", (unsigned long long)after);
        pace_sleep_ms(1);
    }
}

static void stop(struct cluster_watcher *watcher)
{
    pthread_join(watcher->thread, NULL);
    okv_close(&watcher->handle);
}

void cluster_watch_stop(struct cluster_watch *watch)
{
    atomic_store(&watch->has_to_stop, true);
    for (; watch->running > 0; watch->running--)
        stop(&watch->readers[watch->running - 1]);
    if (watch->has_writer)
        stop(&watch->writer);
    watch->has_writer = false;
}

void cluster_watch_check(const struct cluster_watch *watch)
{
    if (watch->writer.wrong[0])
        fail_msg("%s", watch->writer.wrong);
    for (unsigned i = 0; i < CLUSTER_READERS; i++)
        if (watch->readers[i].wrong[0])
            fail_msg("reader %u: %s", i, watch->readers[i].wrong);
}
