/*
 * Serves READs while a worker is busy.
 *
 * A provider over TCP serves a READ of the region when this process makes progress on its endpoint
 * (man fi_domain, data_progress). A worker makes it by polling, and one that sleeps is woken by the
 * queue's descriptor. A worker with a long request does neither. So this thread waits for the same
 * descriptor, too. When the worker has not polled a moment after a change, the thread makes
 * progress in its place until it does.
 */
#include "shared/transport/ofi/progress.h"

#include <sys/epoll.h>
#include <time.h>

#include "shared/base/thread.h"
#include "shared/transport/ofi/fabric.h"

#define MOMENT_NS 2000000
#define WAIT_MS 1

static bool worker_is_busy(const struct ofi_progress *progress, unsigned polls)
{
    return !atomic_load(&progress->ends) && atomic_load(&progress->polls) == polls;
}

/* Progress without taking completions: those are the worker's. While it leaves them there,
 * fi_trywait() would never let the thread wait. Returns whether a change has come since, for which
 * progress is to be made. */
static bool make_progress(struct ofi_endpoint *ep)
{
    struct epoll_event change;

    fi_cq_read(ep->cq, NULL, 0);
    return epoll_wait(ep->progress.wakeup.set, &change, 1, WAIT_MS) == 1;
}

static void *run(void *argument)
{
    struct ofi_endpoint *ep = argument;
    struct ofi_progress *progress = &ep->progress;
    const struct timespec moment = {.tv_nsec = MOMENT_NS};
    struct epoll_event change;
    bool has_changed = false; /* which the worker's latest poll may have missed */

    while (!atomic_load(&progress->ends)) {
        if (!has_changed)
            epoll_wait(progress->wakeup.set, &change, 1, -1);
        has_changed = false;
        unsigned polls = atomic_load(&progress->polls);
        nanosleep(&moment, NULL);
        while (worker_is_busy(progress, polls)) {
            has_changed = make_progress(ep);
            /* It may sleep, and the change that would wake it may have been taken here. */
            okv_wakeup_signal(&ep->wakeup);
        }
    }
    return NULL;
}

static int fail(int rc, const char *why, struct okv_diag *diag)
{
    return okv_diag_set(diag, rc, "cannot serve READs while a worker is busy: %s", why);
}

int okv_ofi_progress_start(struct ofi_endpoint *endpoint, struct okv_diag *diag)
{
    struct ofi_progress *progress = &endpoint->progress;

    if (endpoint->fabric->is_one_sided)
        return 0;
    struct okv_diag why;
    int queue;
    int rc = fi_control(&endpoint->cq->fid, FI_GETWAIT, &queue);
    if (rc)
        return fail(okv_ofi_error(rc), fi_strerror(-rc), diag);
    rc = okv_wakeup_open(&progress->wakeup, false, diag);
    if (rc)
        return rc;
    rc = okv_wakeup_watch(&progress->wakeup, queue, OFI_QUEUE_EVENTS, diag);
    if (rc)
        goto close_wakeup;
    rc = okv_thread_start(&progress->thread, run, endpoint, &why);
    if (rc) {
        fail(rc, why.text, diag);
        goto close_wakeup;
    }
    progress->runs = true;
    return 0;

close_wakeup:
    okv_wakeup_close(&progress->wakeup);
    return rc;
}

void okv_ofi_progress_stop(struct ofi_endpoint *endpoint)
{
    struct ofi_progress *progress = &endpoint->progress;

    if (!progress->runs)
        return;
    atomic_store(&progress->ends, true);
    okv_wakeup_signal(&progress->wakeup);
    pthread_join(progress->thread, NULL);
    okv_wakeup_close(&progress->wakeup);
    progress->runs = false;
}
