/*
 * One call at a time. A second thread in a call of a handle, a callback that calls it, and a child
 * that uses its parent's are refused before they change anything of the handle. An exchange and not
 * a load and a store: of threads that enter at the same moment one passes.
 */
#ifndef OKV_CLIENT_API_ENTER_H
#define OKV_CLIENT_API_ENTER_H

#include <stdatomic.h>

#include "client/handle.h"

/* handle->mark: no call is running. Else it is the id of a thread, or 0 in a child: the kernel
 * clears the page of the mark when a process forks. */
#define MARK_FREE UINT32_MAX

/* The mark of a new handle. OKV_ENOMEM. */
int mark_create(okv *handle);
void mark_destroy(okv *handle);

/* The id of this thread, or THREAD_UNKNOWN: also if its last call was refused. With this model an
 * access is two moves, and no call. */
#define THREAD_UNKNOWN (UINT32_MAX - 1)
extern _Thread_local uint32_t entering_thread __attribute__((tls_model("initial-exec")));

/* The rest of call_enter(), and of call_leave() after a refused callback and in a child that a
 * callback forked. */
int call_enter_slowly(okv *handle, const char *call) __attribute__((cold));
void refusal_forget(void) __attribute__((cold));
int call_leave_in_child(const okv *handle) __attribute__((cold));
/* The sentence of a call that was refused: OKV_EINVAL. */
int call_refuse(const okv *handle, const char *call) __attribute__((cold));
/* What okv_why() says of this thread's last call if it was one of this handle and was refused, or
 * of a handle that this thread may not use; else NULL. */
const char *call_refusal(const okv *handle);

static inline uint32_t mark_of(const okv *handle)
{
    return atomic_load_explicit(handle->mark, memory_order_relaxed);
}

/* True in a child, of its parent's handle. */
static inline bool handle_is_inherited(const okv *handle)
{
    return mark_of(handle) == 0;
}

/* Takes a handle that no call has; else *found is its mark. */
static inline bool mark_take(okv *handle, uint32_t thread, uint32_t *found)
{
    *found = MARK_FREE;
    return atomic_compare_exchange_strong_explicit(handle->mark, found, thread,
                                                   memory_order_acquire, memory_order_relaxed);
}

/* Begins a call by its name: 0, or OKV_EINVAL, and the call must end without touching the handle.
 */
static inline int call_enter(okv *handle, const char *call)
{
    uint32_t thread = entering_thread, found;

    if (thread == THREAD_UNKNOWN || !mark_take(handle, thread, &found))
        return call_enter_slowly(handle, call);
    return 0;
}

/* Ends it. Returns `rc`. */
static inline int call_leave(okv *handle, int rc)
{
    if (handle_is_inherited(handle))
        return call_leave_in_child(handle);
    if (entering_thread == THREAD_UNKNOWN) /* okv_why() is about this call, not its callback's */
        refusal_forget();
    atomic_store_explicit(handle->mark, MARK_FREE, memory_order_release);
    return rc;
}

/* For calls that only look: true, or OKV_EINVAL is explained as by call_enter(). */
static inline bool call_may_look(const okv *handle, const char *call)
{
    return mark_of(handle) == MARK_FREE || call_refuse(handle, call) == 0;
}

#endif
