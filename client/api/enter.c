#include "client/api/enter.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shared/base/error.h"

#define REFUSAL_TEXT 192

_Thread_local uint32_t entering_thread = THREAD_UNKNOWN;

/* What this thread was refused last. */
static _Thread_local struct {
    const okv *handle; /* NULL: nothing, or it has called since */
    char text[REFUSAL_TEXT];
} refusal;

/* A child has the thread that forked, under another id. */
static void thread_forget(void)
{
    entering_thread = THREAD_UNKNOWN;
}

static void forks_watch(void)
{
    pthread_atfork(NULL, NULL, thread_forget);
}

static void thread_learn(void)
{
    static pthread_once_t watching = PTHREAD_ONCE_INIT;

    pthread_once(&watching, forks_watch);
    entering_thread = (uint32_t)gettid();
}

int mark_create(okv *handle)
{
    void *page = mmap(NULL, sizeof *handle->mark, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return OKV_ENOMEM;
    madvise(page, sizeof *handle->mark, MADV_WIPEONFORK);
    refusal.handle = NULL; /* of an earlier handle at the same address */
    handle->mark = page;
    handle->process = getpid();
    *handle->mark = MARK_FREE;
    return 0;
}

void mark_destroy(okv *handle)
{
    if (handle->mark)
        munmap(handle->mark, sizeof *handle->mark);
}

/* Why a handle with this mark is not this thread's. */
static void refusal_write(const okv *handle, const char *call, uint32_t mark)
{
    if (mark == 0)
        snprintf(refusal.text, sizeof refusal.text,
                 "%s: the handle is that of process %d, which has forked this one: open another "
                 "after a fork",
                 call, (int)handle->process);
    else if (mark == entering_thread)
        snprintf(refusal.text, sizeof refusal.text,
                 "%s: a call of this thread on the handle is running: its callback must make none",
                 call);
    else
        snprintf(
            refusal.text, sizeof refusal.text,
            "%s: thread %u is in a call on the handle, and this is thread %u: a handle belongs "
            "to one thread at a time",
            call, mark, entering_thread);
}

/* The next call_enter() of this thread is a slow one, and forgets it. */
static int refuse(const okv *handle, const char *call, uint32_t mark)
{
    refusal_write(handle, call, mark);
    refusal.handle = handle;
    entering_thread = THREAD_UNKNOWN;
    return OKV_EINVAL;
}

int call_refuse(const okv *handle, const char *call)
{
    uint32_t mark = mark_of(handle);

    if (mark == MARK_FREE) /* by now */
        return 0;
    thread_learn();
    return refuse(handle, call, mark);
}

int call_enter_slowly(okv *handle, const char *call)
{
    uint32_t found;

    thread_learn();
    if (!mark_take(handle, entering_thread, &found))
        return refuse(handle, call, found);
    refusal.handle = NULL;
    return 0;
}

void refusal_forget(void)
{
    refusal.handle = NULL;
}

int call_leave_in_child(const okv *handle)
{
    return refuse(handle, "this call", 0);
}

const char *call_refusal(const okv *handle)
{
    if (refusal.handle != handle && call_may_look(handle, "okv_why"))
        return NULL;
    return refusal.text;
}
