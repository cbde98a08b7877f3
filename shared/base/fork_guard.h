/* Detects a forked child of a process that used RDMA: docs/fork.md. */
#ifndef OKV_SHARED_BASE_FORK_GUARD_H
#define OKV_SHARED_BASE_FORK_GUARD_H

#include <stdbool.h>

/* Starts to watch for forks. Call it before this process uses librdmacm, or libfabric, which uses
 * librdmacm. Any thread; further calls do nothing. */
void okv_fork_guard_start(void);
/* True if an ancestor called okv_fork_guard_start() before it forked. */
bool okv_fork_guard_is_child(void);

#endif
