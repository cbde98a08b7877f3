#include "shared/base/forks.h"

#include <pthread.h>
#include <stdatomic.h>

/* Of the process, as what it tells of is. */
static atomic_bool is_child;

static void note_child(void)
{
    is_child = true;
}

static void watch(void)
{
    pthread_atfork(NULL, NULL, note_child);
}

void okv_forks_watch(void)
{
    static pthread_once_t watching = PTHREAD_ONCE_INIT;

    pthread_once(&watching, watch);
}

bool okv_forks_is_child(void)
{
    return is_child;
}
