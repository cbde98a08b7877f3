/* How much memory this process may use. */
#ifndef OKV_SHARED_BASE_MEMORY_LIMIT_H
#define OKV_SHARED_BASE_MEMORY_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* The lowest limit of the own control group and of those above it, of either version, read below
 * `root`, which is "" except in tests. False: there is none. */
bool okv_memory_limit(const char *root, uint64_t *bytes);

#endif
