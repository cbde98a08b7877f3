#include "tests/fuzz/fuzz_threads.h"

#include <pthread.h>

#include "tests/fuzz/fuzz_time.h"

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *user);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *user);
int __real_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *user)
{
    if (!fuzz_time_is_active())
        return __real_pthread_create(thread, attributes, run, user);
    fuzz_thread_begin(run, user);
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
    return fuzz_time_is_active() ? 0 : __real_pthread_join(thread, result);
}
