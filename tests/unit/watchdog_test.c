/* A service manager learns of a worker that stands still: by silence. */
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "server/core/server.h"
#include "server/worker/worker.h"

#define WORKERS 3u

TEST(all_workers_have_to_go_on)
{
    struct okv_server *server = calloc(1, sizeof *server);
    struct okv_worker *workers = calloc(WORKERS, sizeof *workers);
    eventfd_t wakes;

    server->config.workers = WORKERS;
    server->workers = workers;
    for (unsigned i = 0; i < WORKERS; i++)
        server->worker_signals[i].fd = eventfd(0, EFD_NONBLOCK);
    for (unsigned i = 0; i < WORKERS; i++) {
        assert_false(okv_workers_go_on(server)); /* the others have not begun */
        atomic_fetch_add(&workers[i].passes, 1);
    }
    for (unsigned i = 0; i < WORKERS; i++)
        atomic_fetch_add(&workers[i].passes, 5);
    assert_true(okv_workers_go_on(server));
    assert_false(okv_workers_go_on(server));
    for (unsigned i = 0; i < WORKERS; i++) {
        assert_int_equal(eventfd_read(server->worker_signals[i].fd, &wakes),
                         0); /* one that sleeps is no corpse */
        assert_int_equal(wakes, WORKERS + 2);
        close(server->worker_signals[i].fd);
    }
    free(workers);
    free(server);
}
