/*
 * Serves READs while a worker is busy.
 *
 * A provider over TCP serves a READ of the region when this process makes progress on its endpoint
 * (man fi_domain, data_progress). A worker makes it by polling, and one that sleeps is woken by the
 * queue's descriptor. A worker with a long request does neither. So this thread waits for the same
 * descriptor, too. When the worker has not polled a moment after a change, the thread makes
 * progress in its place until it does.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "shared/transport/ofi/ofi.h"

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
    return epoll_wait(ep->progress.changes, &change, 1, WAIT_MS) == 1;
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
            epoll_wait(progress->changes, &change, 1, -1);
        has_changed = false;
        unsigned polls = atomic_load(&progress->polls);
        nanosleep(&moment, NULL);
        while (worker_is_busy(progress, polls)) {
            has_changed = make_progress(ep);
            okv_ofi_wake(&ep->base); /* it may sleep, and its own change have been taken here */
        }
    }
    return NULL;
}

static int open_changes(struct ofi_endpoint *ep)
{
    struct ofi_progress *progress = &ep->progress;
    struct epoll_event change = {.events = OFI_QUEUE_EVENTS}, end = {.events = EPOLLIN};
    int queue;
    int rc = fi_control(&ep->cq->fid, FI_GETWAIT, &queue);

    if (rc)
        return -rc;
    progress->changes = epoll_create1(EPOLL_CLOEXEC);
    progress->end_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (progress->changes < 0 || progress->end_fd < 0 ||
        epoll_ctl(progress->changes, EPOLL_CTL_ADD, queue, &change) ||
        epoll_ctl(progress->changes, EPOLL_CTL_ADD, progress->end_fd, &end))
        return errno;
    return 0;
}

static void close_changes(struct ofi_progress *progress)
{
    if (progress->changes >= 0)
        close(progress->changes);
    if (progress->end_fd >= 0)
        close(progress->end_fd);
}

int okv_ofi_progress_start(struct ofi_endpoint *endpoint, struct okv_diag *diag)
{
    struct ofi_progress *progress = &endpoint->progress;

    if (endpoint->fabric->is_one_sided)
        return 0;
    progress->changes = progress->end_fd = -1;
    int errnum = open_changes(endpoint);
    if (errnum == 0)
        errnum = pthread_create(&progress->thread, NULL, run, endpoint);
    if (errnum) {
        close_changes(progress);
        return okv_diag_set(diag, okv_error_from_errno(errnum),
                            "no thread that serves READs while a worker is busy: %s",
                            strerror(errnum));
    }
    progress->runs = true;
    return 0;
}

void okv_ofi_progress_stop(struct ofi_endpoint *endpoint)
{
    struct ofi_progress *progress = &endpoint->progress;
    const uint64_t one = 1;

    if (!progress->runs)
        return;
    atomic_store(&progress->ends, true);
    ssize_t n = write(progress->end_fd, &one, sizeof one);
    (void)n; /* of an eventfd that nobody else writes */
    pthread_join(progress->thread, NULL);
    close_changes(progress);
    progress->runs = false;
}
