/*
 * Memory ordering, each step named by what it is for.
 *
 * A writer fills an extent, then publishes the bucket that refers to it; a
 * reader takes the bucket, then the extent. okv_publish_fence() and
 * okv_snapshot_fence() pair with each other and keep those two steps in order
 * between CPUs (on local; a device orders its READs by itself). They promise nothing about one RDMA
 * READ: the device may fetch the cache lines of a READ in any order and a retried READ fetches them
 * again (docs/consistency.md section 2), which is why every image carries a checksum over the whole
 * of it.
 */
#ifndef OKV_SHARED_BASE_ORDERING_H
#define OKV_SHARED_BASE_ORDERING_H

#include <stdatomic.h>

/* Writer: everything stored before is visible before anything stored after. */
static inline void okv_publish_fence(void)
{
    atomic_thread_fence(memory_order_release);
}

/* Reader: everything loaded before was loaded before anything loaded after. */
static inline void okv_snapshot_fence(void)
{
    atomic_thread_fence(memory_order_acquire);
}

#endif
