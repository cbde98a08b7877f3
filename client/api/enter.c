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

#define ONE_THREAD "a handle belongs to one thread at a time"

static void mark_set(const okv *handle, uint32_t mark)
{
    atomic_store_explicit(handle->mark, mark, memory_order_relaxed);
}

/* Why a handle with this mark is not this thread's. */
static void refusal_write(const okv *handle, const char *call, uint32_t mark)
{
    if (mark == MARK_MIXED)
        snprintf(refusal.text, sizeof refusal.text,
                 "%s: two threads were in calls on the handle at the same time: " ONE_THREAD, call);
    else if (mark == 0)
        snprintf(refusal.text, sizeof refusal.text,
                 "%s: the handle is that of process %d, which has forked this one: open another "
                 "after a fork",
                 call, (int)handle->process);
    else if (mark == entering_thread)
        snprintf(refusal.text, sizeof refusal.text,
                 "%s: a call of this thread on the handle is running: its callback must make none",
                 call);
    else
        snprintf(refusal.text, sizeof refusal.text,
                 "%s: thread %u is in a call on the handle, and this is thread %u: " ONE_THREAD,
                 call, mark, entering_thread);
}

/* The next call_enter() of this thread is a slow one, and forgets it. */
static int refusal_keep(const okv *handle)
{
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
    refusal_write(handle, call, mark);
    if (mark == MARK_MIXED)
        mark_set(handle, MARK_FREE);
    return refusal_keep(handle);
}

int call_enter_slowly(okv *handle, const char *call)
{
    int rc = call_refuse(handle, call);

    if (rc)
        return rc;
    refusal.handle = NULL;
    thread_learn();
    mark_set(handle, entering_thread);
    return 0;
}

/* Another thread that is still in a call notices when it leaves. */
static uint32_t mark_left(uint32_t mark)
{
    if (mark == 0) /* a callback has forked, and this is the child */
        return 0;
    return mark == MARK_FREE || mark == MARK_MIXED ? MARK_FREE : MARK_MIXED;
}

int call_leave_slowly(okv *handle, int rc)
{
    uint32_t mark = mark_of(handle);

    if (mark == (uint32_t)gettid()) { /* a callback was refused */
        mark_set(handle, MARK_FREE);
        return rc;
    }
    mark_set(handle, mark_left(mark));
    refusal_write(handle, "this call", mark == 0 ? 0 : MARK_MIXED);
    return refusal_keep(handle);
}

const char *call_refusal(const okv *handle)
{
    if (refusal.handle != handle && call_may_look(handle, "okv_why"))
        return NULL;
    return refusal.text;
}
