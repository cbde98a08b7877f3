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
    uint32_t max_work;        /* outstanding work requests of a queue pair */
    uint32_t max_sge;         /* pieces of memory of one request */
    uint32_t max_inline;      /* bytes of a message that a work request may contain; 0: unknown */
    uint32_t reads_out;       /* outstanding READs of a queue pair, as their initiator */
    uint32_t reads_in;        /* as their target */
    bool is_iwarp;            /* its connection manager is another: okv cannot use it */
};

/* Bytes of a message that a queue pair takes inline, from the most that okv asks for downwards, as
 * devices have them: mlx5 956, irdma 101, bnxt_re and erdma 96 (rdma-core 65, providers/). A device
 * refuses a queue pair for more than it can. */
#define OKV_INLINE_SIZES                    \
    {                                       \
        1024, 512, 256, 128, 101, 96, 64, 0 \
    }

/* What to do about a device that speaks iWARP, as its driver can: a part of a sentence, static.
 * `root` precedes /sys; it is "" except in tests. */
const char *okv_iwarp_cure(const char *root, const char *device);

/* Opens the device, queries it (ibv_query_device(3)), and closes it. OKV_ENODEVICE: there is none
 * of this name with a driver for libibverbs, or it cannot be opened; `diag` says which. OKV_EIO. */
int okv_device_limits_read(const char *device, struct okv_device_limits *out,
                           struct okv_diag *diag);

#endif
