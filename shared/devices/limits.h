/* What an RDMA device can do, as far as okv depends on it. */
#ifndef OKV_SHARED_DEVICES_LIMITS_H
#define OKV_SHARED_DEVICES_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/diag.h"

struct okv_device_limits {
    char firmware[64];
    uint64_t max_region;      /* bytes of one registered region */
    uint32_t max_connections; /* queue pairs */
    uint32_t max_completions; /* entries of a completion queue */
    uint32_t max_work;        /* requests of a queue pair that may wait */
    uint32_t max_sge;         /* pieces of memory of one request */
    uint32_t max_inline;      /* bytes of a message that a request may have in itself; 0: unknown */
    uint32_t reads_out;       /* READs that a queue pair may have under way, as a client */
    uint32_t reads_in;        /* as a server */
    bool is_iwarp;            /* has no immediate data: okv cannot use it */
};

/* Opens the device, asks, and closes it (ibv_query_device(3)). OKV_ENODEVICE: there is none of this
 * name with a driver for libibverbs, or it cannot be opened; `diag` says which. OKV_EIO. */
int okv_device_limits_read(const char *device, struct okv_device_limits *out,
                           struct okv_diag *diag);

#endif
