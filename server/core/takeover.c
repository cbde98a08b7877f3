#include "server/core/takeover.h"

#include <poll.h>
#include <signal.h>
#include <time.h>

/* Naps are counted, because a slow machine is slow to end the old server too. */
#define NAPS_MAX 250
#define NAP_NS 20000000

/* Main may have blocked them for the time when it serves. */
static void nap(void)
{
    const struct timespec time = {.tv_nsec = NAP_NS};
    sigset_t mask;

    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    sigdelset(&mask, SIGTERM);
    sigdelset(&mask, SIGINT);
    ppoll(NULL, 0, &time, &mask);
}

bool okv_takeover_wait(struct okv_takeover *takeover, const char *what)
{
    if (takeover->naps == NAPS_MAX)
        return false;
    if (takeover->naps++ == 0)
        okv_log_say(takeover->log, OKV_LOG_NOTICE, takeover->part,
                    "%s is in use: waiting up to 5 s for a server that may be ending", what);
    nap();
    return true;
}
