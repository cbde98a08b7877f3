/*
 * Serves READs while a worker is busy.
 *
 * A provider over TCP serves a READ of the region when this process makes progress on its endpoint
 * (man fi_domain, data_progress). A worker makes it by polling, and one that sleeps is woken by the
 * queue's descriptor. A worker with a long request does neither. This thread looks whether the
 * worker has polled since it last looked, and makes progress in its place until it does.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "shared/transport/ofi/ofi.h"

#define TICK_NS 2000000
#define WAIT_MS 1

static bool worker_is_busy(struct ofi_progress *progress, unsigned polls)
{
    return !atomic_load_explicit(&progress->stop, memory_order_relaxed) &&
           !atomic_load_explicit(&progress->asleep, memory_order_relaxed) &&
           atomic_load_explicit(&progress->polls, memory_order_relaxed) == polls;
}

/* Progress without taking completions: those are the worker's. */
static void make_progress(struct ofi_endpoint *ep, int changes)
{
    struct fid *fid = &ep->cq->fid;
    struct epoll_event change;

    fi_cq_read(ep->cq, NULL, 0);
    if (fi_trywait(ep->fabric->fabric, &fid, 1) == 0)
        epoll_wait(changes, &change, 1, WAIT_MS);
}

static void *run(void *argument)
{
    struct ofi_endpoint *ep = argument;
    struct ofi_progress *progress = &ep->progress;
    const struct timespec tick = {.tv_nsec = TICK_NS};
    while (!atomic_load_explicit(&progress->stop, memory_order_relaxed)) {
        unsigned polls = atomic_load_explicit(&progress->polls, memory_order_relaxed);
        nanosleep(&tick, NULL);
        while (worker_is_busy(progress, polls))
            make_progress(ep, progress->changes);
    }
    return NULL;
}

int okv_ofi_progress_start(struct ofi_endpoint *endpoint, struct okv_diag *diag)
{
    struct ofi_progress *progress = &endpoint->progress;

    struct epoll_event event = {.events = OFI_QUEUE_EVENTS};
    int queue, errnum;

    if (endpoint->fabric->is_one_sided)
        return 0;
    progress->changes = epoll_create1(EPOLL_CLOEXEC);
    if (progress->changes < 0 || fi_control(&endpoint->cq->fid, FI_GETWAIT, &queue) ||
        epoll_ctl(progress->changes, EPOLL_CTL_ADD, queue, &event)) {
        errnum = errno;
        goto fail;
    }
    errnum = pthread_create(&progress->thread, NULL, run, endpoint);
    if (errnum)
        goto fail;
    progress->runs = true;
    return 0;

fail:
    if (progress->changes >= 0)
        close(progress->changes);
    return okv_diag_set(diag, okv_error_from_errno(errnum),
                        "no thread that serves READs while a worker is busy: %s", strerror(errnum));
}

void okv_ofi_progress_stop(struct ofi_endpoint *endpoint)
{
    struct ofi_progress *progress = &endpoint->progress;

    if (!progress->runs)
        return;
    atomic_store(&progress->stop, true);
    pthread_join(progress->thread, NULL);
    close(progress->changes);
    progress->runs = false;
}
