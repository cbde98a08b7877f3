/* Threads that do not run by themselves: the fuzzed server's. */
#ifndef OKV_TESTS_FUZZ_THREADS_H
#define OKV_TESTS_FUZZ_THREADS_H

/* A thread was created while fuzz_time_is_active(): the fixture runs it when it chooses. */
void fuzz_thread_begin(void *(*run)(void *), void *user);

#endif
