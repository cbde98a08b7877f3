#include "shared/base/fork_guard.h"

#include <pthread.h>
#include <stdatomic.h>

/* One per process, as a fork copies a process. */
static atomic_bool is_child;

static void note_child(void)
{
    is_child = true;
}

static void watch(void)
{
    pthread_atfork(NULL, NULL, note_child);
}

void okv_fork_guard_start(void)
{
    static pthread_once_t watching = PTHREAD_ONCE_INIT;

    pthread_once(&watching, watch);
}

bool okv_fork_guard_is_child(void)
{
    return is_child;
}
