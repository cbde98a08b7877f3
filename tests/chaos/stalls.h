/*
 * When this machine did not run the test: a promise in seconds says nothing about such time. A
 * thread on each processor sleeps for a moment, over and over, and notes by how much it overslept.
 * A client or server that hangs lets these threads sleep as they want, so that it is not excused.
 */
#ifndef OKV_TESTS_STALLS_H
#define OKV_TESTS_STALLS_H

#include <stdint.h>

/* Watches from here to the end of the process. */
void stalls_watch(void);
/* For how long processors stood still between two moments, all of them added up. */
uint64_t stalls_between(uint64_t from_ns, uint64_t to_ns);

#endif
