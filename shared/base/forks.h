/* Whether this process is a forked child of one that used RDMA: docs/fork.md. */
#ifndef OKV_SHARED_BASE_FORKS_H
#define OKV_SHARED_BASE_FORKS_H

#include <stdbool.h>

/* To be called before this process uses librdmacm, or libfabric, which uses it. Any thread. */
void okv_forks_watch(void);
/* An ancestor had called okv_forks_watch() before it forked. */
bool okv_forks_is_child(void);

#endif
