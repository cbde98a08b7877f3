/*
 * Time of the processor that stands still, however slow or busy the machine is: what a script does
 * is then decided by its counted work alone. Programs that link okv_test_resp have it in the place
 * of CLOCK_THREAD_CPUTIME_ID (--wrap).
 */
#ifndef OKV_TESTS_STILL_PROCESSOR_H
#define OKV_TESTS_STILL_PROCESSOR_H

#include <stdint.h>

/* As if so much had passed since the last look; 0 at first. */
extern uint64_t processor_each_look_ns;

#endif
