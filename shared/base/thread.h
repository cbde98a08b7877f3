/* Starting threads, and why there is no more of them. */
#ifndef OKV_SHARED_BASE_THREAD_H
#define OKV_SHARED_BASE_THREAD_H

#include <pthread.h>

#include "shared/base/diag.h"

/* Runs `run` with `argument` on a thread that the caller joins. Returns 0; OKV_EPERM: there are as
 * many threads as the limits allow, which `why` names; OKV_ENOMEM: no memory for its stack. */
int okv_thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument,
                     struct okv_diag *why);

#endif
