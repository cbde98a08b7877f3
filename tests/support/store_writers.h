/* Two threads that put, get and delete the same keys of one store. */
#ifndef OKV_TESTS_STORE_WRITERS_H
#define OKV_TESTS_STORE_WRITERS_H

#include "tests/support/store_region.h"

#define WRITER_KEYS 60u /* "k0", "k1", ... */

/* Runs them to their end; fails the test when one saw a wrong result or a mixed value. */
void store_writers_run(struct store_region *region, uint32_t bucket_size);

#endif
