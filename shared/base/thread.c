#include "shared/base/thread.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "shared/base/error.h"

/* glibc reports both a limit on threads and a lack of memory for the stack as EAGAIN. */
static bool has_room_for_stack(void)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK;
    pthread_attr_t attributes;
    size_t size = 0;

    if (pthread_attr_init(&attributes))
        return false;
    pthread_attr_getstacksize(&attributes, &size);
    pthread_attr_destroy(&attributes);
    void *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (stack == MAP_FAILED)
        return false;
    munmap(stack, size);
    return true;
}

static int explain(int errnum, struct okv_diag *why)
{
    if (errnum == EAGAIN && has_room_for_stack())
        return okv_diag_set(why, OKV_EPERM,
                            "no more threads: raise the limit on the user's processes and threads "
                            "(ulimit -u, LimitNPROC=) or the pids limit of the control group "
                            "(pids.max, TasksMax=)");
    if (errnum == EAGAIN || errnum == ENOMEM)
        return okv_diag_set(why, OKV_ENOMEM, "no memory for a thread");
    return okv_diag_set(why, okv_error_from_errno(errnum), "no thread: %s", strerror(errnum));
}

int okv_thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument,
                     struct okv_diag *why)
{
    int errnum = pthread_create(thread, NULL, run, argument);

    return errnum ? explain(errnum, why) : 0;
}
